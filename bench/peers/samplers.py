"""Normal samplers, one thread: f32 values a second into memory that is there already, 65,536 at a time."""

import time

import numpy as np

FILL = 65_536


def numpy_fill(bits):
    generator = np.random.Generator(bits(1))
    values = np.empty(FILL, np.float32)
    return lambda: generator.standard_normal(out=values, dtype=np.float32)


def torch_fill():
    import torch

    torch.set_num_threads(1)
    values = torch.empty(FILL)
    return values.normal_


def jax_fill(kind):
    import jax

    key = jax.random.key(1, impl=kind)

    @jax.jit
    def draw(key):
        key, drawn = jax.random.split(key)
        return key, jax.random.normal(drawn, (FILL,))

    state = [key]

    def fill():
        state[0], values = draw(state[0])
        values.block_until_ready()

    return fill


SAMPLERS = {
    "numpy SFC64 standard_normal": lambda: numpy_fill(np.random.SFC64),
    "numpy PCG64 standard_normal": lambda: numpy_fill(np.random.PCG64),
    "torch normal_": torch_fill,
    "jax normal, threefry": lambda: jax_fill("threefry2x32"),
    "jax normal, rbg": lambda: jax_fill("rbg"),
}


def measure(name, seconds):
    """Five rates, in values a second."""
    fill = SAMPLERS[name]()
    fill()
    rates = []
    for _ in range(5):
        started = time.perf_counter()
        filled = 0
        while (elapsed := time.perf_counter() - started) < seconds:
            fill()
            filled += FILL
        rates.append(filled / elapsed)
    return rates
