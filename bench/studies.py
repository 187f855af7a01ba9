"""Numbers of studies, recomputed from the raw runs that are committed: results/<day>/<machine>/<study>/measurements.jsonl, or
measurements.jsonl.xz. Here are the runs and their statistics; quantities.py has what single studies are asked for.
"""

import functools
import glob
import json
import lzma
import math
import os
import statistics
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


def runs(study, _kept={}):
    """The runs of a study's newest results in the order of draws and seeds, parameters flattened into each."""
    if study not in _kept:
        found = sorted(glob.glob(os.path.join(ROOT, "results", "*", "*", study, "measurements.jsonl*")))
        if not found:
            raise Mistake(f"no results/<day>/<machine>/{study} holds measurements.jsonl; run `rounds run {study}`")
        flat = [{"draw": 0, **run.get("parameters", {}), **run} for run in cells(os.path.dirname(found[-1]))]
        _kept[study] = sorted(flat, key=lambda run: (run["draw"], run["repeat"]))
    return _kept[study]


def among(some, **fields):
    """Those of some runs whose fields are these; `*` in a text stands for any text."""
    def is_one(run, name, wanted):
        value = run.get(name.replace("_", "-"), run.get(name))
        if isinstance(wanted, str) and "*" in wanted:
            head, _, tail = wanted.partition("*")
            return isinstance(value, str) and value.startswith(head) and value.endswith(tail)
        return value == wanted
    found = [run for run in some if all(is_one(run, *field) for field in fields.items())]
    if not found:
        raise Mistake(f"{some[0]['suite']} has no run with {fields}")
    return found


def chosen(study, **fields):
    return among(runs(study), **fields)


def values(some, field="value"):
    """A field of runs; numbers are themselves."""
    return [run[field] if isinstance(run, dict) else run for run in some]


def incomplete_beta(a, b, x):
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a if x else 0
    upper, lower, fraction = 1.0, 0.0, 1.0
    for step in range(400):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        lower = 1 / (1 + term * lower or 1e-300)
        upper = 1 + term / upper or 1e-300
        fraction *= upper * lower
        if step and abs(1 - upper * lower) < 1e-15:
            break
    return front * (fraction - 1)


@functools.cache
def student(probability, freedom):
    """The quantile of Student's t, for a probability above one half."""
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        above = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + middle * middle)) / 2
        low, high = (middle, high) if 1 - above < probability else (low, middle)
    return (low + high) / 2


def half_width(sample, level=0.95):
    """Half of the interval of a mean."""
    if len(sample) < 2:
        return math.nan
    return student((1 + level) / 2, len(sample) - 1) * statistics.stdev(sample) / math.sqrt(len(sample))


def mean(some, field="value"):
    return statistics.fmean(values(some, field))


def pm(some, field="value", level=0.95):
    """The mean and half of its interval."""
    return mean(some, field), half_width(values(some, field), level)


def between(some, field="value"):
    """The mean and the ends of its interval."""
    middle, half = pm(some, field)
    return middle, middle - half, middle + half


def span(some, field="value"):
    found = values(some, field)
    return min(found), max(found)


def difference(one, other):
    """The mean of differences on the same draws and seeds, half of its interval, and their number."""
    place = lambda run: (run["draw"], run["repeat"])
    if list(map(place, one)) != list(map(place, other)):
        raise Mistake("a difference needs runs on the same draws and seeds")
    return *pm(paired(one, other)), len(one)


def paired(one, other):
    """Differences on the same draws."""
    return [a - b for a, b in zip(values(one), values(other), strict=True)]


def ratios(one, other):
    """Ratios on the same draws."""
    return [a / b for a, b in zip(values(one), values(other), strict=True)]


def estimate(found, level=0.95):
    """The mean, half of its interval and the number of runs, of runs or numbers; three numbers are these already."""
    if isinstance(found, tuple):
        return found
    return *pm(found, level=level), len(found)


def settings(some):
    """Runs by their parameters and batch sizes."""
    found = {}
    for run in some:
        found.setdefault(json.dumps([run["parameters"], run["batch_size"]], sort_keys=True), []).append(run)
    return list(found.values())


def best(some, field="value", least=False):
    """The runs of the parameters with the best mean."""
    rank = min if least else max
    return rank(settings(some), key=lambda group: mean(group, field))


def fit(points):
    """Exponents p of y = c·Π x_j^p_j of points (x_1, …, x_k, y) by least squares in logarithms, each with half of its 95 %
    interval by the residuals."""
    rows = [[1.0, *map(math.log, point[:-1])] for point in points]
    right = [math.log(point[-1]) for point in points]
    unknowns = len(rows[0])
    # Gauss and Jordan on the normal equations beside the identity and the right-hand side.
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(unknowns)] + [float(i == j) for j in range(unknowns)]
              + [sum(row[i] * y for row, y in zip(rows, right))] for i in range(unknowns)]
    for i in range(unknowns):
        pivot = max(range(i, unknowns), key=lambda k: abs(matrix[k][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [value / matrix[i][i] for value in matrix[i]]
        for k in range(unknowns):
            if k != i:
                matrix[k] = [a - matrix[k][i] * b for a, b in zip(matrix[k], matrix[i])]
    solution = [row[-1] for row in matrix]
    freedom = len(rows) - unknowns
    misfit = sum((y - sum(a * b for a, b in zip(row, solution))) ** 2 for row, y in zip(rows, right))
    scale = student(0.975, freedom) * math.sqrt(misfit / freedom) if freedom else math.nan
    return [(solution[i], scale * math.sqrt(matrix[i][unknowns + i])) for i in range(1, unknowns)]


def definition(study):
    try:
        with open(os.path.join(ROOT, "bench", "definitions", study + ".toml"), "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as error:
        raise Mistake(f"{study}: bench/definitions/{study}.toml is missing: put it there, or rename the study") from error


def looseness(study):
    """Bounds over what they bound: the range over all rounds, and the values at three of them."""
    groups = {}
    for run in runs(study):
        given = f"s = {run['noise-level']:g}" if "noise-level" in run else run["dataset"]
        groups.setdefault((run["method"], given), []).append(dict(map(tuple, run["curves"][0][1])))
    short = lambda value: (f"{value:.2f}" if value < 3 else f"{value:.1f}" if value < 100 else f"{value:,.0f}" if value < 1e4 else
                           f"{value:.0e}".replace("e+0", "e"))
    span = lambda found: " – ".join(dict.fromkeys(short(end) for end in (min(found), max(found)))) if found else ""
    lines = ["| bound | on | T = 10 | T = 100 | T = 1,000 | over all T |", "| --- | --- | --- | --- | --- | --- |"]
    for (method, given), curves in sorted(groups.items()):
        at = [span([curve[rounds] for curve in curves if rounds in curve]) for rounds in (10, 100, 1000)]
        lines.append(f"| {method} | {given} | " + " | ".join([*at, span([ratio for curve in curves for ratio in curve.values()])]) + " |")
    return [*lines, "", f"Ranges are over the settings of `{study}` (steps, momentum, β, batches, kinds of noise). Theorems 4.6 and 4.7 of paper 001 and "
            "§4.3 of paper 000 have no explicit constants: they stand with 1 and without logarithms."]
