"""The work that all peers do, on the same rows, and a reference for it in double precision.

Softmax regression on rows x (d = 784, a bias, K = 10 classes); one DP-SGD round at weights W is

    r_i = softmax(W·(x_i, 1)) - onehot(y_i)                 (gradient of the loss: r_i ⊗ (x_i, 1))
    G   = Σ_i min(1, C / ‖r_i‖·‖(x_i, 1)‖) · r_i ⊗ (x_i, 1)  (the norm of an outer product is the product of norms)
    W  := W - η/B · (G + σ·C·z),   z ~ N(0, I) drawn anew in each round

with C = 1, σ = 1. Closed forms use the product of norms; others materialise gradients. Features are f32 in [0, 1] or bytes
over 255; weights are 10 × 785, the bias last.
"""

import gzip
import os
import struct
import sys

import numpy as np

ROWS = 60_000
FEATURES = 784
CLASSES = 10
BATCH_SIZES = [64, 500, 2000, 8000, 60_000]
CLIP_NORM = 1.0
NOISE_MULTIPLIER = 1.0
LEARNING_RATE = 0.5
DELTA = 1e-5
# The domain of rows of bytes, which `rounds` finds beside them; f32 rows are declared by options.
SCHEMA = f"""[rows]
relation = "zero-out"
storage = "bytes"
[columns]
count = {FEATURES}
bounds = [0, 255]
[label]
classes = {[str(label) for label in range(CLASSES)]}
"""


def idx(path):
    """An IDX file of bytes, packed or not."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        kind = struct.unpack(">BBBB", file.read(4))
        sizes = struct.unpack(f">{kind[3]}I", file.read(4 * kind[3]))
        return np.frombuffer(file.read(), np.uint8).reshape(sizes)


def mnist(data_dir):
    """MNIST's training rows and labels from IDX files, if they lie in the folder."""
    for folder in [os.path.join(data_dir, "mnist"), data_dir]:
        found = []
        for name in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"]:
            paths = [os.path.join(folder, name + ending) for ending in ["", ".gz"]]
            found += [path for path in paths if os.path.exists(path)][:1]
        if len(found) == 2:
            return idx(found[0]), idx(found[1])
    return None


def generated():
    """Rows of MNIST's shape and sparsity (about 19 % of the bytes are not 0): a smooth blob a class, shifted, with grain."""
    generator = np.random.default_rng(1)
    grid = np.arange(28)
    images = np.zeros((CLASSES, 28, 28))
    for image in images:
        for x, y in generator.uniform(9, 19, (5, 2)):
            image += np.exp(-((grid[:, None] - y) ** 2 + (grid[None, :] - x) ** 2) / 5.0)
        image /= image.max()
    labels = generator.integers(0, CLASSES, ROWS).astype(np.uint8)
    labels[:CLASSES] = np.arange(CLASSES)
    shifts = generator.integers(-2, 3, (ROWS, 2))
    rows = np.empty((ROWS, 28, 28), np.uint8)
    for row, (label, (down, across)) in enumerate(zip(labels, shifts)):
        grain = generator.random((28, 28), dtype=np.float32)
        image = np.roll(images[label], (down, across), (0, 1)) * (0.7 + 0.6 * grain) - 0.22
        rows[row] = np.clip(image * 330, 0, 255)
    return rows, labels


def prepare(folder, data_dir):
    """Writes the rows once as NPY folders that every process reads (u8-B and f32-B, the first B rows); says which data."""
    name = "generated"
    source = mnist(data_dir) if data_dir else None
    if source is not None:
        name = "mnist"
    root = os.path.join(folder, "data", name)
    if os.path.exists(os.path.join(root, "complete")):
        return name, root
    print(f"peers: writing rows to {root}", file=sys.stderr)
    rows, labels = source if source is not None else generated()
    for size in BATCH_SIZES:
        singles = rows[:size].reshape(size, FEATURES).astype(np.float32) * np.float32(1 / 255)
        for kind, values in [("u8", rows[:size]), ("f32", singles)]:
            place = os.path.join(root, f"{kind}-{size}")
            os.makedirs(place, exist_ok=True)
            np.save(os.path.join(place, "x.npy"), np.ascontiguousarray(values))
            np.save(os.path.join(place, "y.npy"), labels[:size].astype(np.uint8))
        with open(os.path.join(root, f"u8-{size}", "schema.toml"), "w", encoding="utf-8") as file:
            file.write(SCHEMA)
    with open(os.path.join(root, "complete"), "w", encoding="utf-8") as file:
        file.write(name + "\n")
    return name, root


class Problem:
    """All rows in memory, with what a closed form may know of them before the first round: √(‖x‖² + 1) and labels."""

    def __init__(self, root):
        self.features = np.load(os.path.join(root, f"f32-{ROWS}", "x.npy"))
        self.labels = np.load(os.path.join(root, f"f32-{ROWS}", "y.npy")).astype(np.int32)
        norms = np.einsum("ij,ij->i", self.features, self.features)
        self.norms = np.sqrt(norms + np.float32(1)).astype(np.float32)

    def one_hot(self, size):
        return np.eye(CLASSES, dtype=np.float32)[self.labels[:size]]


def check_weights(seed):
    """Weights at which some gradients are clipped and some are not."""
    return np.random.default_rng(seed).normal(0, 0.35, (CLASSES, FEATURES + 1)).astype(np.float32)


def reference_sum(features, labels, weights):
    """G in double precision, block by block, without any closed form of the norm: rows are materialised."""
    weights = weights.astype(np.float64)
    total = np.zeros_like(weights)
    for start in range(0, len(labels), 1000):
        rows = features[start : start + 1000].astype(np.float64)
        rows = np.concatenate([rows, np.ones((len(rows), 1))], 1)
        scores = rows @ weights.T
        scores = np.exp(scores - scores.max(1, keepdims=True))
        residuals = scores / scores.sum(1, keepdims=True)
        residuals[np.arange(len(rows)), labels[start : start + 1000]] -= 1
        gradients = residuals[:, :, None] * rows[:, None, :]
        norms = np.sqrt((gradients**2).sum((1, 2)))
        total += np.einsum("i,ijk->jk", np.minimum(1, CLIP_NORM / np.maximum(norms, 1e-300)), gradients)
    return total


def padded(size):
    """Rows that a Poisson batch of expected size B is padded to where shapes are fixed: B + 6√B, a multiple of 16."""
    return min(ROWS, -(-int(size + 6 * size**0.5) // 16) * 16)


def poisson_batch(generator, size):
    """A Poisson batch: its size is binomial, its rows are a subset of that size."""
    drawn = min(generator.binomial(ROWS, size / ROWS), padded(size))
    return generator.choice(ROWS, drawn, replace=False, shuffle=False)
