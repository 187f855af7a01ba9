#!/usr/bin/env python3
"""A private step of the network cnn-550k (550,570 parameters, CIFAR-10's shape), clipped per example: `rounds`, Opacus (hooks and ghost
clipping), jax-privacy, and JAX (vmap of the gradient), the latter two in micro-batches, in turn; and a step of `rounds` without privacy.

    target/peers/venv/bin/python bench/peers/network.py [--rounds target/release/rounds] [--batch 500] [--samples 3] [--only opacus-ghost]

`make peers` sets up the environment. A step of `rounds` is the difference of whole runs of nine rounds and one, on CIFAR-10 in ROUNDS_DATA;
the others step on one given batch of random bytes. Prints a table, medians with the least and the greatest sample.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CHANNELS = [32, 32, None, 64, 64, None, 128, 128, None]
CLIP_NORM, NOISE_MULTIPLIER, LEARNING_RATE = 1.0, 1.0, 0.5


def spent(work):
    """Seconds of the clock, and of the processor, in this process and in its children."""
    processor = lambda: sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    before = np.array([time.perf_counter(), processor()])
    work()
    return np.array([time.perf_counter(), processor()]) - before


class Rounds:
    PRIVATE = ["--algorithm", "dp-sgd", "--clip-norm", "1", "--noise-multiplier", "1", "--delta", "1e-5"]
    PLAIN = ["--algorithm", "sgd"]

    def __init__(self, given, options):
        self.given, self.options = given, options

    def run_of(self, rounds):
        command = [self.given.rounds, "train", "--data", "cifar10", "--model-kind", "cnn-550k", *self.options]
        command += ["--batch-size", str(self.given.batch), "--sampling", "fixed", "--set", f"rounds={rounds}"]
        command += ["--learning-rate", "0.5", "--threads", str(self.given.threads)]
        return spent(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def seconds(self):
        return (self.run_of(9) - self.run_of(1)) / 8


class Opacus:
    def __init__(self, given, mode):
        import torch
        from opacus import PrivacyEngine

        torch.set_num_threads(given.threads)
        layers, before = [], 3
        for channels in CHANNELS:
            if channels is None:
                layers.append(torch.nn.MaxPool2d(2))
            else:
                layers += [torch.nn.Conv2d(before, channels, 3, padding=1), torch.nn.Tanh()]
                before = channels
        layers += [torch.nn.Flatten(), torch.nn.Linear(128 * 16, 128), torch.nn.Tanh(), torch.nn.Linear(128, 10)]
        module = torch.nn.Sequential(*layers)
        assert sum(parameter.numel() for parameter in module.parameters()) == 550_570
        generator = torch.Generator().manual_seed(1)
        self.images = torch.rand((given.batch, 3, 32, 32), generator=generator)
        self.labels = torch.randint(0, 10, (given.batch,), generator=generator)
        made = PrivacyEngine().make_private(
            module=module, optimizer=torch.optim.SGD(module.parameters(), lr=LEARNING_RATE), criterion=torch.nn.CrossEntropyLoss(),
            data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(self.images, self.labels), batch_size=given.batch),
            noise_multiplier=NOISE_MULTIPLIER, max_grad_norm=CLIP_NORM, grad_sample_mode=mode, poisson_sampling=False)
        if len(made) == 4:
            self.model, self.optimizer, self.criterion, _ = made
        else:
            (self.model, self.optimizer, _), self.criterion = made, torch.nn.CrossEntropyLoss()
        self.step()

    def step(self):
        self.optimizer.zero_grad()
        self.criterion(self.model(self.images), self.labels).backward()
        self.optimizer.step()

    def seconds(self):
        return spent(self.step)


class Jax:
    """Per-example gradients by vmap, a micro-batch at a time in one compiled scan; or by jax-privacy, which scans by itself."""

    MICRO_BATCH = 25

    def __init__(self, given, by_library=False):
        os.environ.setdefault("XLA_FLAGS", f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={given.threads}")
        import jax
        import jax.numpy as jnp

        self.jax, keys = jax, iter(jax.random.split(jax.random.key(1), 64))
        weights, before = [], 3
        for channels in filter(None, CHANNELS):
            weights.append((jax.random.normal(next(keys), (3, 3, before, channels)) * (9 * before) ** -0.5, jnp.zeros(channels)))
            before = channels
        for inputs, outputs in [(2048, 128), (128, 10)]:
            weights.append((jax.random.normal(next(keys), (inputs, outputs)) * inputs**-0.5, jnp.zeros(outputs)))
        assert sum(leaf.size for leaf in jax.tree.leaves(weights)) == 550_570
        self.weights = weights
        micro = self.MICRO_BATCH
        images = jax.random.uniform(next(keys), (given.batch // micro, micro, 32, 32, 3))
        labels = jax.random.randint(next(keys), (given.batch // micro, micro), 0, 10)

        def loss(weights, image, label):
            x, rest = image[None], list(weights)
            for channels in CHANNELS:
                if channels is None:
                    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
                else:
                    kernel, bias = rest.pop(0)
                    x = jnp.tanh(jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias)
            (first, one), (second, two) = rest
            return -jax.nn.log_softmax(jnp.tanh(x.reshape(-1) @ first + one) @ second + two)[label]

        def clipped(weights, image, label):
            gradient = jax.grad(loss)(weights, image, label)
            norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))
            return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, CLIP_NORM / norm), gradient)

        def step(weights, key):
            def add(sums, batch):
                gradients = jax.vmap(clipped, (None, 0, 0))(weights, *batch)
                return jax.tree.map(lambda total, own: total + own.sum(0), sums, gradients), None

            sums, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, weights), (images, labels))
            leaves, tree = jax.tree.flatten(sums)
            noise = [NOISE_MULTIPLIER * CLIP_NORM * jax.random.normal(own, leaf.shape) for own, leaf in zip(jax.random.split(key, len(leaves)), leaves)]
            noisy = jax.tree.unflatten(tree, [leaf + own for leaf, own in zip(leaves, noise)])
            return jax.tree.map(lambda weight, own: weight - LEARNING_RATE / given.batch * own, weights, noisy)

        if by_library:
            step = self.by_library(loss, images.reshape(-1, 32, 32, 3), labels.reshape(-1))
        self.compiled, self.key = jax.jit(step), next(keys)
        self.seconds()

    def by_library(self, loss, images, labels):
        from jax_privacy import clipping, noise_addition

        gradient = clipping.clipped_grad(
            loss, l2_clip_norm=CLIP_NORM, batch_argnums=(1, 2), keep_batch_dim=False, microbatch_size=self.MICRO_BATCH)
        privatizer = noise_addition.gaussian_privatizer(stddev=NOISE_MULTIPLIER * gradient.sensitivity(), prng_key=1)
        state = privatizer.init(self.weights)

        def step(weights, _):
            noisy, _ = privatizer.update(gradient(weights, images, labels), state)
            return self.jax.tree.map(lambda weight, own: weight - LEARNING_RATE / len(images) * own, weights, noisy)

        return step

    def seconds(self):
        return spent(lambda: self.jax.block_until_ready(self.compiled(self.weights, self.key)))


PEERS = {
    "rounds": lambda given: Rounds(given, Rounds.PRIVATE),
    "rounds-plain": lambda given: Rounds(given, Rounds.PLAIN),
    "opacus-hooks": lambda given: Opacus(given, "hooks"),
    "opacus-ghost": lambda given: Opacus(given, "ghost"),
    "jax-privacy": lambda given: Jax(given, by_library=True),
    "jax-vmap": Jax,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", default=str(ROOT / "target" / "release" / "rounds"), metavar="PATH")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--only", default=",".join(PEERS), metavar="PEERS")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    peers = {name: PEERS[name](given) for name in given.only.split(",")}
    samples = {name: [] for name in peers}
    for _ in range(given.samples):
        for name, peer in peers.items():
            samples[name].append(peer.seconds())
            clock, processor = samples[name][-1]
            print(f"{name}: {clock:.2f} s, {processor:.2f} s of the processor, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(f"Seconds of a private step of cnn-550k, {given.batch} examples, {given.threads} threads, load {os.getloadavg()[2]:.1f}.\n")
    print("| library | seconds | of the processor | least – greatest | over rounds, by processor |\n| --- | ---: | ---: | ---: | ---: |")
    medians = {name: np.median(own, axis=0) for name, own in samples.items()}
    base = medians["rounds"][1] if "rounds" in medians else float("nan")
    for name, (clock, processor) in sorted(medians.items(), key=lambda item: item[1][1]):
        own = [sample[1] for sample in samples[name]]
        print(f"| {name} | {clock:.2f} | {processor:.2f} | {min(own):.2f} – {max(own):.2f} | {processor / base:.2f} |")


if __name__ == "__main__":
    main()
