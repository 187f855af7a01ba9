#!/usr/bin/env python3
"""Splices tables and pictures from the committed results into README.md and results/README.md, and writes the experiment
sheet (sheet.md) beside each environment.json of a run.

    make readme                  writes
    make readme ARGS=--check     writes nothing, and fails where something differs

A place is what lies between `<!-- rounds:NAME -->` and `<!-- /rounds:NAME -->`; NAME is one of those in PLACES. Tables come
from the newest folder results/<day>/<machine> that holds measurements, those of peers from the newest with peers/peers.json,
those of ranks from the newest with the tables of bench/ranks/tables.py, ranks/scaling.md and latency/latency.md.
Places of verdicts, of numbers and of tables of studies are filled by `rounds verdicts --write`.
"""

import argparse
import glob
import json
import os
import re
import statistics
import sys
from fractions import Fraction

from studies import ROOT, Mistake

FILES = ["README.md", os.path.join("results", "README.md"), os.path.join("results", "history.md")]
CLOSED_FORMS = {
    "jax-closed-form": "JAX", "numpy-whole": "NumPy", "numpy-blocked": "NumPy, blocks", "torch-closed-form": "torch"
}


def newest(below):
    """The newest results/<day>/<machine> that holds the file `below`."""
    found = sorted(glob.glob(os.path.join(ROOT, "results", "*", "*", below)))
    if not found:
        raise Mistake(f"no results/<day>/<machine> holds {below}; measure first (make run, make peers)")
    return found[-1][: -len(below)].rstrip(os.sep)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def digits(value):
    """Three significant digits without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    places = 1 if value >= 10 else 2 if value >= 1 else 3 if value >= 0.1 else 4
    return f"{value:.{places}f}"


def time(nanoseconds):
    for scale, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]:
        if nanoseconds >= scale * 0.9995:
            return f"{digits(nanoseconds / scale)} {unit}"
    return f"{nanoseconds:.0f} ns"


def cells(folder):
    """Finished cells, repeats of a configuration pooled as the report pools them."""
    pooled = {}
    path = os.path.join(folder, "measurements.jsonl")
    for number, line in enumerate(read(path).splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise Mistake(f"{path}:{number}: damaged: {error}") from error
        if record.get("record") != "cell":
            continue
        key = (record["dataset"], record["features"], record["algorithm"], json.dumps(record["parameters"], sort_keys=True),
               record["batch_size"], record["threads"])
        cell = pooled.setdefault(key, {**record, "samples": [], "repeats": [], "fractions": []})
        cell["samples"] += record["round_ns"]["samples"]
        cell["repeats"].append(record["round_ns"]["median"])
        # Older results have shares of f32 alone.
        if record.get("limit"):
            cell["fractions"].append(record["roofline_fraction"])
    if not pooled:
        raise Mistake(f"{path} holds no finished cell")
    for cell in pooled.values():
        cell["median"] = statistics.median(cell["samples"])
    return list(pooled.values())


def main_cells():
    """The newest folder of suites; the data set and features that most of its cells have, of equals the first by name; these cells."""
    folder, groups = newest("measurements.jsonl"), {}
    for cell in cells(folder):
        groups.setdefault((cell["dataset"], cell["features"]), []).append(cell)
    return folder, *min(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def here(folder, readme):
    """A folder as a file in `readme`'s folder links it."""
    return os.path.relpath(folder, os.path.join(ROOT, os.path.dirname(readme))).replace(os.sep, "/")


def with_files(dataset):
    """How a run comes to a data set that is not generated."""
    return "" if dataset.startswith("synthetic") else " (its files in `ROUNDS_DATA`)"


def share(cell):
    """The share of the limit, which noise alone exceeds, and the nearer one of its two rates."""
    if not cell["fractions"]:
        return "–"
    fraction, limit = statistics.median(cell["fractions"]), cell["limit"]
    computes = cell["gflops"] / limit["gflops"] >= cell["gbytes_per_s"] / limit["gbytes_per_s"]
    source = f"L{limit['cache']}" if limit["cache"] else "memory"
    name = limit["arithmetic"] if computes else source
    return f"100 % ({name}, at the limit)" if fraction > 1 else f"{100 * fraction:.0f} % ({name})"


def round_times(readme):
    """DP-SGD and SGD against the batch size, with the picture of all."""
    folder, (dataset, features), chosen = main_cells()
    threads = sorted({cell["threads"] for cell in chosen})
    few, many = threads[0], threads[-1]
    sizes = sorted({cell["batch_size"] for cell in chosen if cell["algorithm"] == "dp-sgd"})
    of = {(cell["algorithm"], cell["batch_size"], cell["threads"]): cell for cell in chosen}
    lines = [f"| B | DP-SGD, {plural(few)} | DP-SGD, {plural(many)} | speed-up | of roofline | SGD, {plural(many)} | private over plain |",
             "| ---: " * 7 + "|"]
    for size in sizes:
        one, most, plain = (of.get(key) for key in [("dp-sgd", size, few), ("dp-sgd", size, many), ("sgd", size, many)])
        if not (one and most):
            continue
        lines.append(
            f"| {size:,} | {time(one['median'])} | {time(most['median'])} | {one['median'] / most['median']:.2f} | {share(most)} | "
            + (f"{time(plain['median'])} | {most['median'] / plain['median']:.2f} |" if plain else "– | – |")
        )
    sheet = json.loads(read(os.path.join(folder, "environment.json")))
    picture = f"{here(folder, readme)}/time-per-round.svg"
    shown = [of[key] for size in sizes for key in [("dp-sgd", size, few), ("dp-sgd", size, many), ("sgd", size, many)] if key in of]
    spread = max(max(cell["repeats"]) / min(cell["repeats"]) - 1 for cell in shown)
    lines += ["", f"`{sheet['command']}`, rows of `{dataset}`{with_files(dataset)} as {features}, medians of whole rounds, sampling included; "
              f"{sheet['machine']['processor']}, {sheet['date'][:10]} ([sheet]({here(folder, readme)}/sheet.md)). "
              f"Repeats of one line differ by up to {100 * spread:.0f} %, and its ratios with them. Of roofline: the time that the measured "
              f"rates of {plural(many)} allow, over the time taken: the peak of the instructions that the kernels use, and reads from the cache "
              "that holds the rows, or from memory; in brackets the nearer.",
              "", f"![Time per round of one algorithm of each family against the batch size]({picture})"]
    return lines


def algorithms(readme):
    """Every algorithm of the newest run at B = 500 and 2,000 on the most threads."""
    folder, (dataset, features), chosen = main_cells()
    many = max(cell["threads"] for cell in chosen)
    of = {(cell["algorithm"], cell["batch_size"]): cell for cell in chosen if cell["threads"] == many}
    lines = [f"| algorithm | B = 500, {plural(many)} | B = 2,000 | over DP-SGD at 2,000 | queries a row | ε (δ) |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    elsewhere = {}
    for cell in cells(folder):
        elsewhere.setdefault(cell["algorithm"], set()).add(cell["dataset"])
    names = sorted(elsewhere)
    for name in names:
        small, large, base = of.get((name, 500)), of.get((name, 2000)), of.get(("dp-sgd", 2000))
        if not (small and large):
            continue
        del elsewhere[name]
        epsilon = large["privacy"].get("epsilon")
        queries = large["gradient_queries"] / large["rounds"] / 2000
        ratio = f"{large['median'] / base['median']:.2f}" if base else "–"
        lines.append(f"| `{name}` | {time(small['median'])} | {time(large['median'])} | {ratio} | {queries:.1f} | "
                     + (f"{epsilon:g} ({large['privacy']['delta']:g})".replace("e-0", "e-") if epsilon else "∞") + " |")
    groups = {}
    for name, datasets in sorted(elsewhere.items()):
        why = "without both batch sizes" if dataset in datasets else "measured on " + ", ".join(f"`{one}`" for one in sorted(datasets)) + " alone"
        groups.setdefault(why, []).append(f"`{name}`")
    others = "; not " + "; ".join(f"{', '.join(own)}: {why}" for why, own in groups.items()) if groups else ""
    sheet = f"[sheet]({here(folder, readme)}/sheet.md)"
    return [*lines, "", f"{len(names) - len(elsewhere)} of the {len(names)} algorithms of the run{others}. "
            f"Rows of `{dataset}`{with_files(dataset)} as {features}, medians of whole rounds, sampling included ({sheet}). "
            "`phased-sgd` halves its batches as it goes: its median round is smaller than B."]


def plural(threads):
    return f"{threads} thread" + ("" if threads == 1 else "s")


def comparison():
    """The newest peers.json, and its folder."""
    folder = os.path.join(newest(os.path.join("peers", "peers.json")), "peers")
    path = os.path.join(folder, "peers.json")
    try:
        document = json.loads(read(path))
    except ValueError as error:
        raise Mistake(f"{path}: damaged: {error}") from error
    if document.get("schema") != 1:
        raise Mistake(f"{path}: schema {document.get('schema')}, this script reads 1")
    return document, folder


def accounting(readme):
    """ε beside the reference accounting library, and normal numbers a second."""
    document, folder = comparison()
    lines = ["| ε by privacy loss distributions, δ = 1e-5 | `rounds account` | dp-accounting |", "| --- | --- | --- |"]
    for row in document["accounting"]:
        case = row["case"]
        both = [f"{row[name]['epsilon']:.6f} in {time(1e9 * row[name]['seconds'])}" if name in row else "–"
                for name in ["rounds", "dp-accounting"]]
        rate = Fraction(case["sampling_rate"]).limit_denominator(10_000)
        lines.append(f"| q = {rate}, σ = {case['noise_multiplier']:g}, {case['steps']:,} steps | {' | '.join(both)} |")
    lines += ["", "| normal numbers, f32, 1 thread | a second |", "| --- | ---: |"]
    lines += [f"| {row['sampler']} | {row['per_second'] / 1e6:,.0f} M |" for row in document["samplers"]]
    return [*lines, "", f"`rounds account` is timed as a whole process, dp-accounting without its import ([peers.md]({here(folder, readme)}/peers.md))."]


PRIVATE_LIBRARIES = [("opacus-hooks", "Opacus, hooks"), ("opacus-ghost", "Opacus, ghost clipping"),
                     ("jax-privacy", "jax-privacy, defaults"), ("jax-privacy-micro-batched", "jax-privacy, micro-batched")]
KINDS = [("kernel", "On a given batch, rows in memory one after another"),
         ("end-to-end", "End to end, each with its own Poisson sampler and loader")]


def peer_table(document, kind, title):
    """Rounds of `rounds` beside the fastest closed form and the private libraries."""
    threads = document["threads"]
    of = {(row["peer"], row["features"], row["batch_size"]): row
          for row in document["rows"] if row["threads"] == threads and row["kind"] == kind}
    head = ["B", "`rounds`, u8", "`rounds`, f32", "fastest closed form", *(name for _, name in PRIVATE_LIBRARIES)]
    lines = [f"{title}:", "", "| " + " | ".join(head) + " |", "| " + " | ".join(["---:"] * len(head)) + " |"]
    for size in sorted({size for _, _, size in of}):
        own = [of.get(("rounds", features, size)) for features in ["u8", "f32"]]
        closed = [of[peer, "f32", size] for peer in CLOSED_FORMS if (peer, "f32", size) in of]
        entries = [f"{size:,}", *(time(1e6 * row["median_ms"]) if row else "–" for row in own)]
        fastest = min(closed, key=lambda row: row["median_ms"]) if closed else None
        entries.append(beside(fastest, f"{CLOSED_FORMS[fastest['peer']]}: " if fastest else ""))
        entries += [beside(of.get((peer, "f32", size)), "") for peer, _ in PRIVATE_LIBRARIES]
        lines.append("| " + " | ".join(entries) + " |")
    return lines


def peers_summary(readme):
    """Rounds on a given batch beside the libraries."""
    document, folder = comparison()
    kind, title = KINDS[0]
    return [*peer_table(document, kind, title), "",
            f"In brackets: the time over that of `rounds`, on rows of bytes and on f32 rows with declared bounds. Same run, {plural(document['threads'])}, "
            f"{document['processor']}, {document['date'][:10]} ([all peers]({here(folder, readme)}/peers.md)). Closed forms compute the norm "
            "of a row's gradient as a product of norms; hooks and defaults are what the private libraries do unless told otherwise."]


def peers(readme):
    """Rounds beside the libraries, on a given batch and end to end, with versions."""
    document, folder = comparison()
    kinds = {row["kind"] for row in document["rows"]}
    lines = [line for kind, title in KINDS if kind in kinds for line in [*peer_table(document, kind, title), ""]]
    packages = ", ".join(f"{name} {number}" for name, number in document["packages"].items() if number)
    return [*lines, f"In brackets: the time over that of `rounds`, on rows of bytes and on f32 rows with declared bounds, same run, "
            f"{plural(document['threads'])}, {document['processor']}, {document['date'][:10]}. {packages}. Closed forms compute the norm of a row's "
            f"gradient as a product of norms; hooks and defaults are what the private libraries do unless told otherwise, ghost clipping "
            f"and micro-batches what they do when tuned. jax-privacy's defaults are slower on a given batch than end to end, where the "
            f"mask of its loader lets XLA fuse the gradients of rows. All peers, intervals, accounting and samplers: [peers.md]({here(folder, readme)}/peers.md)."]


def beside(row, name):
    if row is None:
        return "–"
    ratios = [f"{row[key]['ratio']:.1f}" if row[key]["ratio"] < 10 else f"{row[key]['ratio']:,.0f}"
              for key in ["ratio_u8", "ratio_f32"] if key in row]
    return f"{name}{time(1e6 * row['median_ms'])}" + (f" ({', '.join(ratios)} ×)" if ratios else "")


def of_ranks(below):
    """The tables that bench/ranks/tables.py wrote into a folder."""
    return lambda readme: read(os.path.join(newest(below), below)).rstrip().split("\n")


PLACES = {"round-times": round_times, "algorithms": algorithms, "peers": peers,
          "peers-summary": peers_summary, "accounting": accounting,
          "ranks": of_ranks(os.path.join("ranks", "scaling.md")), "latency": of_ranks(os.path.join("latency", "latency.md"))}


def spliced(readme, text):
    """`text` with every place filled."""
    place = r"<!-- {}rounds:([\w-]+) -->"

    def fill(match):
        name = match.group(1)
        if name == "verdicts":
            return match.group()
        if name not in PLACES:
            raise Mistake(f"{readme}: there is no table '{name}'; there are {', '.join(PLACES)}")
        return f"<!-- rounds:{name} -->\n" + "\n".join(PLACES[name](readme)) + f"\n<!-- /rounds:{name} -->"

    opened = re.findall(place.format(""), text)
    closed = re.findall(place.format("/"), text)
    if opened != closed:
        raise Mistake(f"{readme}: the places that open are {opened}, those that close are {closed}")
    return re.sub(place.format("") + r"\n.*?<!-- /rounds:\1 -->", fill, text, flags=re.DOTALL)


def sheet(path):
    """The experiment sheet of an environment.json."""
    environment = json.loads(read(path))
    machine, state, build = (environment[name] for name in ["machine", "state", "build"])

    def size(number):
        if not isinstance(number, (int, float)):
            return str(number)
        for shift, unit in [(30, "GiB"), (20, "MiB"), (10, "KiB")]:
            if int(number) >> shift:
                return f"{number / (1 << shift):.3g} {unit}"
        return f"{number} B"

    caches = ", ".join(f"L{cache['level']} {cache['kind']} {cache['count']} × {size(cache['size_bytes'])}" for cache in machine["caches"])
    rows = [
        ("date", environment["date"][:19].replace("T", " ") + " UTC"),
        ("command", f"`{environment['command']}`"),
        ("machine", machine["id"]),
        ("processor", machine["processor"]),
        ("topology", f"{machine['packages']} package(s), {machine['cores']} cores, {machine['hardware_threads']} hardware threads, "
                     f"{len(machine['numa_nodes'])} NUMA node(s)"),
        ("caches", caches),
        ("memory", size(machine["memory_bytes"])),
        ("instruction set", f"built for {build['isa']}: {' '.join(build['features'])}"),
        ("compiler", f"{build['rustc']}, target {build['target']}, profile {build['profile']}"),
        ("flags", f"`{build['rustflags']}`" if build["rustflags"] else "none"),
        ("version", f"{build['version']}, revision {build['revision']}" + (", with changes" if build["dirty"] == "true" else "")),
        ("executable", f"SHA-256 {build['executable_sha256']}"),
        ("pinning", environment["pinning"]),
        ("governor, turbo", f"{state['governor']}, {state['turbo']}"),
        ("frequency", f"{state['frequency_mhz']} MHz (maximum {state['maximum_frequency_mhz']})"),
        ("virtualisation", state["virtualisation"]),
        ("load before", state["load"]),
        ("huge pages", state["huge_pages"]),
        ("kernel", state["kernel"]),
    ]
    for limit in environment.get("rooflines", []):
        int8, caches = limit.get("int8"), limit.get("caches", [])
        rates = [f"{limit['peak_gflops']:.0f} GFLOP/s f32", *([f"{int8['gops']:.0f} GOP/s int8 ({int8['instructions']})"] if int8 else []),
                 *(f"L{cache['level']} {cache['gbytes_per_s']:.0f} GB/s" for cache in caches),
                 f"{'memory ' if caches else ''}{limit['bandwidth_gbytes_per_s']:.1f} GB/s"]
        rows.append((f"measured, {plural(limit['threads'])}", ", ".join(rates)))
    for kind in ["suites", "data"]:
        for name, digest in environment.get("binding", {}).get(kind, {}).items():
            rows.append((f"{kind.removesuffix('s')} {name}", f"SHA-256 {digest}"))
    lines = ["# Experiment sheet", "", "From environment.json, by `make readme`.", "", "| | |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows), ""])


def broken_links(path, text):
    """Faults: files of the project that a page links to and that are not there."""
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in link and not os.path.exists(os.path.join(os.path.dirname(path), link)):
            yield f"{os.path.relpath(path, ROOT)}: no file {link}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    given = parser.parse_args()
    wanted = {}
    for environment in sorted(glob.glob(os.path.join(ROOT, "results", "*", "*", "environment.json"))):
        path = os.path.join(os.path.dirname(environment), "sheet.md")
        wanted[path] = sheet(environment)
    for readme in FILES:
        path = os.path.join(ROOT, readme)
        wanted[path] = spliced(readme, read(path))
    different = []
    for path, text in wanted.items():
        if os.path.exists(path) and read(path) == text:
            continue
        different.append(os.path.relpath(path, ROOT))
        if not given.check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if given.check and different:
        sys.exit(f"readme: {', '.join(different)}: not what the results say; run `make readme` and commit it")
    for path in different:
        print(path)
    pages = [*FILES, "CONTRIBUTING.md", "CHANGELOG.md", *glob.glob("docs/*.md", root_dir=ROOT)]
    faults = [fault for page in pages for fault in broken_links(os.path.join(ROOT, page), read(os.path.join(ROOT, page)))]
    if faults:
        sys.exit("\n".join(f"readme: {fault}" for fault in faults))


if __name__ == "__main__":
    try:
        main()
    except (Mistake, OSError, KeyError) as error:
        sys.exit(f"readme: {f'a result lacks {error}' if isinstance(error, KeyError) else error}")
