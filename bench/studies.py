"""Numbers of studies, recomputed from the raw runs that are committed: tables for the results page, and the claims of its prose.

The raw runs of a study are results/<day>/<machine>/<study>/measurements.jsonl, or measurements.jsonl.xz. A claim
(bench/claims.toml) is a text of the page with an expression for each of its numbers. Every number in the prose of a checked
part of the page stands in a claim; `make readme ARGS=--check` fails where it does not, or where a text differs from its value.
"""

import glob
import json
import lzma
import math
import os
import re
import statistics
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST_RUNS = 10


class Mistake(Exception):
    """What a person has to put right."""


def runs(study, _kept={}):
    """The runs of a study's newest results, parameters flattened into each."""
    if study not in _kept:
        found = sorted(glob.glob(os.path.join(ROOT, "results", "*", "*", study, "measurements.jsonl*")))
        if not found:
            raise Mistake(f"no results/<day>/<machine>/{study} holds measurements.jsonl; run `rounds run {study}`")
        opened = lzma.open if found[-1].endswith(".xz") else open
        with opened(found[-1], "rt", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        _kept[study] = [{**record.get("parameters", {}), **record} for record in records if record.get("record") == "cell"]
    return _kept[study]


def chosen(study, **fields):
    """The runs whose fields are these; a text that ends with `*` stands for what begins so."""
    def is_one(run, name, wanted):
        value = run.get(name.replace("_", "-"), run.get(name))
        if isinstance(wanted, str) and wanted.endswith("*"):
            return isinstance(value, str) and value.startswith(wanted[:-1])
        return value == wanted
    found = [run for run in runs(study) if all(is_one(run, *field) for field in fields.items())]
    if not found:
        raise Mistake(f"{study} has no run with {fields}")
    return found


def values(some, field="value"):
    return [run[field] for run in some]


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


def settings(some):
    """Runs by their parameters."""
    found = {}
    for run in some:
        found.setdefault(json.dumps(run["parameters"], sort_keys=True), []).append(run)
    return list(found.values())


def best(some, field="value", least=False):
    """The runs of the parameters with the best mean."""
    rank = min if least else max
    return rank(settings(some), key=lambda group: statistics.fmean(values(group, field)))


def mean(some, field="value"):
    return statistics.fmean(values(some, field))


def pm(some, field="value", level=0.95):
    """The mean and half of its interval."""
    return mean(some, field), half_width(values(some, field), level)


def gap(data, epsilon):
    """Points of the best of the grid over the default step of DP-SGD (`default-steps`)."""
    default, grid = (chosen("default-steps", problem=data, method=f"DP-SGD, {kind}*", epsilon=epsilon) for kind in ("default", "best"))
    return mean(best(grid)) - mean(default)


def definition(study):
    with open(os.path.join(ROOT, "bench", "definitions", study + ".toml"), "rb") as file:
        return tomllib.load(file)


def number(value, digits):
    """Percentages with two digits, risks with two significant ones where they are small."""
    return f"{value:.{digits}f}" if digits == 2 or abs(value) >= 10 ** -digits or value == 0 else f"{value:.1e}"


def training(study):
    """Problems and methods against the axis, each at the best of its parameters, with published numbers where there are some."""
    defined = definition(study)
    options = defined.get("options", {})
    level, metric = options.get("level", 0.95), options.get("metric", "test-accuracy")
    axes = {problem.get("label", problem["dataset"]): problem.get("axis") for problem in defined["problem"]}
    methods = {(problem.get("label", problem["dataset"]), method.get("label", method["algorithm"])): method
               for problem in defined["problem"] for method in problem.get("method", defined.get("method", []))}
    places, rows = [], {}
    for run in runs(study):
        axis = axes[run["problem"]]
        place = None if axis is None else run.get(axis, run.get(axis.replace("-", "_")))
        place in places or places.append(place)
        rows.setdefault((run["problem"], run["method"]), {}).setdefault(place, []).append(run)
    places.sort(key=lambda place: (place is not None, place or 0))
    digits = 2 if metric == "test-accuracy" else 4
    published = any("published" in method for method in methods.values())
    heads = [next(axis for axis in axes.values() if axis) + f" {place:g}" if place is not None else
             ("test accuracy, %" if metric == "test-accuracy" else metric.replace("-", " ")) for place in places]
    heads += ["published", "verdict"] if published else []
    lines = ["| problem | method | " + " | ".join(heads) + " |", "| --- | --- |" + " ---: |" * len(heads)]
    counts = set()
    for (problem, method), at in rows.items():
        entries = []
        for place in places:
            if place not in at:
                entries.append("")
                continue
            group = best(at[place], least=metric != "test-accuracy")
            middle, half = pm(group, level=level)
            counts.add(len(group))
            entries.append(f"{number(middle, digits)} ± {number(half, digits)}" if len(group) > 1 else number(middle, digits))
        if published:
            said = methods[problem, method]
            entries += verdict(said, middle, half, len(group))
        lines.append(f"| {problem} | {method} | " + " | ".join(entries) + " |")
    span = f"{min(counts)} runs" if len(counts) == 1 else f"{min(counts)} to {max(counts)} runs"
    return [*lines, "", f"Means of {span} with {100 * level:.0f} % intervals, each method at the best of its parameters "
            f"(`rounds run {study}`)."]


def looseness(study):
    """Bounds over exact errors: the range over all rounds, and the values at three of them."""
    groups = {}
    for run in runs(study):
        groups.setdefault((run["method"], run["noise-level"]), []).append(dict(map(tuple, run["curves"][0][1])))
    short = lambda value: f"{value:.1f}" if value < 100 else f"{value:,.0f}" if value < 1e4 else f"{value:.0e}".replace("e+0", "e")
    span = lambda found: " – ".join(dict.fromkeys(short(end) for end in (min(found), max(found))))
    lines = ["| bound | s | T = 10 | T = 100 | T = 1,000 | over all T |", "| --- | --- | --- | --- | --- | --- |"]
    for (method, noise), curves in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1])):
        at = [span([curve[rounds] for curve in curves]) for rounds in (10, 100, 1000)]
        lines.append(f"| {method} | {noise:g} | " + " | ".join([*at, span([ratio for curve in curves for ratio in curve.values()])]) + " |")
    return [*lines, "", f"Ranges are over the settings of `{study}` (steps, momentum, β, kinds of noise). Theorem 4.7 has no explicit constant: it "
            "stands with 1 and without logarithms."]


def verdict(said, middle, half, count):
    if "published" not in said:
        return ["", ""]
    theirs = said.get("published-interval", 0)
    text = f"{said['published']:.2f}" + (f" ± {theirs:.2f}" if theirs else "")
    if count < LEAST_RUNS:
        return [text, "too few runs"]
    difference = middle - said["published"]
    return [text, "agrees" if abs(difference) <= half + theirs else f"differs by {difference:+.2f}"]


# Numbers that name things or settings: theorems, papers, code, links, headings, symbols with a value.
EXEMPT = [
    r"```.*?```", r"`[^`]*`", r"\]\([^)]*\)", r"<!--.*?-->", r"^#.*$",
    r"(?:[Ff]igures?|[Tt]ables?|[Tt]heorems?|[Pp]apers?|[Pp]ropositions?|[Ll]emma|[Aa]ppendix|[Ss]ections?|[Ee]quations?|[Aa]lgorithm|[Rr]emark|"
    r"[Cc]orollary|[Bb]ound|[Cc]laim|[Ll]ine) \(?[A-Z]?[\d.]+[a-d]?\)?(?:(?:, | and | to | or )[A-Z]?[\d.]+)*",
    r"(?:CIFAR|SHA)-\d+", r"\b[A-EG-Za-zα-ω][′₀]? ?[=≤≥∈] ?[{(]?−?[\d.,/·^e−√ ]*\d[\d)}]*(?:e-\d+)?(?:(?:, | and | to | or |, …, )\d[\d.,]*)*",
    r"\(\d[\d.]*, ?\d[\de.−-]*\)-DP", r"\[\d+\]", r"\^[({]?[−\d/½¼]+[)}]?", r"\b20\d\d-\d\d-\d\d\b",
]
NUMBER = re.compile(r"(?<![\w.])[+−-]?\d[\d.,]*(?:e[−-]?\d+)?(?<![.,])")
PLACE = re.compile(r"<!-- rounds:([\w-]+)[^>]*-->\n.*?<!-- /rounds:\1[^>]*-->", re.DOTALL)
CHECKED = re.compile(r"<!-- checked -->(.*?)<!-- /checked -->", re.DOTALL)


def as_number(text):
    return float(text.replace("−", "-").replace(",", "").replace("+", ""))


def agrees(text, value):
    """The text is the value, rounded to the digits that the text has."""
    mantissa = text.split("e")[0]
    places = len(mantissa.rsplit(".", 1)[1]) if "." in mantissa else 0
    exponent = int(text.replace("−", "-").split("e")[1]) if "e" in text else 0
    return abs(as_number(text) - value) <= 0.5000001 * 10.0 ** (exponent - places)


def check(pages):
    """The faults of the checked parts of pages, each a line."""
    with open(os.path.join(ROOT, "bench", "claims.toml"), "rb") as file:
        claims = tomllib.load(file).get("claim", [])
    names = {"chosen": chosen, "values": values, "pm": pm, "mean": mean, "best": best, "half_width": half_width, "gap": gap,
             "median": statistics.median, "settings": settings, "runs": runs, "log": math.log, "sqrt": math.sqrt, "min": min,
             "max": max, "len": len, "sum": sum, "sorted": sorted, "abs": abs}
    parts = "\n".join(part for page in pages for part in CHECKED.findall(page))
    # A paragraph is a line.
    prose = re.sub(r"(?<!\n)\n(?![\n|#])\s*", " ", PLACE.sub("", parts))
    faults, covered = [], prose
    for claim in claims:
        text = claim["text"]
        if text not in prose:
            faults.append(f"no page says {text!r}, which bench/claims.toml has a source for")
            continue
        covered = covered.replace(text, re.sub(r"\d", " ", text))
        if "source" in claim:
            continue
        stated = NUMBER.findall(text)
        found = eval(claim["values"], {"__builtins__": {}, **names})
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(found) != len(stated):
            faults.append(f"{text!r} has {len(stated)} numbers, and its source {len(found)}: {found}")
        faults += [f"{text!r}: {said} is {value:.6g} by the raw runs"
                   for said, value in zip(stated, found) if not agrees(said, value)]
    for pattern in EXEMPT:
        covered = re.sub(pattern, lambda match: re.sub(r"\d", " ", match.group()), covered, flags=re.DOTALL if "```" in pattern or "<!--" in pattern else re.MULTILINE)
    for line in covered.splitlines():
        faults += [f"{found} has no source: {' '.join(line.split())[:100]!r}" for found in NUMBER.findall(line)]
    return faults
