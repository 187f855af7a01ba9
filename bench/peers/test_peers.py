"""Tests of the comparison itself. Run them in its environment:

    target/peers/venv/bin/python -m unittest discover --start-directory bench/peers
"""

import copy
import unittest

import comparison
import intervals
import numpy as np
import peer_numpy
import problem
import tables


class Small:
    """A problem of few rows, as the workers see the whole."""

    def __init__(self, rows=300):
        generator = np.random.default_rng(3)
        self.features = generator.random((rows, problem.FEATURES), dtype=np.float32)
        self.labels = generator.integers(0, problem.CLASSES, rows).astype(np.int32)
        self.norms = np.sqrt((self.features**2).sum(1) + 1).astype(np.float32)

    def one_hot(self, size):
        return np.eye(problem.CLASSES, dtype=np.float32)[self.labels[:size]]


def error(small, peer, size):
    weights = problem.check_weights(1)
    after = peer_numpy.Session(small, peer, "kernel", size, 2).noiseless(weights).astype(np.float64)
    expected = problem.reference_sum(small.features[:size], small.labels[:size], weights)
    return np.linalg.norm((weights - after) * size - expected) / np.linalg.norm(expected)


class TheCheck(unittest.TestCase):
    def test_closed_forms_agree_with_materialised_gradients(self):
        for peer in peer_numpy.PEERS:
            self.assertLess(error(Small(), peer, 300), comparison.TOLERANCE)

    def test_some_rows_are_clipped_at_the_check_and_some_are_not(self):
        small, weights = Small(), problem.check_weights(1)
        clipped = problem.reference_sum(small.features, small.labels, weights)
        problem.CLIP_NORM = 1e9
        try:
            whole = problem.reference_sum(small.features, small.labels, weights)
            problem.CLIP_NORM = 1e-9
            nothing = problem.reference_sum(small.features, small.labels, weights)
        finally:
            problem.CLIP_NORM = 1.0
        self.assertGreater(np.linalg.norm(whole - clipped), 1.0)
        self.assertLess(np.linalg.norm(nothing), 1e-6)

    def test_a_peer_that_leaves_the_bias_out_of_the_norm_is_found_out(self):
        small = Small()
        small.norms = np.sqrt((small.features**2).sum(1))
        self.assertGreater(error(small, "numpy-whole", 300), comparison.TOLERANCE)


class TheResults(unittest.TestCase):
    def document(self, peers):
        rows = [
            {"peer": peer, "features": features, "kind": "kernel", "batch_size": 500, "threads": 2, "samples_ms": samples,
             "median_ms": samples[1], "low_ms": samples[0], "high_ms": samples[2]}
            for peer, features, samples in peers
        ]
        return {"rows": rows, "threads": 2, "skipped": [], "checks": [], "accounting": [], "samplers": [], "packages": {}, "tuning": {}, "command": "bench/peers/run.py",
                "processor": "p", "date": "d", "python": "3", "rounds": {"revision": "r"}, "data": "generated"}

    def test_ratios_are_of_medians_and_their_intervals_hold_them(self):
        document = self.document([("rounds", "u8", [1.0, 2.0, 3.0]), ("jax-vmap", "f32", [19.0, 20.0, 21.0])])
        comparison.add_ratios(document)
        ratio = document["rows"][1]["ratio_u8"]
        self.assertEqual(ratio["ratio"], 10.0)
        self.assertTrue(ratio["low"] <= 10.0 <= ratio["high"])
        self.assertNotIn("ratio_f32", document["rows"][1])
        self.assertIn("| 500 | JAX, vmap of grad in one compiled loop | f32 | 2 | 20.0 ms |", tables.markdown(document))

    def test_what_is_measured_again_replaces_what_was_there_and_the_rest_stays(self):
        earlier = self.document([("rounds", "u8", [9.0, 9.0, 9.0]), ("jax-vmap", "f32", [8.0, 8.0, 8.0])])
        now = self.document([("rounds", "u8", [1.0, 1.0, 1.0])])
        comparison.merge(now, copy.deepcopy(earlier))
        self.assertEqual([(row["peer"], row["median_ms"]) for row in now["rows"]], [("jax-vmap", 8.0), ("rounds", 1.0)])

    def test_an_interval_holds_the_median_and_is_the_same_each_time(self):
        median, low, high = intervals.median([3.0, 1.0, 2.0, 10.0, 2.5])
        self.assertEqual(median, 2.5)
        self.assertTrue(1.0 <= low <= 2.5 <= high <= 10.0)
        self.assertEqual((median, low, high), intervals.median([3.0, 1.0, 2.0, 10.0, 2.5]))


if __name__ == "__main__":
    unittest.main()
