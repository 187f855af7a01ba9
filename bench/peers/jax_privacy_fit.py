"""DP-SGD for softmax regression with jax-privacy, as an estimator: the rounds, batches, steps and clip norm of a run of `rounds`, its
own sampler, clipping and noise, calibrated by dp_accounting. The fastest micro-batch is found before the clock starts, and JAX compiles
there, too."""

import functools
import time

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import pld
from jax_privacy import batch_selection, clipping, noise_addition
from planned_fit import Planned


def loss(parameters, row, target):
    """Of one example."""
    return -jax.nn.log_softmax(parameters["weights"] @ row + parameters["bias"])[target]


@functools.cache
def noise(epsilon, delta, rate, rounds):
    """The least noise multiplier, by the library's accountant."""

    def event(noise_multiplier):
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))
        return dp_accounting.SelfComposedDpEvent(step, rounds)

    return dp_accounting.calibrate_dp_mechanism(pld.PLDAccountant, event, epsilon, delta)


class JaxPrivacy(Planned):
    def prepare(self, X, y):
        """All that is done once for rows of this shape."""
        self.rate = self.batch / len(X)
        self.multiplier = noise(self.epsilon, self.delta, self.rate, self.rounds)
        self.rows = jnp.asarray(X, jnp.float32), jnp.asarray(np.searchsorted(self.classes, y))
        times = {}
        for micro in (None, 128, 256, 512):
            if micro is None and self.batch * X.shape[1] * len(self.classes) > 2e8:
                continue
            self.build(X.shape[1], micro)
            self.loop(2)
            started = time.perf_counter()
            self.loop(2)
            times[micro] = time.perf_counter() - started
        self.build(X.shape[1], min(times, key=times.get))
        self.loop(2)
        return self

    def build(self, features, micro):
        self.micro, self.features = micro, features
        # Batches of one padded length: six deviations above the mean.
        longest = int(self.batch + 6 * self.batch**0.5)
        self.length = -(-longest // (micro or 1)) * (micro or 1)
        grad = clipping.clipped_grad(loss, l2_clip_norm=self.clip, batch_argnums=(1, 2), keep_batch_dim=False, microbatch_size=micro)
        privatizer = noise_addition.gaussian_privatizer(stddev=self.multiplier * grad.sensitivity(), prng_key=self.seed + 1)

        def update(parameters, velocity, state, rows, indices, step):
            sums = grad(parameters, rows[0][indices], rows[1][indices], is_padding_example=indices < 0)
            noised, state = privatizer.update(sums, state)
            velocity = jax.tree.map(lambda v, g: self.momentum * v + g, velocity, noised)
            return jax.tree.map(lambda p, v: p - step * v, parameters, velocity), velocity, state

        self.update, self.privatizer = jax.jit(update), privatizer

    def loop(self, rounds):
        parameters = {"weights": jnp.zeros((len(self.classes), self.features)), "bias": jnp.zeros(len(self.classes))}
        velocity, state = jax.tree.map(jnp.zeros_like, parameters), self.privatizer.init(parameters)
        sampler = batch_selection.CyclicPoissonSampling(sampling_prob=self.rate, iterations=rounds)
        drawn_batches = sampler.batch_iterator(len(self.rows[1]), rng=np.random.default_rng(self.seed))
        for drawn, step in zip(drawn_batches, self.steps / self.batch):
            indices = batch_selection.split_and_pad_global_batch(drawn[: self.length], self.length, self.micro)[0].astype(np.int32)
            parameters, velocity, state = self.update(parameters, velocity, state, self.rows, indices, step)
        parameters = jax.block_until_ready(parameters)
        self.weights, self.bias = np.asarray(parameters["weights"]), np.asarray(parameters["bias"])

    def fit(self, X, y):
        self.loop(self.rounds)
        self.privacy_ = {"epsilon": self.epsilon, "delta": self.delta}
        return self
