"""Tests of reproduce.py, readme.py and install.py, without a build: python3 -m unittest discover --start-directory bench"""

import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import install
import readme
import reproduce
from studies import Mistake

RUN = {"record": "cell", "suite": "private-sco", "algorithm": "sgd", "dataset": "s", "threads": 1, "parameters": {}, "repeat": 0,
       "value": 0.1, "privacy": {"epsilon": 1.0}, "seconds": 3.0, "date": "2026-11-22T04:00:00Z"}
SHEET = {"schema": 1, "date": RUN["date"], "command": "rounds run /w/bench/definitions/private-sco.toml --threads 2 --out '/tmp/a b'",
         "definitions": ["/w/bench/definitions/private-sco.toml"], "machine": {"id": "m"}, "binding": {"suites": {"private-sco": "d"}, "data": {}, "isa": "any"},
         "build": {"revision": "0" * 40, "dirty": "false"}}


class Tables(unittest.TestCase):
    def test_the_table_of_algorithms_has_delta_and_names_what_it_lacks(self):
        cell = {"algorithm": "a", "dataset": "d", "batch_size": 500, "threads": 2, "median": 1e5, "gradient_queries": 2000,
                "rounds": 1, "privacy": {"epsilon": 1.0, "delta": 1e-5}}
        shown = [cell, {**cell, "batch_size": 2000}]
        with mock.patch.object(readme, "main_cells", return_value=("f", ("d", "u8"), shown)), \
             mock.patch.object(readme, "cells", return_value=[*shown, {**cell, "algorithm": "b", "dataset": "e"}]):
            text = "\n".join(readme.algorithms("README.md"))
        self.assertIn("| 1 (1e-5) |", text)
        self.assertIn("1 of the 2 algorithms of the run; not `b`: measured on `e` alone.", text)


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

    def test_other_words_of_a_privacy_statement_are_equal_and_other_numbers_are_not(self):
        for committed, now, equal in [("20 features and 1 outputs", "20 features and 1 output", True), ("n = 5", "n = 100", False),
                                      ("2⁻¹⁴ of a bound", "2⁻¹⁵ of a bound", False), ("1e-5", "1e-6", False)]:
            [found] = reproduce.differences({"privacy": {"public": [committed]}}, {"privacy": {"public": [now]}})
            self.assertEqual(reproduce.is_wording(*found), equal, found)
        self.assertFalse(reproduce.is_wording("value", "n", "m"))
        [longer] = reproduce.differences({"privacy": {"public": ["a"]}}, {"privacy": {"public": ["a", "b"]}})
        self.assertFalse(reproduce.is_wording(*longer))


class Stub(reproduce.Program):
    """A build that lists `cells` and makes `runs`."""

    def __init__(self, cells, runs, digest="d"):
        self.cells, self.runs, self.digest, self.only = cells, runs, digest, []
        self.now = {"machine": "here", "isa": "any", "build": {"executable_sha256": "0"}}

    def output(self, command, name, *arguments):
        if "--list" in arguments:
            return "".join(json.dumps(cell) + "\n" for cell in self.cells)
        folder = pathlib.Path(arguments[arguments.index("--out") + 1], name)
        self.only.append(list(arguments[3:]))
        there = {reproduce.key(record, reproduce.RUN) for record in install.studies.records(folder)}
        with (folder / "measurements.jsonl").open("a") as record:
            record.writelines(json.dumps(run) + "\n" for run in self.runs if reproduce.key(run, reproduce.RUN) not in there)
        sheet = json.loads((folder / "environment.json").read_text())
        sheet["binding"]["suites"] = {name: self.digest}
        (folder / "environment.json").write_text(json.dumps(sheet))
        return ""


class Check(unittest.TestCase):
    COMMITTED = [{**RUN, "method": method, "repeat": repeat} for method in ["a", "b"] for repeat in range(3)]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results = pathlib.Path(folder.name)
        self.enterContext(mock.patch.object(reproduce, "RESULTS", self.results))

    def commit(self, name, runs):
        folder = self.results / "2026-11-22" / "m" / name
        folder.mkdir(parents=True)
        (folder / "environment.json").write_text(json.dumps(SHEET))
        (folder / "measurements.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))

    def checked(self, cells, made, digest="d", **options):
        """The verdict on all committed studies, and what is printed."""
        found, mistakes, _ = reproduce.committed(set())
        options = types.SimpleNamespace(**{"runs": 6, "fraction": None, "seed": 1, "allow_lacking": False, **options})
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            return reproduce.report(Stub(cells, made, digest), options, found, mistakes), printed.getvalue()

    def test_only_equal_runs_pass(self):
        self.commit("private-sco", self.COMMITTED)
        first, *others = self.COMMITTED
        for made, good, said in [
            ([{**run, "seconds": 9.0} for run in self.COMMITTED], True, "| private-sco | 6 | 6 | 0 |"),
            (others, False, "| private-sco | 6 | 5 | 0 |"),
            ([{**first, "value": 0.2}, *others], False, "1 differ first in value: 0.1 committed, 0.2 now"),
        ]:
            verdict, printed = self.checked(self.COMMITTED, made)
            self.assertEqual((verdict, said in printed), (good, True), printed)
        self.assertIn("1 not made", self.checked(self.COMMITTED, others)[1])
        self.assertIn("the definition changed since", self.checked(self.COMMITTED, self.COMMITTED, "other")[1])

    def test_cells_that_only_one_side_has_do_not_pass(self):
        self.commit("private-sco", self.COMMITTED)
        verdict, printed = self.checked(self.COMMITTED[:3], self.COMMITTED)
        self.assertEqual((verdict, "3 runs are of cells that the definition or ROUNDS_DATA lacks" in printed), (False, True), printed)
        self.assertTrue(self.checked(self.COMMITTED[:3], self.COMMITTED, allow_lacking=True)[0])
        self.assertFalse(self.checked([], self.COMMITTED, allow_lacking=True)[0])
        verdict, printed = self.checked([*self.COMMITTED, {**RUN, "method": "new"}], self.COMMITTED)
        self.assertEqual((verdict, "1 cells are new" in printed), (False, True), printed)

    def test_of_an_unfinished_study_only_committed_runs_are_made_and_only_if_named(self):
        self.commit("private-sco", [{**RUN, "parameters": {"epsilon": 4, "kind": "cnn"}}])
        self.enterContext(mock.patch.object(reproduce.studies, "definition", return_value={"study": "runs", "show": {"unfinished": "long"}}))
        found, mistakes, left_out = reproduce.committed(set())
        self.assertEqual((found, mistakes, [reason for _, reason in left_out]), ([], {}, ["unfinished; --studies makes some of its runs"]))
        [study], _, left_out = reproduce.committed({"private-sco"})
        program = Stub([*study.runs, {**RUN, "method": "new"}], study.runs)
        options = types.SimpleNamespace(runs=6, fraction=None, seed=1, allow_lacking=False)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertTrue(reproduce.report(program, options, [study], {}), printed.getvalue())
        only = ["--threads", "2", "--algorithms", "sgd", "--repeats", "1", "--where=epsilon=4", "--where=kind=cnn"]
        self.assertEqual((program.only, left_out), ([only], []))

    def test_a_study_that_cannot_be_compared_does_not_stop_the_others(self):
        self.commit("private-sco", self.COMMITTED)
        self.commit("removed", self.COMMITTED)
        self.commit("bounds", [{"record": "skipped"}])
        verdict, printed = self.checked(self.COMMITTED, self.COMMITTED)
        self.assertFalse(verdict)
        for said in ["| private-sco | 6 | 6 | 0 |", "definitions/removed.toml is missing", "bounds: the record has no run"]:
            self.assertIn(said, printed)


class Installation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)

    def written(self, name, suite="private-sco", runs=2000, **build):
        """A folder as `rounds run` writes it."""
        out = self.top / name
        out.mkdir(parents=True)
        for file in [".lock", "study.html", "measurements.csv", "table.md"]:
            (out / file).touch()
        (out / "environment.json").write_text(json.dumps({**SHEET, "build": {**SHEET["build"], **build}}))
        (out / "measurements.jsonl").write_text((json.dumps({**RUN, "suite": suite}) + "\n") * runs)
        return out

    def installed(self, folder):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            target, runs = install.install(folder, results=self.top)
        self.assertIn("not in the history", said.getvalue())
        return target, runs, sorted(path.name for path in target.iterdir() if path.is_file())

    def test_what_can_be_made_again_stays_and_large_records_are_packed(self):
        target, runs, names = self.installed(self.written("out"))
        self.assertEqual((target, runs), (self.top / "2026-11-22" / "m" / "private-sco", 2000))
        self.assertEqual(names, ["environment.json", "measurements.jsonl.xz", "table.md"])
        self.assertEqual(len(install.studies.records(target)), 2000)
        sheet = json.loads((target / "environment.json").read_text())
        self.assertEqual((sheet["command"], sheet["definitions"]), ("rounds run private-sco --threads 2", ["private-sco"]))

    def test_a_folder_in_place_keeps_its_runs(self):
        target = self.written("2026-11-22/m/private-sco")
        for _ in range(2):
            self.assertEqual(self.installed(target), (target, 2000, [".lock", "environment.json", "measurements.jsonl.xz", "table.md"]))
            self.assertEqual(len(install.studies.records(target)), 2000)
        self.assertEqual([path.name for path in target.parent.iterdir()], ["private-sco"])

    def test_a_failure_leaves_the_folder_as_it_was(self):
        target = self.written("2026-11-22/m/private-sco")
        before = {path.name: path.read_bytes() for path in target.iterdir()}
        with mock.patch("lzma.compress", side_effect=OSError), self.assertRaises(OSError):
            install.install(target, results=self.top)
        self.assertEqual({path.name: path.read_bytes() for path in target.iterdir()}, before)

    def test_a_suite_replaces_its_own_files_and_no_other_suite(self):
        target, _, _ = self.installed(self.written("first", "quick"))
        (target / "sheet.md").touch()
        (target / "old.svg").touch()
        self.assertEqual(self.installed(self.written("second", "quick", runs=1)),
                         (target, 1, ["environment.json", "measurements.jsonl", "sheet.md", "table.md"]))
        with self.assertRaisesRegex(Mistake, "runs of quick would be lost"):
            install.install(self.written("third", "full"), results=self.top)

    def test_a_study_grows_by_runs_of_another_machine(self):
        target, _, _ = self.installed(self.written("first", runs=1))
        piece, sheet = self.written("piece"), {**SHEET, "machine": {"id": "n", "processor": "P", "cores": 2}}
        sheet["build"] = {**SHEET["build"], "executable_sha256": "e"}
        sheet["binding"] = {**SHEET["binding"], "isa": "any+amx"}
        (piece / "measurements.jsonl").write_text("".join(json.dumps({**RUN, "repeat": repeat}) + "\n" for repeat in range(3)))
        for changed, said in [({"suites": {"private-sco": "other"}}, "another definition"), ({"isa": "avx2"}, "another class of instructions")]:
            (piece / "environment.json").write_text(json.dumps({**sheet, "binding": {**sheet["binding"], **changed}}))
            with self.assertRaisesRegex(Mistake, said):
                install.install(piece, results=self.top, is_added=True)
        (piece / "environment.json").write_text(json.dumps(sheet))
        with mock.patch("subprocess.run", return_value=mock.Mock(returncode=0)):
            self.assertEqual(install.install(piece, results=self.top, is_added=True), (target, 3))
            with self.assertRaisesRegex(Mistake, "these runs already"):
                install.install(piece, results=self.top, is_added=True)
        self.assertEqual([run["repeat"] for run in install.studies.records(target)], [0, 1, 2])
        sheet = json.loads((target / "environment.json").read_text())
        self.assertEqual((sheet["machine"], [(one["machine"]["id"], one["runs"]) for one in sheet["added"]]), ({"id": "m"}, [("n", 2)]))

    def test_results_that_say_too_little_are_refused(self):
        for name, said in [("dirty", "with changes"), ("removed", "removed.toml is missing"), ("empty", "0 studies")]:
            out = self.written(name, "removed" if name == "removed" else "private-sco", runs=name != "empty",
                               dirty=str(name == "dirty").lower())
            with self.assertRaisesRegex(Mistake, said):
                install.install(out, results=self.top)

    def test_commands_keep_no_folder_of_the_machine(self):
        for command, public in [
            ("/w/target/release/rounds run --json=/w/x.json ../own/a.toml --resume", "rounds run a.toml"),
            ("rounds run paper/srg-table-1 --out '/tmp/it'\\''s' --repeats 2", "rounds run paper/srg-table-1 --repeats 2"),
            ("rounds run bench/definitions/paper/x.toml --data-dir=/d --log=/var/l", "rounds run paper/x --log=l"),
        ]:
            self.assertEqual(install.public_command(command), public)


if __name__ == "__main__":
    unittest.main()
