"""peers.md: what peers.json holds, for people."""

ABOUT = {
    "rounds": "rounds",
    "jax-closed-form": "JAX, closed form in one compiled loop",
    "jax-vmap": "JAX, vmap of grad in one compiled loop",
    "numpy-whole": "NumPy, OpenBLAS, whole batch",
    "numpy-blocked": "NumPy, blocks of 1,000 rows on Python threads",
    "torch-closed-form": "torch, closed form",
    "opacus-hooks": "Opacus, hooks",
    "opacus-ghost": "Opacus, ghost clipping, tuned loader",
    "jax-privacy": "jax-privacy, defaults",
    "jax-privacy-micro-batched": "jax-privacy, micro-batched",
}
ORDER = list(ABOUT)


def digits(value):
    """Three significant digits without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def table(document, kind):
    rows = [row for row in document["rows"] if row["kind"] == kind]
    if not rows:
        return []
    title = {
        "kernel": "A round on a given batch: the rows lie in memory, one after another, the same in every round",
        "end-to-end": "A round end to end: each one's own Poisson sampler and loader over 60,000 rows",
    }[kind]
    lines = [f"## {title}", "", "| B | peer | rows | threads | median | 95 % interval | × rounds u8 | × rounds f32 |",
             "| ---: | --- | --- | ---: | ---: | --- | ---: | ---: |"]
    for row in sorted(rows, key=lambda row: (row["batch_size"], ORDER.index(row["peer"]), row["threads"], row["features"])):
        ratios = []
        for features in ["u8", "f32"]:
            ratio = row.get(f"ratio_{features}")
            ratios.append(f"{digits(ratio['ratio'])} ({digits(ratio['low'])} – {digits(ratio['high'])})" if ratio else "")
        lines.append(
            f"| {row['batch_size']:,} | {ABOUT[row['peer']]} | {row['features']} | {row['threads']} | {digits(row['median_ms'])} ms | "
            f"{digits(row['low_ms'])} – {digits(row['high_ms'])} | {ratios[0]} | {ratios[1]} |"
        )
    return [*lines, ""]


def markdown(document):
    packages = ", ".join(f"{name} {number}" for name, number in document["packages"].items() if number)
    tuning = ", ".join(f"{name}: {tried['chosen']}" for name, tried in document["tuning"].items())
    lines = [
        "# A DP-SGD round beside the libraries that people use",
        "",
        f"Softmax, d = 784 and a bias, K = 10, clip norm 1, Gaussian noise drawn in each round, f32, {document['threads']} threads; "
        f"{document['processor']}, {document['date']}. Medians of interleaved samples with bootstrap intervals; the last columns "
        "say how many times a round of `rounds` fits in, on rows of bytes and of f32 with declared bounds.",
        "",
        f"{packages}; Python {document['python']}; {tuning or 'nothing tuned'}; "
        f"`rounds` {document['rounds'].get('revision') or document['rounds'].get('version')}; rows: {document['data']}.",
        "",
    ]
    for kind in ["kernel", "end-to-end"]:
        lines += table(document, kind)
    if document["accounting"]:
        lines += ["## ε of DP-SGD by privacy loss distributions", "",
                  "Add/remove adjacency, δ = 1e-5. `rounds account` is timed as a whole process, the reference library without its import.", "",
                  "| q | σ | steps | rounds: ε | time | dp-accounting: ε | time |", "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for row in document["accounting"]:
            case = row["case"]
            cells = []
            for name in ["rounds", "dp-accounting"]:
                answer = row.get(name)
                cells.append(f"{answer['epsilon']:.6f} | {digits(1e3 * answer['seconds'])} ms" if answer else "– | –")
            lines.append(f"| {case['sampling_rate']:.5f} | {case['noise_multiplier']} | {case['steps']:,} | {' | '.join(cells)} |")
        lines.append("")
    if document["samplers"]:
        own = next((row["per_second"] for row in document["samplers"] if row["sampler"].startswith("rounds")), None)
        lines += ["## Normal numbers, one thread, f32", "", "| sampler | a second | × slower than rounds |", "| --- | ---: | ---: |"]
        for row in document["samplers"]:
            times = digits(own / row["per_second"]) if own else ""
            lines.append(f"| {row['sampler']} | {row['per_second'] / 1e6:,.0f} M | {times} |")
        lines.append("")
    if document["checks"]:
        worst = max(document["checks"], key=lambda row: row["relative_error"])
        lines += [f"Before timing, the clipped sums of every peer were held against a reference in double precision: the largest "
                  f"relative error is {worst['relative_error']:.1e} ({worst['peer']}, B = {worst['batch_size']:,}; allowed 1e-4).", ""]
    if document["skipped"]:
        lines += ["Left out:", ""]
        for row in document["skipped"]:
            of = f", {row['kind']}, B = {row['batch_size']:,}" if row["batch_size"] else ""
            lines.append(f"- {row['peer']}{of}: {row['reason']}")
        lines.append("")
    return "\n".join(lines)
