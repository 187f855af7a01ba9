"""`rounds` as a peer: `rounds train` on the same rows, one process a sample, seconds of its rounds alone."""

import json
import os
import subprocess
import tempfile
import time

from problem import (CLASSES, CLIP_NORM, DELTA, FEATURES, LEARNING_RATE, NOISE_MULTIPLIER, ROWS)


class RoundsError(Exception):
    """What the binary said."""


def ask(binary, arguments, cores, timeout=120):
    """One JSON document of the binary, run on `cores`."""
    pin = (lambda: os.sched_setaffinity(0, cores)) if hasattr(os, "sched_setaffinity") else None
    answer = subprocess.run(
        [binary, *arguments, "--json"], capture_output=True, text=True, timeout=timeout, check=False, preexec_fn=pin
    )
    if answer.returncode != 0:
        raise RoundsError((answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1])
    return json.loads(answer.stdout)


class Rounds:
    """One configuration: rows of bytes, or of f32 with declared bounds, a batch size, threads."""

    def __init__(self, binary, root, features, kind, size, threads, cores):
        self.binary, self.kind, self.size, self.threads = binary, kind, size, threads
        self.cores = cores[:threads]
        # A given batch is a whole data set of B contiguous rows; a drawn one is a Poisson sample of all rows.
        self.rows = size if kind == "kernel" else ROWS
        self.data = os.path.join(root, f"{features}-{self.rows}")
        classes = ",".join(map(str, range(CLASSES)))
        domain = {"bounds": "0,1", "dimension": FEATURES, "classes": classes}
        self.domain = domain if features == "f32" else {}
        self.seconds_a_round = None

    def train(self, rounds, **flags):
        settings = {
            "algorithm": "dp-sgd",
            "data": self.data,
            "batch-size": self.size,
            "sampling": "fixed" if self.rows == self.size else "poisson",
            "epochs": rounds * self.size / self.rows,
            "noise-multiplier": NOISE_MULTIPLIER,
            "delta": DELTA,
            "clip-norm": CLIP_NORM,
            "learning-rate": LEARNING_RATE,
            "momentum": 0,
            "threads": self.threads,
            **self.domain,
        }
        settings.update(flags)
        words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        return ask(self.binary, ["train", *words], self.cores)

    def measure(self, seconds):
        if self.seconds_a_round is None:
            answer = self.train(20)
            self.seconds_a_round = answer["seconds"] / answer["rounds"]
        # A process of its own starts cold, and its first rounds count: twice the length makes little of them.
        answer = self.train(max(20, round(2 * seconds / self.seconds_a_round)))
        self.seconds_a_round = answer["seconds"] / answer["rounds"]
        return answer["seconds"] / answer["rounds"]

    def relative_error(self):
        """Of the clipped sum at W = 0, from a round with next to no noise and step 1."""
        import numpy as np
        from problem import reference_sum

        features = np.load(os.path.join(self.data, "x.npy")).reshape(self.rows, -1)
        if features.dtype == np.uint8:
            features = features.astype(np.float32) * np.float32(1 / 255)
        labels = np.load(os.path.join(self.data, "y.npy"))
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.npy")
            self.train(1, **{"noise-multiplier": 1e-7, "learning-rate": 1, "model": model})
            found = -np.load(model).astype(np.float64) * self.size
        expected = reference_sum(features, labels, np.zeros_like(found))
        return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def account(binary, case, cores):
    """(ε, seconds of the whole process)."""
    words = ["account", "subsampled-gaussian", "--accountant", "pld", "--adjacency", "add-remove"]
    for name, value in case.items():
        words += ["--" + name.replace("_", "-"), repr(value)]
    started = time.perf_counter()
    answer = ask(binary, words, cores)
    return answer["epsilon"], time.perf_counter() - started
