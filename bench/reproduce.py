#!/usr/bin/env python3
"""Makes a random sample of the committed runs of every study again with the present build, and compares every field of them.

    make reproduce                                      a few runs of every study: some minutes
    make reproduce ARGS="--studies bounds --runs 50"

A run depends on its definition and seeds alone, so that all of its fields but those of time have to be the same, bit for bit, on
any machine with the same class of instructions. The sample is taken out of a copy of the study's folder, and `rounds run --resume`
makes what is missing there; factorisations are computed anew. Every method of a study is in its sample. Folders that hold times,
or no raw runs, are named and left out, and so are studies that say `unfinished`, whose runs are long, unless --studies names them. One exception: a sentence of `privacy.public` may have other words with the same numbers, and
such runs are counted. Exit code 1 if a run differs or cannot be made, or if the definition or ROUNDS_DATA lacks committed cells
(--allow-lacking accepts this).
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

import studies
from studies import ROOT, Mistake

RESULTS = pathlib.Path(ROOT, "results")
CELL = ["suite", "problem", "method", "algorithm", "dataset", "features", "batch_size", "threads", "ranks", "parameters"]
RUN = [*CELL, "repeat", "draw"]
# A sentence of a privacy statement, and a number in one.
SENTENCE = re.compile(r"privacy\.public\[\d+\]")
NUMBER = re.compile(r"[-−]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*")


def key(record, fields):
    return json.dumps([record.get(name) or None for name in fields], sort_keys=True)


def differences(committed, now, path=""):
    """The fields in which two runs differ, but for times, as (path, committed, now)."""
    if isinstance(committed, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*committed, *now]):
            if name != "date" and not name.endswith("seconds"):
                yield from differences(committed.get(name), now.get(name), f"{path}.{name}" if path else name)
    elif isinstance(committed, list) and isinstance(now, list) and len(committed) == len(now):
        for place, pair in enumerate(zip(committed, now)):
            yield from differences(*pair, f"{path}[{place}]")
    elif json.dumps(committed) != json.dumps(now):
        yield path, committed, now


def is_wording(path, committed, now):
    """True for a sentence of a privacy statement in other words with the same numbers."""
    texts = isinstance(committed, str) and isinstance(now, str)
    return bool(SENTENCE.fullmatch(path)) and texts and NUMBER.findall(committed) == NUMBER.findall(now)


def unfinished(name):
    """Why runs of a definition may be missing, if they may."""
    return studies.definition(name).get("show", {}).get("unfinished")


def selecting(run):
    """Arguments that select no runs but those of a cell up to a repeat."""
    only = [f"--where={name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in run["parameters"].items()]
    return ["--algorithms", run["algorithm"], "--repeats", str(run["repeat"] + 1), *only]


def sample(runs, count, seed):
    """`count` runs or more: one of every method, the others drawn from all."""
    order = random.Random(seed).sample(runs, len(runs))
    chosen = list({key(run, ["method", "algorithm"]): run for run in reversed(order)}.values())
    return chosen + [run for run in order if run not in chosen][: max(0, count - len(chosen))]


class Study:
    """A committed study: its sheet and its raw records."""

    def __init__(self, folder, name):
        try:
            self.name, self.records, self.unfinished = name, studies.records(folder), unfinished(name)
            self.sheet = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Mistake(f"{folder.relative_to(RESULTS)}: {error}") from error
        self.runs = [record for record in self.records if record["record"] == "cell"]
        if not self.runs:
            raise Mistake(f"{folder.relative_to(RESULTS)}: the record has no run")
        dates = sorted(datetime.datetime.fromisoformat(run["date"]) for run in self.runs)
        self.seconds = (dates[-1] - dates[0]).total_seconds()


class Program:
    """The present build."""

    def __init__(self, path, cache):
        self.path = os.path.abspath(path)
        # The user's cache may hold factorisations of other builds.
        self.environment = {**os.environ, "XDG_CACHE_HOME": cache}
        self.now = json.loads(self.output("machine", "--no-measure", "--json"))

    def output(self, *arguments):
        try:
            done = subprocess.run([self.path, *arguments], capture_output=True, text=True, cwd=ROOT, env=self.environment)
        except OSError as error:
            raise Mistake(f"{self.path}: {error.strerror}; build it with cargo build --release") from error
        if done.returncode:
            raise Mistake((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return done.stdout

    def plan(self, study):
        """Arguments that select no other cells than the committed ones, and these."""
        words, most = shlex.split(study.sheet["command"]), {run["threads"] for run in study.runs}
        threads = words[words.index("--threads") + 1] if "--threads" in words else ",".join(map(str, sorted(most if len(most) > 1 else most - {1})))
        arguments = ["--threads", threads] if threads else []
        known = {key(record.get("configuration", record), CELL) for record in study.records}
        algorithms = ",".join(sorted({run["algorithm"] for run in study.runs}))
        for selection in [arguments, [*arguments, "--algorithms", algorithms]]:
            listed = self.output("run", study.name, "--list", "--json", *selection).splitlines()
            cells = {key(json.loads(line), CELL) for line in listed}
            if cells <= known or study.unfinished:
                return selection, cells & known
        raise Mistake(f"definition changed: {len(cells - known)} cells are new")

    def again(self, study, chosen, arguments, folder):
        """The chosen runs made again, by their keys, and whether the definition is that of the committed runs."""
        below = pathlib.Path(folder, study.name)
        below.mkdir(parents=True)
        wanted = {key(run, RUN) for run in chosen}
        kept = [record for record in study.records if key(record, RUN) not in wanted]
        (below / "measurements.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
        recorded = study.sheet["binding"]
        binding = {**recorded, "machine": self.now["machine"], "isa": self.now["isa"], "suites": {}, "data": {},
                   "build": self.now["build"]["executable_sha256"]}
        sheet = below / "environment.json"
        sheet.write_text(json.dumps({**study.sheet, "binding": binding}), encoding="utf-8")
        for only in [selecting(run) for run in chosen] if study.unfinished else [[]]:
            self.output("run", study.name, "--resume", "--out", folder, *arguments, *only)
        made = {key(record, RUN): record for record in studies.records(below)[len(kept):]}
        return made, json.loads(sheet.read_text(encoding="utf-8"))["binding"]["suites"] == recorded["suites"]


def check(program, study, options):
    """Prints a study's line and the first of the differences in each field; true where all runs are equal and no cell is lacking."""
    arguments, cells = program.plan(study)
    runs = [run for run in study.runs if key(run, CELL) in cells]
    if not runs:
        raise Mistake("no committed cell is in its definition now; named data sets need ROUNDS_DATA")
    count = math.ceil(options.fraction * len(runs)) if options.fraction else options.runs
    chosen, start = sample(runs, count, f"{options.seed} {study.name}"), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made, same_definition = program.again(study, chosen, arguments, folder)
    each = (time.monotonic() - start) / len(chosen)
    counts, first = collections.Counter(), {}
    for run in chosen:
        now = made.get(key(run, RUN))
        every = list(differences(run, now or {}))
        found = [one for one in every if not is_wording(*one)]
        counts["equal" if not found else "differ" if now else "missing"] += 1
        counts["wording"] += bool(now) and len(found) < len(every)
        if now and found:
            first.setdefault(found[0][0], []).append((run, found))
    lacking, recorded = len(study.runs) - len(runs), study.sheet["binding"]["isa"].removesuffix("+amx")
    notes = [note for note, holds in [
        ("the definition changed since", not same_definition),
        (f"recorded on {recorded}, whose floats may differ", recorded != program.now["isa"].removesuffix("+amx")),
        (f"{counts['missing']} not made", counts["missing"]),
        (f"privacy.public of {counts['wording']} has other words", counts["wording"]),
        (f"{lacking} runs are of cells that the definition or ROUNDS_DATA lacks (--allow-lacking)", lacking),
    ] if holds]
    print(f"| {study.name} | {len(chosen)} | {counts['equal']} | {counts['differ']} | {each:.2f} | {each * len(study.runs):,.0f} | "
          f"{study.seconds:,.0f} | {'; '.join(notes)} |", flush=True)
    for field, of_field in first.items():
        run, ((_, committed, now), *others) = of_field[0]
        also = f", and in {', '.join(dict.fromkeys(path.split('[')[0] for path, *_ in others))}" if others else ""
        of = [run.get("method") or run["algorithm"], run["dataset"], *(f"{name}={run[name]}" for name in ["repeat", "draw"] if name in run),
              *(f"{name}={value}" for name, value in run["parameters"].items())]
        print(f"  {len(of_field)} differ first in {field}: {committed} committed, {now} now{also} ({' '.join(of)})", flush=True)
    return counts["equal"] == len(chosen) and (options.allow_lacking or not lacking)


def committed(selected):
    """The studies to compare, those with the quickest runs first; mistakes by study; the folders left out with the reason."""
    found, mistakes, left_out = [], {}, []
    for folder in sorted({path.parent for path in RESULTS.glob("*/*/**/*") if path.is_file()}):
        name = "/".join(folder.relative_to(RESULTS).parts[2:])
        try:
            if not list(folder.glob("measurements.jsonl*")):
                left_out.append((folder, "no raw runs"))
            elif not name or studies.definition(name).get("study", "timing") == "timing":
                left_out.append((folder, "times"))
            elif unfinished(name) and name not in selected:
                left_out.append((folder, "unfinished; --studies makes some of its runs"))
            else:
                found.append(Study(folder, name))
        except Mistake as mistake:
            mistakes[name] = mistake
    names = {study.name for study in found} | set(mistakes)
    if not selected <= names:
        raise Mistake(f"no committed study {', '.join(sorted(selected - names))}; there are {', '.join(sorted(names))}")
    found.sort(key=lambda study: study.seconds / len(study.runs))
    is_selected = lambda name: not selected or name in selected
    return ([study for study in found if is_selected(study.name)],
            {name: mistake for name, mistake in mistakes.items() if is_selected(name)}, left_out)


def report(program, options, found, mistakes):
    """Prints the table; true where every study is equal."""
    good, mistakes = True, dict(mistakes)
    print("| study | runs | equal | differ | seconds a run | seconds of the study | when committed | notes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    for study in found:
        try:
            good &= check(program, study, options)
        except Mistake as mistake:
            mistakes[study.name] = mistake
    for name, mistake in mistakes.items():
        print(f"| {name} | 0 | 0 | 0 | | | | {mistake} |", flush=True)
    return good and not mistakes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(ROOT, "target", "release", "rounds"), help="the build to check")
    parser.add_argument("--studies", default="", help="names with commas between [default: all]")
    parser.add_argument("--runs", type=int, default=20, help="runs of a study, at least one a method [default: 20]")
    parser.add_argument("--fraction", type=float, help="share of the runs of a study, instead of --runs")
    parser.add_argument("--seed", type=int, default=1, help="of the sample [default: 1]")
    parser.add_argument("--allow-lacking", action="store_true", help="accept committed cells that the definition, or ROUNDS_DATA, lacks")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as cache:
            found, mistakes, left_out = committed(set(filter(None, options.studies.split(","))))
            program = Program(options.program, cache)
            build = program.now["build"]
            changed = " with changes" if build["dirty"] != "false" else ""
            print(f"revision {build['revision'][:12]}{changed}, {program.now['isa']}, {program.now['machine']}\n")
            good = report(program, options, found, mistakes)
    except Mistake as mistake:
        sys.exit(f"error: {mistake}")
    print("\nSeconds hold set-up; those of the study are the sample's, scaled to all runs.")
    print("Left out: " + ", ".join(f"{folder.relative_to(RESULTS)} ({reason})" for folder, reason in left_out))
    sys.exit(not good)


if __name__ == "__main__":
    main()
