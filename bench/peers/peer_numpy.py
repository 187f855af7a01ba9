"""NumPy with OpenBLAS: the closed form in preallocated memory. Whole batches leave the threads to OpenBLAS; blocks of 1,000
rows run on Python threads, each with a sequential OpenBLAS."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from problem import (CLASSES, FEATURES, LEARNING_RATE, NOISE_MULTIPLIER, padded, poisson_batch)
from threadpoolctl import ThreadpoolController

PEERS = ["numpy-whole", "numpy-blocked"]
BLOCK = 1000


class Kernel:
    """Clipped sums of up to `rows` rows. Scores lie classes × rows, so that every reduction runs over long contiguous rows."""

    def __init__(self, rows):
        self.scores = np.empty(CLASSES * rows, np.float32)
        self.squares = np.empty(CLASSES * rows, np.float32)
        self.vector = np.empty(rows, np.float32)
        self.offsets = np.arange(rows)
        self.gradient = np.empty((CLASSES, FEATURES), np.float32)
        self.bias = np.empty(CLASSES, np.float32)

    def sums(self, features, one_hot, labels, norms, weights, bias):
        """(G without bias, G of the bias); the labels come as one-hot columns or, for drawn rows, as numbers."""
        count = len(features)
        scores = self.scores[: CLASSES * count].reshape(CLASSES, count)
        squares = self.squares[: CLASSES * count].reshape(CLASSES, count)
        vector = self.vector[:count]
        np.dot(weights, features.T, out=scores)
        scores += bias
        np.max(scores, axis=0, out=vector)
        scores -= vector
        np.exp(scores, out=scores)
        np.sum(scores, axis=0, out=vector)
        np.reciprocal(vector, out=vector)
        scores *= vector
        if one_hot is not None:
            scores -= one_hot
        else:
            scores[labels, self.offsets[:count]] -= np.float32(1)
        np.multiply(scores, scores, out=squares)
        np.sum(squares, axis=0, out=vector)
        np.sqrt(vector, out=vector)
        vector *= norms
        np.maximum(vector, np.float32(1), out=vector)
        np.reciprocal(vector, out=vector)
        scores *= vector
        np.dot(scores, features, out=self.gradient)
        np.sum(scores, axis=1, out=self.bias)
        return self.gradient, self.bias


class Part:
    """The rows of a batch that one kernel call takes."""

    def __init__(self, rows, gathers):
        self.kernel = Kernel(rows)
        self.features = np.empty((rows, FEATURES), np.float32) if gathers else None

    def fix(self, features, one_hot, norms):
        self.fixed = (features, one_hot, None, norms)

    def gather(self, problem, indices):
        features = self.features[: len(indices)]
        np.take(problem.features, indices, axis=0, out=features, mode="clip")
        self.fixed = (features, None, problem.labels[indices], problem.norms[indices])

    def sums(self, weights, bias):
        return self.kernel.sums(*self.fixed, weights, bias)


class Session:
    def __init__(self, problem, peer, kind, size, threads):
        self.problem, self.kind, self.size, self.threads = problem, kind, size, threads
        self.blocked = peer == "numpy-blocked"
        self.weights = np.zeros((CLASSES, FEATURES), np.float32)
        self.bias = np.zeros((CLASSES, 1), np.float32)
        self.noise = np.empty((CLASSES, FEATURES + 1), np.float32)
        self.generator = np.random.Generator(np.random.SFC64(1))
        self.sigma, self.rate = NOISE_MULTIPLIER, LEARNING_RATE
        rows = size if kind == "kernel" else padded(size)
        # Every thread has something to do.
        block = min(BLOCK, -(-rows // threads)) if self.blocked else rows
        self.bounds = [(start, min(start + block, rows)) for start in range(0, rows, block)]
        self.parts = [Part(end - start, kind != "kernel") for start, end in self.bounds]
        if kind == "kernel":
            one_hot = problem.one_hot(size).T
            for (start, end), part in zip(self.bounds, self.parts):
                columns = np.ascontiguousarray(one_hot[:, start:end])
                part.fix(problem.features[start:end], columns, problem.norms[start:end])
        self.pool = ThreadPoolExecutor(threads - 1) if self.blocked and threads > 1 else None
        self.controller = ThreadpoolController()
        architectures = {library.get("architecture") for library in self.controller.info()}
        self.chosen = "OpenBLAS kernels " + ", ".join(sorted(filter(None, architectures)))
        if os.environ.get("OPENBLAS_CORETYPE"):
            self.chosen += f" (OPENBLAS_CORETYPE={os.environ['OPENBLAS_CORETYPE']})"

    def share(self, thread, indices):
        """The sums of every `threads`-th part."""
        total = None
        for (start, end), part in list(zip(self.bounds, self.parts))[thread :: self.threads]:
            if indices is not None:
                mine = indices[start:end]
                if not len(mine):
                    continue
                part.gather(self.problem, mine)
            sums = part.sums(self.weights, self.bias)
            if total is None:
                total = sums
            else:
                total[0].__iadd__(sums[0])
                total[1].__iadd__(sums[1])
        return total

    def round(self):
        indices = None if self.kind == "kernel" else poisson_batch(self.generator, self.size)
        if self.blocked and self.threads > 1:
            others = [self.pool.submit(self.share, thread, indices) for thread in range(1, self.threads)]
            totals = [self.share(0, indices)]
            self.generator.standard_normal(out=self.noise, dtype=np.float32)
            totals += [other.result() for other in others]
        else:
            totals = [self.share(0, indices)]
            self.generator.standard_normal(out=self.noise, dtype=np.float32)
        totals = [total for total in totals if total is not None]
        noise = self.noise
        if self.sigma != 1:
            noise *= np.float32(self.sigma)
        for gradient, bias in totals:
            noise[:, :FEATURES] += gradient
            noise[:, FEATURES] += bias
        noise *= np.float32(self.rate / self.size)
        self.weights -= noise[:, :FEATURES]
        self.bias[:, 0] -= noise[:, FEATURES]

    def run(self, rounds):
        with self.controller.limit(limits=1 if self.blocked else self.threads):
            for _ in range(rounds):
                self.round()
        return rounds

    def noiseless(self, weights):
        kept = self.weights, self.bias, self.sigma, self.rate
        self.weights = np.ascontiguousarray(weights[:, :FEATURES])
        self.bias = np.ascontiguousarray(weights[:, FEATURES:])
        self.sigma, self.rate = 0.0, 1.0
        self.run(1)
        after = np.concatenate([self.weights, self.bias], 1)
        self.weights, self.bias, self.sigma, self.rate = kept
        return after
