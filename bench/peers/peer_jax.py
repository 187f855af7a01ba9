"""JAX on the CPU: many rounds in one compiled loop, weights donated, no value on its way to the host in between. The
closed form is tried in two layouts and with two ways to draw noise, and the fastest is kept for each batch size; vmap is
what people write who let JAX make the per-example gradients."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from problem import (CLASSES, FEATURES, LEARNING_RATE, NOISE_MULTIPLIER, padded, poisson_batch)

PEERS = ["jax-closed-form", "jax-vmap"]
# Rounds whose noise is drawn at once in the variant that does so, and rounds whose batches the host draws at once.
CHUNK = 32


def rows_by_classes(features, one_hot, norms, weights, bias):
    residuals = jax.nn.softmax(features @ weights.T + bias, axis=1) - one_hot
    length = jnp.sqrt((residuals * residuals).sum(1)) * norms
    residuals = residuals * jnp.minimum(1, 1 / length)[:, None]
    return residuals.T @ features, residuals.sum(0)


def classes_by_rows(features, one_hot, norms, weights, bias):
    residuals = jax.nn.softmax(weights @ features.T + bias[:, None], axis=0) - one_hot.T
    length = jnp.sqrt((residuals * residuals).sum(0)) * norms
    residuals = residuals * jnp.minimum(1, 1 / length)
    return residuals @ features, residuals.sum(1)


def per_example(features, one_hot, norms, weights, bias):
    """Per-example gradients by vmap of grad, their norms and their clipped sum; the given norms of rows are not used."""
    del norms

    def loss(parameters, row, target):
        return -(jax.nn.log_softmax(parameters[0] @ row + parameters[1]) * target).sum()

    gradients = jax.vmap(jax.grad(loss), (None, 0, 0))((weights, bias), features, one_hot)
    squares = sum((gradient * gradient).reshape(len(gradient), -1).sum(1) for gradient in gradients)
    factor = jnp.minimum(1, 1 / jnp.sqrt(squares))
    return tuple(jnp.tensordot(factor, gradient, 1) for gradient in gradients)


def step(state, sums, noise, rate):
    weights, bias = state
    return weights - rate * (sums[0] + noise[:, :FEATURES]), bias - rate * (sums[1] + noise[:, FEATURES])


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def noise_in_the_round(clipped, state, batch, sigma, rate, rounds):
    def body(_, carried):
        state, key = carried
        key, drawn = jax.random.split(key)
        noise = sigma * jax.random.normal(drawn, (CLASSES, FEATURES + 1))
        return step(state, clipped(*batch, *state), noise, rate), key

    return lax.fori_loop(0, rounds, body, state)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def noise_ahead(clipped, state, batch, sigma, rate, rounds):
    """The same noise, drawn for CHUNK rounds at once, where XLA may spread it over threads."""

    def chunk(number, carried):
        state, key = carried
        key, drawn = jax.random.split(key)
        noise = sigma * jax.random.normal(drawn, (CHUNK, CLASSES, FEATURES + 1))
        here = jnp.minimum(CHUNK, rounds - number * CHUNK)
        state = lax.fori_loop(0, here, lambda t, state: step(state, clipped(*batch, *state), noise[t], rate), state)
        return state, key

    return lax.fori_loop(0, (rounds + CHUNK - 1) // CHUNK, chunk, state)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def sampled_rounds(clipped, state, rows, drawn, counts, sigma, rate):
    """Rounds on batches drawn by the host: indices padded to one length, padding with weight 0."""
    features, labels, norms = rows

    def body(t, carried):
        state, key = carried
        key, normal = jax.random.split(key)
        indices = drawn[t]
        there = jnp.arange(indices.size) < counts[t]
        chosen = features.at[indices].get(mode="promise_in_bounds")
        one_hot = jax.nn.one_hot(labels[indices], CLASSES)
        # An infinite norm clips a padded row to nothing.
        length = jnp.where(there, norms[indices], jnp.inf)
        noise = sigma * jax.random.normal(normal, (CLASSES, FEATURES + 1))
        return step(state, clipped(chosen, one_hot, length, *state), noise, rate), key

    return lax.fori_loop(0, len(drawn), body, state)


class Session:
    def __init__(self, problem, peer, kind, size, threads):
        del threads  # XLA takes the cores that the process may run on.
        self.kind, self.size = kind, size
        self.sigma, self.rate = jnp.float32(NOISE_MULTIPLIER), jnp.float32(LEARNING_RATE / size)
        self.generator = np.random.default_rng(1)
        self.reset()
        closed = {"rows × classes": rows_by_classes, "classes × rows": classes_by_rows}
        forms = closed if peer == "jax-closed-form" else {"vmap": per_example}
        if kind == "kernel":
            self.batch = tuple(
                jnp.asarray(part) for part in (problem.features[:size], problem.one_hot(size), problem.norms[:size])
            )
            loops = {"noise in the round": noise_in_the_round, "noise 32 rounds ahead": noise_ahead}
            if peer == "jax-vmap":
                loops.pop("noise 32 rounds ahead")
        else:
            self.rows = tuple(jnp.asarray(part) for part in (problem.features, problem.labels, problem.norms))
            loops = {"host draws 32 batches ahead": None}
        candidates = {f"{form}, {loop}": (forms[form], loops[loop]) for form in forms for loop in loops}
        trials = {}
        for name, (self.form, self.loop) in candidates.items():
            if len(candidates) == 1:
                break
            self.run(CHUNK if size <= 8000 else 1)
            times = []
            for _ in range(3):
                started = time.perf_counter()
                done = self.run(CHUNK if size <= 8000 else 2)
                times.append((time.perf_counter() - started) / done)
            trials[name] = min(times)
        self.chosen = min(trials, key=trials.get) if trials else next(iter(candidates))
        self.form, self.loop = candidates[self.chosen]

    def reset(self, weights=None):
        weights = np.zeros((CLASSES, FEATURES + 1), np.float32) if weights is None else weights
        state = (jnp.array(weights[:, :FEATURES]), jnp.array(weights[:, FEATURES]))
        self.state = (state, jax.random.key(1))

    def run(self, rounds):
        if self.kind == "kernel":
            self.state = self.loop(self.form, self.state, self.batch, self.sigma, self.rate, rounds)
        else:
            rounds = -(-rounds // CHUNK) * CHUNK
            for _ in range(rounds // CHUNK):
                drawn = np.zeros((CHUNK, padded(self.size)), np.int32)
                counts = np.empty(CHUNK, np.int32)
                for row in range(CHUNK):
                    batch = poisson_batch(self.generator, self.size)
                    counts[row] = len(batch)
                    drawn[row, : len(batch)] = batch
                self.state = sampled_rounds(self.form, self.state, self.rows, drawn, counts, self.sigma, self.rate)
        jax.block_until_ready(self.state[0])
        return rounds

    def noiseless(self, weights):
        kept = self.sigma, self.rate
        self.sigma, self.rate = jnp.float32(0), jnp.float32(1 / self.size)
        self.reset(weights)
        self.run(1)
        after = np.concatenate([np.asarray(self.state[0][0]), np.asarray(self.state[0][1])[:, None]], 1)
        self.sigma, self.rate = kept
        self.reset()
        return after
