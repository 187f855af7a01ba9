#!/usr/bin/env python3
"""Installs folders that `rounds run` wrote as results/<day>/<machine>/<study>, to be committed.

    python3 bench/install.py OUT/private-sco OUT/paper/srg-table-1 [--day 2026-11-22]

Files that `rounds report` makes again are left behind, large records are packed, and the command is written as a reader would
give it. A folder that stands there is replaced. Results of a changed tree are refused: no revision would say what made them.
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

import studies
from studies import ROOT, Mistake

LEFT_BEHIND = re.compile(r"\.lock|.*\.html|measurements\.csv|presentation\.json")
# Records above this many bytes are packed.
LARGE = 300_000


def public_command(command):
    """The command without folders of the machine: `rounds run NAME`, and the arguments that select runs."""
    command = re.sub(r" --(out|data-dir)[= ]('[^']*'|\S+)| --resume\b", "", command)
    words = [re.sub(r"(?:.*/)?bench/definitions/(.+)\.toml", r"\1", word) for word in shlex.split(command)]
    return shlex.join(os.path.basename(word) if word.startswith("/") else word for word in words)


def place(study):
    """The folder of a study's results below that of the machine; suites lie in the latter."""
    return study if studies.definition(study).get("study", "round-time") != "round-time" else ""


def install(folder, day=None, results=os.path.join(ROOT, "results")):
    """The folder that the results of `folder` lie in now, and the number of runs."""
    folder = pathlib.Path(folder)
    try:
        sheet = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        runs = [record for record in studies.records(folder) if record["record"] == "cell"]
    except (OSError, IndexError, ValueError) as error:
        raise Mistake(f"{folder}: no whole results of `rounds run`: {error}") from error
    revision = sheet["build"]["revision"]
    if sheet["build"]["dirty"] != "false":
        raise Mistake(f"{folder}: measured by {revision[:12]} with changes; commit them, build, and measure again")
    below = {place(run["suite"]) for run in runs}
    if len(below) != 1:
        raise Mistake(f"{folder}: it holds runs of {len(below)} studies; give the folder of one")
    target = pathlib.Path(results, day or sheet["date"][:10], sheet["machine"]["id"], *below)
    target.mkdir(parents=True, exist_ok=True)
    for path in filter(pathlib.Path.is_file, list(target.iterdir())):
        path.unlink()
    for path in filter(pathlib.Path.is_file, folder.iterdir()):
        if not LEFT_BEHIND.fullmatch(path.name):
            shutil.copyfile(path, target / path.name)
    sheet["command"] = public_command(sheet["command"])
    (target / "environment.json").write_text(json.dumps(sheet, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    plain = target / "measurements.jsonl"
    if plain.exists() and plain.stat().st_size > LARGE:
        packed = lzma.compress(plain.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
        (target / "measurements.jsonl.xz").write_bytes(packed)
        plain.unlink()
    if subprocess.run(["git", "-C", ROOT, "merge-base", "--is-ancestor", revision, "HEAD"], capture_output=True).returncode:
        print(f"warning: {folder}: revision {revision[:12]} is not in the history of this branch", file=sys.stderr)
    return target, len(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folder of one study's results")
    parser.add_argument("--day", help="folder of the day [default: day of the run]")
    options = parser.parse_args()
    try:
        for folder in options.folders:
            target, runs = install(folder, options.day)
            print(f"{os.path.relpath(target)}: {runs} runs; git add it, then make readme")
    except Mistake as mistake:
        sys.exit(f"error: {mistake}")


if __name__ == "__main__":
    main()
