"""Raw runs that are committed, results/<day>/<machine>/<study>/measurements.jsonl or measurements.jsonl.xz, and definitions."""

import glob
import json
import lzma
import os
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Mistake(Exception):
    """What a person has to put right."""


def records(folder):
    """The raw records of a folder; none without their file."""
    found = sorted(glob.glob(os.path.join(glob.escape(str(folder)), "measurements.jsonl*")))
    if not found:
        return []
    with (lzma.open if found[0].endswith(".xz") else open)(found[0], "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def cells(folder):
    """The runs of a folder."""
    return [record for record in records(folder) if record.get("record") == "cell"]


def definition(study):
    try:
        with open(os.path.join(ROOT, "bench", "definitions", study + ".toml"), "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as error:
        raise Mistake(f"{study}: bench/definitions/{study}.toml is missing: put it there, or rename the study") from error
