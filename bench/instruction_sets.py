"""Runs the suite `instruction-sets` on every set of `--isa` that this processor has, in turn, and prints what each buys.

    python3 bench/instruction_sets.py PROGRAM [--out FOLDER] [--passes 3] [--threads 2]

PROGRAM is the front of a packed release (`make dist`): it starts the build that a set needs. Each pass measures every set once, so
that drift of the machine meets all alike. FOLDER keeps the raw runs, one folder a set and pass, and the table.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SETS = ["scalar", "v3", "v4", "vnni", "amx"]


def measure(program: str, isa: str, threads: str, folder: pathlib.Path) -> bool:
    """One pass of one set; false where the processor lacks it."""
    command = [program, "--isa", isa, "run", "instruction-sets", "--threads", threads, "--out", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 2 and "lacks" in run.stderr:
        return False
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return True


def medians(folder: pathlib.Path) -> dict[tuple[str, str, str, int], int]:
    """The median nanoseconds of a round by algorithm, data set, storage and batch size."""
    cells = {}
    for line in (folder / "measurements.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("record") == "cell":
            key = tuple(record[name] for name in ("algorithm", "dataset", "features", "batch_size"))
            cells[key] = record["round_ns"]["median"]
    return cells


def microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.3g}" if nanoseconds < 1e6 else f"{nanoseconds / 1000:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/instruction-sets"))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--threads", default="2")
    arguments = parser.parse_args()
    times: dict[tuple, dict[str, list[int]]] = {}
    lacking = set()
    for number in range(arguments.passes):
        for isa in SETS:
            folder = arguments.out / f"{isa}-{number}"
            if isa in lacking or not measure(arguments.program, isa, arguments.threads, folder):
                lacking.add(isa)
                continue
            for key, nanoseconds in medians(folder).items():
                times.setdefault(key, {}).setdefault(isa, []).append(nanoseconds)
    sets = [isa for isa in SETS if isa not in lacking]
    lines = [
        "| algorithm | rows | B | " + " | ".join(f"`{isa}`" for isa in sets) + " |",
        "| --- | --- | ---: |" + " ---: |" * len(sets),
    ]
    for (algorithm, dataset, features, size), found in sorted(times.items()):
        middle = {isa: statistics.median(values) for isa, values in found.items()}
        cells = [f"{microseconds(middle[isa])} ({middle['scalar'] / middle[isa]:.2f})" for isa in sets]
        lines.append(f"| {algorithm} | {dataset}, {features} | {size:,} | " + " | ".join(cells) + " |")
    note = f"Microseconds of a round, medians of {arguments.passes} passes in turn, {arguments.threads} threads; in brackets the speed-up over `scalar`."
    table = "\n".join(lines) + "\n\n" + note + "\n"
    if lacking:
        table += f"This processor lacks {', '.join(isa for isa in SETS if isa in lacking)}.\n"
    (arguments.out / "instruction-sets.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
