"""jax-privacy: clipped_grad over a whole batch as by default, with rows gathered on the host; and tuned: micro-batches of
the fastest size, or none where the mask of padded rows alone makes XLA fuse the passes over gradients better, with rows
gathered on the device. Both jitted, with the library's Poisson sampler and its privatizer."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import batch_selection, clipping, noise_addition
from problem import (CLASSES, CLIP_NORM, FEATURES, LEARNING_RATE, NOISE_MULTIPLIER, ROWS, padded)

PEERS = ["jax-privacy", "jax-privacy-micro-batched"]


def loss(parameters, row, target):
    """Of one example."""
    return -jax.nn.log_softmax(parameters["weights"] @ row + parameters["bias"])[target]


class Session:
    def __init__(self, problem, peer, kind, size, threads):
        del threads  # XLA takes the cores that the process may run on.
        self.problem, self.kind, self.size = problem, kind, size
        self.tuned = peer == "jax-privacy-micro-batched"
        if kind == "kernel":
            self.fixed = (jnp.asarray(problem.features[:size]), jnp.asarray(problem.labels[:size]))
            self.padding = {"is_padding_example": jnp.zeros(size, bool)} if self.tuned else {}
        elif self.tuned:
            self.rows = (jnp.asarray(problem.features), jnp.asarray(problem.labels))
        self.generator = np.random.default_rng(1)
        if kind == "kernel":
            sizes = [None, *(micro for micro in (32, 125, 250, 500) if micro < size and size % micro == 0)]
        else:
            sizes = [None, *(micro for micro in (128, 256, 512) if micro <= size)]
        if size > 2000:
            # A whole batch's gradients are gigabytes.
            sizes = sizes[1:] if size <= 8000 else sizes[-1:]
        candidates = sizes if self.tuned else [None]
        trials = {}
        for micro in candidates:
            self.prepare(micro)
            if len(candidates) > 1:
                self.run(2 if size <= 8000 else 1)
                # The best of several: whatever else runs on the machine only slows a trial.
                times = []
                for _ in range(5 if size <= 8000 else 1):
                    started = time.perf_counter()
                    self.run(1)
                    times.append(time.perf_counter() - started)
                trials[micro] = min(times)
        best = min(trials, key=trials.get) if trials else candidates[0]
        if self.micro != best:
            self.prepare(best)
        self.chosen = ("whole batch" + (", with the mask" if self.tuned else "")) if best is None else f"micro-batches of {best}"
        if kind != "kernel":
            self.chosen += ", rows gathered on the device" if self.tuned else ", rows gathered on the host"

    def prepare(self, micro):
        self.micro = micro
        self.batches = None
        self.length = self.size if self.kind == "kernel" else -(-padded(self.size) // (micro or 1)) * (micro or 1)
        grad = clipping.clipped_grad(
            loss, l2_clip_norm=CLIP_NORM, batch_argnums=(1, 2), keep_batch_dim=False, microbatch_size=micro
        )
        privatizer = noise_addition.gaussian_privatizer(stddev=NOISE_MULTIPLIER * grad.sensitivity(), prng_key=1)
        rate = LEARNING_RATE / self.size

        def update(parameters, noise_state, *batch, **padding):
            sums = grad(parameters, *batch, **padding)
            noised, noise_state = privatizer.update(sums, noise_state)
            return jax.tree.map(lambda p, g: p - rate * g, parameters, noised), noise_state

        def gathered(parameters, noise_state, rows, indices):
            features, labels = rows
            batch = features[indices], labels[indices]
            return update(parameters, noise_state, *batch, is_padding_example=indices < 0)

        self.grad = jax.jit(grad.fun)
        self.update = jax.jit(update, donate_argnums=(0, 1))
        self.gathered = jax.jit(gathered, donate_argnums=(0, 1))
        self.parameters = {"weights": jnp.zeros((CLASSES, FEATURES)), "bias": jnp.zeros(CLASSES)}
        self.noise_state = privatizer.init(self.parameters)

    def indices(self):
        """A Poisson batch of the library's sampler, padded with -1 to one length."""
        while True:
            if self.batches is None:
                sampler = batch_selection.CyclicPoissonSampling(sampling_prob=self.size / ROWS, iterations=10_000)
                self.batches = sampler.batch_iterator(ROWS, rng=self.generator)
            drawn = next(self.batches, None)
            if drawn is not None:
                return batch_selection.split_and_pad_global_batch(drawn, self.length, self.micro)[0]
            self.batches = None

    def run(self, rounds):
        for _ in range(rounds):
            state = self.parameters, self.noise_state
            if self.kind == "kernel":
                state = self.update(*state, *self.fixed, **self.padding)
            else:
                indices = self.indices().astype(np.int32)
                if self.tuned:
                    state = self.gathered(*state, self.rows, indices)
                else:
                    batch = self.problem.features[indices], self.problem.labels[indices]
                    state = self.update(*state, *batch, is_padding_example=indices < 0)
            self.parameters, self.noise_state = state
        jax.block_until_ready(self.parameters)
        return rounds

    def noiseless(self, weights):
        parameters = {"weights": jnp.asarray(weights[:, :FEATURES]), "bias": jnp.asarray(weights[:, FEATURES])}
        sums = self.grad(parameters, *self.fixed, **self.padding)
        sums = np.concatenate([np.asarray(sums["weights"]), np.asarray(sums["bias"])[:, None]], 1)
        return weights - sums / self.size
