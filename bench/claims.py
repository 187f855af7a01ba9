"""What the results page says, held against the raw runs: its tables and the numbers of its prose. Published numbers and claims are
judged by `rounds verdicts`.

claims.toml   [[claim]]: a `text` of a page and an expression for its numbers in their order (`values`), or the `source` of texts
              whose numbers are no results of the studies. Each text of a list states all `values`. Every number in a checked part of a
              page, between `<!-- checked -->` and `<!-- /checked -->`, stands in a claim.
              [table.NAME]: rows and columns are lists of labels, or of (label, value), by expressions; `value` is the expression of
              an entry from `row` and `column`, or columns are (label, expression from `row`). Its place is `<!-- rounds:grid NAME -->`.
Expressions are Python with the functions of quantities.py and studies.py. The entry of a table is a list of runs
or numbers (a sample), or (mean, half of the interval, number of runs).
"""

import math
import os
import re
import statistics
import tomllib

import quantities
import studies
from studies import ROOT, Mistake

NAMES = {**vars(quantities), "median": statistics.median, "log": math.log, "exp": math.exp, "sqrt": math.sqrt,
         **{function.__name__: function for function in (map, min, max, len, sum, sorted, abs, zip, all, any, range, set, round, enumerate)}}


def evaluated(expression, **names):
    try:
        return eval(expression, {**NAMES, **names, "__builtins__": {}})
    except Mistake:
        raise
    except Exception as error:
        raise Mistake(f"{expression}: {type(error).__name__}: {error}") from error


def read(name):
    with open(os.path.join(ROOT, "bench", name), "rb") as file:
        return tomllib.load(file)


def signed(text):
    return text.replace("-", "−")


def rounded(found, digits=None):
    """A value with its interval, to two digits of the interval or to as many digits behind the point."""
    if found is None or isinstance(found, str):
        return found or "–"
    if isinstance(found, (int, float)):
        return f"{found:,}" if isinstance(found, int) else f"{found:.{digits}f}" if digits is not None else f"{found:.3g}"
    middle, half, *_ = studies.estimate(found)
    if not half > 0:
        return signed(f"{middle:.{digits}f} ± 0" if digits is not None else f"{middle:.4g}")
    if abs(middle) < 1e-3 and half < 1e-3:
        power = math.floor(math.log10(max(abs(middle), half)))
        return signed(f"({middle / 10 ** power:.1f} ± {half / 10 ** power:.1f})") + f"e{power}"
    digits = max(0, 1 - math.floor(math.log10(half))) if digits is None else digits
    return signed(f"{middle:,.{digits}f} ± {half:,.{digits}f}")


def label(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value


def grid(name):
    """A table of claims.toml."""
    table = read("claims.toml")["table"].get(name)
    if table is None:
        raise Mistake(f"bench/claims.toml has no [table.{name}]")
    pairs = lambda key: [entry if isinstance(entry, (list, tuple)) else (label(entry), entry) for entry in evaluated(table[key])]
    columns = pairs("columns")
    lines = [f"| {table.get('head', '')} | " + " | ".join(head for head, _ in columns) + " |",
             "| --- " * (table.get("head", "").count("|") + 1) + "| ---: " * len(columns) + "|"]
    for head, row in pairs("rows"):
        entries = [evaluated(table.get("value", column), row=row, column=column) for _, column in columns]
        lines.append(f"| {head} | " + " | ".join(rounded(entry, table.get("digits")) for entry in entries) + " |")
    return lines


# Numbers that name things or settings: theorems, papers, code, links, headings, symbols with a value.
EXEMPT = [
    r"```.*?```", r"`[^`]*`", r"\]\([^)]*\)", r"<!--.*?-->", r"^#.*$",
    r"(?:[Ff]igures?|[Tt]ables?|[Tt]heorems?|[Pp]apers?|[Pp]ropositions?|[Ll]emma|[Aa]ppendix|[Ss]ections?|[Ee]quations?|[Aa]lgorithm|[Rr]emark|"
    r"[Cc]orollary|[Bb]ound|[Cc]laim|[Ll]ine) \(?[A-Z]?[\d.]+[a-d]?\)?(?:(?:, | and | to | or )[A-Z]?[\d.]+)*",
    r"(?:CIFAR|SHA)-\d+", r"\b[A-EG-Za-zα-ω][′₀]? ?[=≤≥∈] ?[{(]?−?[\d.,/·^e−√ ]*\d[\d)}]*(?:e-\d+)?(?:(?:, | and | to | or |, …, )\d[\d.,]*)*",
    r"\(\d[\d.]*, ?\d[\de.−-]*\)-DP", r"\[\d+\]", r"\^[({]?[−\d/½¼]+[)}]?(?!\.\d)", r"\b20\d\d-\d\d-\d\d\b",
    r"\b10[¹²³⁴⁵⁶⁷⁸⁹]", r"(?<![\d.])1/\(?[24]?[√εδnd]?(?![\d.])", r"[²³]?ε\^\{-\d\}",
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
    parts = "\n".join(part for page in pages for part in CHECKED.findall(page))
    reasons = {row[key]: None for row in read("published.toml")["row"] for key in ("reason", "open") if key in row}
    # A paragraph is a line.
    prose = re.sub(r"(?<!\n)\n(?![\n|#])\s*", " ", "\n\n".join([PLACE.sub("", parts), *reasons]))
    faults, covered = [], prose
    for claim in read("claims.toml")["claim"]:
        texts = claim["text"] if isinstance(claim["text"], list) else [claim["text"]]
        if "source" not in claim:
            found = evaluated(claim["values"])
            found = list(found) if isinstance(found, (tuple, list)) else [found]
        for text in texts:
            if text not in prose:
                faults.append(f"no page says {text!r}, which bench/claims.toml has a source for")
            covered = covered.replace(text, re.sub(r"\d", " ", text))
            if "source" in claim:
                continue
            stated = NUMBER.findall(text)
            if len(found) != len(stated):
                faults.append(f"{text!r} has {len(stated)} numbers, and its source {len(found)}: {found}")
            faults += [f"{text!r}: {said} is {value:.6g} by the raw runs"
                       for said, value in zip(stated, found) if not agrees(said, value)]
    for pattern in EXEMPT:
        covered = re.sub(pattern, lambda match: re.sub(r"\d", " ", match.group()), covered, flags=re.DOTALL if "```" in pattern or "<!--" in pattern else re.MULTILINE)
    for line in covered.splitlines():
        faults += [f"{found} has no source: {' '.join(line.split())[:100]!r}" for found in NUMBER.findall(line)]
    return faults
