#!/usr/bin/env python3
"""Tables of rounds on ranks beside one process, from folders of `rounds run`: ranks compared with threads, or measured rounds beside
predicted ones.

    tables.py scaling OUT          OUT/alone and OUT/<ranks>    to OUT/scaling.md
    tables.py latency OUT LINK     OUT/alone and OUT/<delay>    to OUT/latency.md; delays in seconds by LINK

A round is predicted as `compute + messages·(link + delay) + rows/bandwidth`. compute is the time of a round of the ranks without delay
outside of calls to other ranks, on the slowest rank. A second prediction takes it from one process with one thread, whose gradient each
of P ranks shares: `(round − gradient) + gradient/P`. Messages and bytes of rows are counted; link and bandwidth are measured by the ranks
without delay, outside of rounds. No time of a round with a delay enters its prediction.

A measured round is the median over pairs of rounds: ranks that begin a round δ apart wait delay + δ and delay − δ for each other and
begin the next one as far apart the other way round.
"""

import json
import math
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import studies
from readme import time

MEANS = ["communication_ns", "messages", "row_bytes"]
MEDIANS = ["computing_ns", "link_ns", "link_bytes_per_s"]


def pooled(folder):
    """Cells by suite, algorithm, data, batch size, ranks and threads; repeats pooled: their means of rounds and medians of the rest."""
    groups = {}
    for cell in studies.cells(folder):
        names = [cell["suite"], cell["algorithm"], cell["dataset"], json.dumps(cell["parameters"], sort_keys=True), cell["batch_size"]]
        groups.setdefault((*names, cell.get("ranks"), cell["threads"]), []).append(cell)
    cells = {}
    for key, group in groups.items():
        sizes = [len(cell["round_ns"]["samples"]) for cell in group]
        cell = {"samples": sum((one["round_ns"]["samples"] for one in group), []), "rounds": sum(sizes) // len(group), "repeats": len(group)}
        cell["gradient"] = statistics.median(one["phases_ns"]["gradient"] for one in group)
        for name in MEANS + MEDIANS:
            values = [one.get(name) for one in group]
            if None in values:
                cell[name] = None
            elif name in MEANS:
                cell[name] = sum(value * size for value, size in zip(values, sizes)) / sum(sizes)
            else:
                cell[name] = statistics.median(values)
        cell["median"] = statistics.median(cell["samples"])
        # The all-reduce is recursive doubling.
        cell["messages"] = cell["messages"] or math.ceil(math.log2(group[0].get("ranks") or 1))
        cells[key] = cell
    return cells


def waiting(cell):
    return min(1, (cell["communication_ns"] or 0) / statistics.mean(cell["samples"]))


def table(title, corner, rows, heads):
    """Lines of a table below its title; `rows` are names with their texts, None where there is none."""
    lines = [f"{title}:", "", f"| {corner} | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    return [*lines, *(f"| {name} | {' | '.join(text or '–' for text in texts)} |" for name, texts in rows), ""]


def scaling(out):
    cells = {}
    for folder in ["alone", *sorted((name for name in os.listdir(out) if name.isdigit()), key=int)]:
        cells.update(pooled(os.path.join(out, folder)))
    lines = []
    for kind in sorted({key[:4] for key in cells}, key=lambda kind: (kind[2], kind[1])):
        own = {key[4:]: cell for key, cell in cells.items() if key[:4] == kind}
        total = lambda column: (column[0] or 1) * column[1]
        columns = sorted({key[1:] for key in own}, key=lambda column: (total(column), column[0] or 0))
        sizes = sorted({key[0] for key in own})
        ranked = [column for column in columns if (column[0] or 1) > 1]

        def name(column):
            ranks, threads = ("" if count is None else f"{count} {noun}{'s' * (count > 1)}" for count, noun in zip(column, ["rank", "thread"]))
            return (f"{ranks} × " if ranks else "") + threads + (", oversubscribed" if total(column) > os.cpu_count() else "")

        def row(size):
            one = own.get((size, None, 1))
            cell = lambda column: own.get((size, *column))
            timed = [cell(column) and one and f"{time(cell(column)['median'])} ({one['median'] / cell(column)['median']:.2f})" for column in columns]
            waited = [cell(column) and f"{waiting(cell(column)):.0%}".replace("%", " %") for column in ranked]
            threads = [(cell(column), own.get((size, None, total(column)))) for column in ranked if (None, total(column)) in columns]
            return timed + waited + [ranks and alone and f"{ranks['median'] / alone['median']:.2f}" for ranks, alone in threads]

        heads = [name(column) for column in columns] + [f"waiting, {name(column)}" for column in ranked]
        heads += [f"{name(column)} over {total(column)} threads" for column in ranked if (None, total(column)) in columns]
        title = f"`{kind[1]}` on `{kind[2]}`, a round (speed-up over one thread)"
        lines += table(title, "B", [(f"{size:,}", row(size)) for size in sizes], heads)

        def weak(size, column):
            one = own.get((size // total(column), None, 1)) if size % total(column) == 0 else None
            cell = own.get((size, *column))
            return one and cell and f"{one['median'] / cell['median']:.0%}".replace("%", " %")

        columns = [column for column in columns if total(column) > 1]
        rows = [(f"{size:,}", [weak(size, column) for column in columns]) for size in sizes]
        rows = [(size, texts) for size, texts in rows if any(texts)]
        if rows:
            title = "Weak scaling: the time of one thread on its share of B over that of all on B"
            lines += table(title, "B", rows, [name(column) for column in columns])
    return lines


def error(value):
    return f"{'−' if value < 0 else '+'}{abs(100 * value):.1f} %"


def seconds_of_round(cell):
    samples = cell["samples"]
    return 1e-9 * statistics.median([(a + b) / 2 for a, b in zip(samples, samples[1:])] or samples)


def latency(out, link):
    def delay_of(name):
        try:
            return float(name)
        except ValueError:
            return None

    alone = pooled(os.path.join(out, "alone"))
    delays = {delay_of(name): pooled(os.path.join(out, name)) for name in os.listdir(out) if delay_of(name) is not None}
    if 0 not in delays:
        sys.exit(f"tables.py: {out} has no run without delay: the link's own time comes from it")
    order = sorted(delays)

    def predicted(key, delay):
        """Seconds of a round, and those with the compute of one process."""
        own, (ranks, one) = delays[0][key], (key[5], alone[(*key[:5], None, 1)])
        sending = (own["row_bytes"] or 0) / own["link_bytes_per_s"] if own["link_bytes_per_s"] else 0
        rest = own["messages"] * (1e-9 * (own["link_ns"] or 0) + delay) + sending
        gradient = min(one["gradient"], one["median"])
        return 1e-9 * (own["computing_ns"] or 0) + rest, 1e-9 * (one["median"] - gradient + gradient / ranks) + rest

    def name(key):
        return f"{key[1]}, B = {key[4]:,}, {delays[0][key]['rounds']} rounds ({key[0]})"

    keys = sorted(delays[0], key=lambda key: (key[0], key[1], key[4]))
    lines = []

    def show(title, text):
        heads = [f"delay {time(1e9 * delay) if delay else 0}" for delay in order]
        rows = [(name(key), [key in delays[delay] and text(key, delay, delays[delay][key]) for delay in order]) for key in keys]
        lines.extend(table(title, "method", rows, heads))

    def beside(measured, prediction):
        return f"{time(1e9 * measured)}; {time(1e9 * prediction)} ({error(prediction / measured - 1)})"

    whole = lambda cell: 1e-9 * sum(cell["samples"]) / cell["repeats"]
    show("A round, measured; predicted from the ranks without delay (error)",
         lambda key, delay, cell: beside(seconds_of_round(cell), predicted(key, delay)[0]))
    show("All rounds of a run, measured; predicted (error)",
         lambda key, delay, cell: beside(whole(cell), cell["rounds"] * predicted(key, delay)[0]))
    show("Error of a round predicted from one process and the link alone",
         lambda key, delay, cell: error(predicted(key, delay)[1] / seconds_of_round(cell) - 1))
    show("Share of the time in calls to other ranks, waiting included", lambda key, delay, cell: f"{waiting(cell):.0%}".replace("%", " %"))
    for key in keys:
        for other in keys:
            (rounds, others), (own, theirs) = [[delays[0][one]["rounds"] for one in (key, other)], [delays[0][one] for one in (key, other)]]
            slope = others * theirs["messages"] - rounds * own["messages"]
            if (key[0], key[2]) == (other[0], other[2]) and others > rounds and slope > 0:
                behind = rounds * predicted(key, 0)[0] - others * predicted(other, 0)[0]
                when = f"from a delay of {time(1e9 * behind / slope)} on" if behind > 0 else "at any delay"
                lines.append(f"- {name(key)}: by prediction faster than {other[1]} B={other[4]} {when}")
    return [f"Delays by {link}.", "", *lines]


if __name__ == "__main__":
    kind, out, *more = sys.argv[1:]
    text = "\n".join(latency(out, *more) if kind == "latency" else scaling(out)).rstrip() + "\n"
    pathlib.Path(out, f"{kind}.md").write_text(text, encoding="utf-8")
    print(text, end="")
