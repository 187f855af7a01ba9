"""Tests of reproduce.py and install.py, without a build: python3 -m unittest discover --start-directory bench"""

import json
import pathlib
import tempfile
import unittest

import install
import reproduce
from studies import Mistake

RUN = {"record": "cell", "suite": "private-sco", "algorithm": "sgd", "threads": 1, "parameters": {}, "repeat": 0, "value": 0.1,
       "privacy": {"epsilon": 1.0}, "seconds": 3.0, "date": "2026-11-22T04:00:00Z"}
SHEET = {"schema": 1, "date": RUN["date"], "command": "rounds run /w/bench/definitions/private-sco.toml --threads 2 --out '/tmp/a b'",
         "machine": {"id": "m"}, "build": {"revision": "0" * 40, "dirty": "false"}}


class Reproduction(unittest.TestCase):
    def test_the_last_bit_of_a_value_is_found_and_times_are_not(self):
        last = 0.1 + 2**-56
        for change, path, pair in [({"value": last}, "value", (0.1, last)), ({"privacy": {}}, "privacy.epsilon", (1.0, None)),
                                   ({"clipped": [0.5]}, "clipped", (None, [0.5]))]:
            found = list(reproduce.differences(RUN, {**RUN, "seconds": 4.0, "date": "later", **change}))
            self.assertEqual(found, [(path, *pair)])

    def test_every_method_is_in_a_sample_and_no_run_twice(self):
        runs = [{**RUN, "algorithm": f"a{min(number, 3)}", "repeat": number} for number in range(50)]
        self.assertEqual(len({run["repeat"] for run in reproduce.sample(runs, 10, 1)}), 10)
        self.assertEqual(len({run["algorithm"] for run in reproduce.sample(runs, 1, 2)}), 4)


class Installation(unittest.TestCase):
    def installed(self, top, **build):
        out = pathlib.Path(top, "out")
        out.mkdir()
        for name in [".lock", "study.html", "measurements.csv", "presentation.json", "table.md"]:
            (out / name).touch()
        (out / "environment.json").write_text(json.dumps({**SHEET, "build": {**SHEET["build"], **build}}))
        (out / "measurements.jsonl").write_text((json.dumps(RUN) + "\n") * 2000)
        return install.install(out, results=top)

    def test_what_can_be_made_again_stays_and_large_records_are_packed(self):
        with tempfile.TemporaryDirectory() as top:
            target, runs = self.installed(top)
            self.assertEqual((target, runs), (pathlib.Path(top, "2026-11-22", "m", "private-sco"), 2000))
            self.assertEqual(sorted(path.name for path in target.iterdir()), ["environment.json", "measurements.jsonl.xz", "table.md"])
            self.assertEqual(len(install.studies.records(target)), 2000)
            self.assertEqual(json.loads((target / "environment.json").read_text())["command"], "rounds run private-sco --threads 2")

    def test_results_of_a_changed_tree_are_refused(self):
        with tempfile.TemporaryDirectory() as top, self.assertRaisesRegex(Mistake, "with changes"):
            self.installed(top, dirty="true")


if __name__ == "__main__":
    unittest.main()
