"""Correlated noise in a loop of JAX: private logistic regression by DP-FTRL's rule."""

import jax
import jax.numpy as jnp
import numpy as np

import rounds

random = np.random.default_rng(0)
X = random.uniform(-1, 1, (4_000, 10)).astype(np.float32)
y = np.sign(X.sum(axis=1)).astype(np.float32)
batch, epochs, clip = 200, 5, 1.0
per_epoch = len(X) // batch

# Each row is in one round of every epoch, always the same one: what the noise is made for. `key` is a seed; without one the noise
# is secret.
noise = rounds.noise.stream("banded=16", 10, key=1, rounds=epochs * per_epoch, epochs=epochs, clip_norm=clip, epsilon=2.0, delta=1e-6)
print(f"sensitivity {noise.sensitivity:.3f}, noise multiplier {noise.noise_multiplier:.2f}")


def loss(w, x, target):
    return jnp.logaddexp(0.0, -target * (x @ w))


@jax.jit
def clipped_sum(w, x, target):
    gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(w, x, target)
    norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * jnp.minimum(1.0, clip / jnp.maximum(norms, 1e-12))).sum(axis=0)


w = np.zeros(10, np.float32)
for round in range(epochs * per_epoch):
    rows = slice(batch * (round % per_epoch), batch * (round % per_epoch + 1))
    total = np.array(clipped_sum(w, X[rows], y[rows]))
    noise.add(total)  # in place, before any mean is taken
    w -= 2.0 * total / batch
print(f"accuracy {np.mean(np.sign(X @ w) == y):.2f}")
print(noise.statement["reason"])
