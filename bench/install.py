#!/usr/bin/env python3
"""Installs folders that `rounds run` wrote as results/<day>/<machine>/<study>, to be committed.

    python3 bench/install.py OUT/private-sco OUT/paper/srg-table-1 [--day 2026-11-22]
    python3 bench/install.py --add OUT/paper/correlated-noise-figure-3c

`--add` puts the runs beside those that are committed of the study, which may be of another machine or build: a study of many hours grows in
pieces. Definition, data and class of instructions must be the same, so that the runs are; the sheet names every piece under `added`.

Raw runs, experiment sheet, tables (table.md) and pictures (SVG) are kept, so that they can be read without a build; pages and CSV are
not: `rounds report` makes them from the raw runs. Large records are packed, and the command is written as a
reader would give it. Files of an earlier run there are replaced, after the new ones are complete. Results of a changed tree are
refused: no revision would say what made them.
"""

import argparse
import json
import lzma
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import reproduce
import studies
from studies import ROOT, Mistake

LEFT_BEHIND = re.compile(r"\.lock|.*\.html|measurements\.csv")
# The files of a run. Others of its folder stay: those of the suites' folder are also written by make readme and make peers.
OF_RUN = re.compile(r"environment\.json|measurements\..*|table\.md|.*\.(svg|html)")
# Records above this many bytes are packed.
LARGE = 300_000
# Makes tables and pictures of joined runs.
PROGRAM = os.path.join(ROOT, "target", "release", "rounds")


def public_word(word):
    """An argument without folders of the machine; a definition of this project by its name."""
    flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    value = re.sub(r"(?:.*/)?bench/definitions/(.+)\.toml", r"\1", value)
    is_path = value.endswith(".toml") or value.startswith(("/", "~", "./", "../"))
    return flag + equals + (os.path.basename(value) if is_path else value)


def public_command(command):
    """The command without folders of the machine: `rounds run NAME`, and the arguments that select runs."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in ("--out", "--data-dir"):
            next(words, None)
        elif word.partition("=")[0] not in ("--out", "--data-dir", "--resume", "--json"):
            kept.append(public_word(word))
    return shlex.join(kept)


def place(study):
    """The folder of a study's results below that of the machine; suites lie in the latter."""
    definition = studies.definition(study)
    return "" if definition.get("study", "timing") == "timing" and "measure" not in definition else study


def add(runs, sheet, target):
    """The lines and the sheet of `target` with these runs."""
    kept, whole = studies.records(target), json.loads((target / "environment.json").read_text(encoding="utf-8"))
    class_of = lambda binding: binding["isa"].removesuffix("+amx")
    old, new = whole["binding"], sheet["binding"]
    other_data = any(old["data"].get(name, digest) != digest for name, digest in new["data"].items())
    for what, differ in [("definition", old["suites"] != new["suites"]), ("data", other_data),
                         ("class of instructions", class_of(old) != class_of(new))]:
        if differ:
            raise Mistake(f"{target}: its runs have another {what}; install the new ones without --add, in their place")
    known = {reproduce.key(record, reproduce.RUN) for record in kept if record["record"] == "cell"}
    added = [run for run in runs if reproduce.key(run, reproduce.RUN) not in known]
    if not added:
        raise Mistake(f"{target}: it has these runs already")
    piece = {"runs": len(added), "date": sheet["date"], "command": sheet["command"], "isa": new["isa"],
             "machine": {name: sheet["machine"][name] for name in ["id", "processor", "cores"]},
             "build": {name: sheet["build"][name] for name in ["revision", "executable_sha256"]}}
    return kept + added, {**whole, "added": [*whole.get("added", []), piece]}


def install(folder, day=None, results=os.path.join(ROOT, "results"), is_added=False):
    """The folder that the results of `folder` lie in now, and the number of runs."""
    folder = pathlib.Path(folder)
    try:
        sheet = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        runs = studies.cells(folder)
        sheet["command"] = public_command(sheet["command"])
    except (OSError, ValueError) as error:
        raise Mistake(f"{folder}: no whole results of `rounds run`: {error}") from error
    if "definitions" in sheet:
        sheet["definitions"] = [public_word(name) for name in sheet["definitions"]]
    revision = sheet["build"]["revision"]
    if sheet["build"]["dirty"] != "false":
        raise Mistake(f"{folder}: measured by {revision[:12]} with changes; commit them, build, and measure again")
    suites = {run["suite"] for run in runs}
    below = {place(suite) for suite in suites}
    if len(below) != 1:
        raise Mistake(f"{folder}: it holds runs of {len(below)} studies; give the folder of one")
    target, lines = pathlib.Path(results, day or sheet["date"][:10], sheet["machine"]["id"], *below), None
    if is_added:
        if below == {""}:
            raise Mistake(f"{folder}: times of two machines do not go together")
        committed = [path.parent for path in pathlib.Path(results).glob(f"*/*/{place(*suites)}/environment.json")]
        if len(committed) != 1:
            raise Mistake(f"{folder}: {len(committed)} folders of results have runs of its study; --add takes one")
        target, = committed
        lines, sheet = add(runs, sheet, target)
    elif others := {run["suite"] for run in studies.cells(target)} - suites:
        raise Mistake(f"{target}: its runs of {', '.join(sorted(others))} would be lost; give another --day")
    target.mkdir(parents=True, exist_ok=True)
    # `folder` may be `target`: nothing is removed before all new files are complete.
    with tempfile.TemporaryDirectory(dir=target.parent) as complete:
        complete = pathlib.Path(complete)
        (complete / "environment.json").write_text(json.dumps(sheet, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        plain, packed = complete / "measurements.jsonl", complete / "measurements.jsonl.xz"
        if is_added:
            plain.write_text("".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
            subprocess.run([PROGRAM, "report", "--files", complete], check=True, stdout=subprocess.DEVNULL)
        else:
            for path in filter(pathlib.Path.is_file, folder.iterdir()):
                if path.name != "environment.json":
                    shutil.copyfile(path, complete / path.name)
        for path in list(complete.iterdir()):
            if LEFT_BEHIND.fullmatch(path.name):
                path.unlink()
        if plain.exists():
            packed.unlink(missing_ok=True)
            # The pages read a suite's times from the plain file.
            if below != {""} and plain.stat().st_size > LARGE:
                packed.write_bytes(lzma.compress(plain.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
                plain.unlink()
        new = os.listdir(complete)
        for name in new:
            os.replace(complete / name, target / name)
    for path in list(target.iterdir()):
        if path.is_file() and OF_RUN.fullmatch(path.name) and path.name not in new:
            path.unlink()
    if subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", revision, "HEAD"], capture_output=True).returncode:
        print(f"warning: {folder}: revision {revision[:12]} is not in the history of this branch", file=sys.stderr)
    return target, len(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folder of one study's results")
    parser.add_argument("--day", help="folder of the day [default: day of the run]")
    parser.add_argument("--add", action="store_true", help="add the runs to those that are committed of the study")
    options = parser.parse_args()
    try:
        for folder in options.folders:
            target, runs = install(folder, options.day, is_added=options.add)
            print(f"{os.path.relpath(target)}: {runs} runs; git add it, then make readme")
    except Mistake as mistake:
        sys.exit(f"error: {mistake}")


if __name__ == "__main__":
    main()
