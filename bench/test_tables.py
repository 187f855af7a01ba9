"""Tests of the tables of rounds on ranks."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "ranks"))

import tables


def cell(size, nanoseconds, ranks=None, **more):
    """A cell of ten rounds."""
    names = {"record": "cell", "suite": "latency", "algorithm": "dp-sgd", "dataset": "d", "parameters": {}, "batch_size": size, "threads": 1}
    times = {"round_ns": {"samples": [nanoseconds] * 10}, "phases_ns": {"gradient": nanoseconds // 2}}
    return {**names, **times, **({"ranks": ranks} if ranks else {}), **more}


class Tables(unittest.TestCase):
    def written(self, folders):
        out = self.enterContext(tempfile.TemporaryDirectory())
        for name, cells in folders.items():
            folder = pathlib.Path(out, name)
            folder.mkdir()
            (folder / "measurements.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cells), encoding="utf-8")
        return out

    def test_a_round_is_its_compute_and_a_latency_for_every_message(self):
        waits = {"computing_ns": 2_000_000, "link_ns": 100_000, "messages": 2.0, "row_bytes": 1e6, "link_bytes_per_s": 1e9}
        folders = {"alone": [cell(500, 4_000_000)], "0": [cell(500, 3_200_000, 2, communication_ns=800_000, **waits)],
                   "0.1": [cell(500, 203_200_000, 2, communication_ns=200_000_000, **waits)]}
        text = "\n".join(tables.latency(self.written(folders), "relay"))
        # 2 + 2·0.1 + 1 ms without delay; from one process 2 + 2/2 + 1.2 ms.
        self.assertIn("| dp-sgd, B = 500, 10 rounds (latency) | 3.20 ms; 3.20 ms (+0.0 %) | 203 ms; 203 ms (+0.0 %) |", text)
        self.assertIn("| dp-sgd, B = 500, 10 rounds (latency) | +31.3 % | +0.5 % |", text)
        self.assertIn("| dp-sgd, B = 500, 10 rounds (latency) | 25 % | 98 % |", text)

    def test_ranks_stand_beside_as_many_threads(self):
        two = {**cell(500, 2_000_000), "threads": 2}
        folders = {"alone": [cell(500, 4_000_000), cell(250, 1_800_000), two], "2": [cell(500, 1_600_000, 2, communication_ns=160_000)]}
        text = "\n".join(tables.scaling(self.written(folders)))
        self.assertIn("| 500 | 4.00 ms (1.00) | 2.00 ms (2.00) | 1.60 ms (2.50) | 10 % | 0.80 |", text)
        self.assertIn("| 500 | 90 % | 112 % |", text)
