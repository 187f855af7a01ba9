#!/usr/bin/env python3
"""Private classifiers side by side in one process: accuracy, ε by each library's own account, and seconds of `fit`.

CPU seconds are compared, those of all threads: other work on the machine makes them larger for all, and seconds by the clock more so.

`rounds`, diffprivlib's objective perturbation, DP-SGD of jax-privacy and of Opacus with the plan of `rounds`, and scikit-learn without
privacy, on a9a, a sixth of covtype and MNIST, five seeds each, interleaved within a call (several calls may fill one table). Rows are in memory as each library takes them. diffprivlib needs
scikit-learn 1.6 (in_process_requirements.txt):

    make peers-python ARGS="[--epsilon 1] [--seeds 5] [--only mnist] [--peers rounds,diffprivlib] [--out FOLDER]"
"""

import argparse
import bz2
import gzip
import importlib.metadata
import json
import os
import statistics
import sys
import time
import warnings
from datetime import date
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench" / "peers")]
import intervals  # noqa: E402

# Rows of a split of covtype, which has no test rows of its own.
TEST_SHARE = 0.2


def unpacked(path):
    for suffix, opener in {".gz": gzip.open, ".bz2": bz2.open}.items():
        packed = path.with_name(path.name + suffix)
        if packed.is_file():
            return opener(packed, "rb").read()
    return path.read_bytes()


def mnist(folder):
    def part(images, labels):
        X = np.frombuffer(unpacked(folder / "mnist" / images), np.uint8)[16:].reshape(-1, 784)
        return X, np.frombuffer(unpacked(folder / "mnist" / labels), np.uint8)[8:]

    train = part("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    # The norm of 784 whites, of features in [0, 1].
    return train, part("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"), "bytes", 28.0


def a9a(folder):
    def part(name):
        X, y = np.zeros((0, 123)), []
        lines = unpacked(folder / "libsvm" / name).decode().splitlines()
        X = np.zeros((len(lines), 123), np.float32)
        for row, line in enumerate(lines):
            label, *entries = line.split()
            y.append(int(float(label)))
            for entry in entries:
                X[row, int(entry.partition(":")[0]) - 1] = 1.0
        return X, np.array(y)

    # Fourteen attributes of a person, one feature each.
    return part("a9a"), part("a9a.t"), (0, 1), 14**0.5


def covtype(folder):
    table = np.loadtxt(next((folder / "other").glob("covtype-16pct-scaled01.csv*")), delimiter=",", skiprows=1, dtype=np.float32)
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(int)
    test = np.random.default_rng(0).random(len(X)) < TEST_SHARE
    # Ten numbers in [0, 1] and two attributes of one feature each.
    return (X[~test], y[~test]), (X[test], y[test]), (0, 1), 12**0.5


def of_rounds(seed, epsilon, bounds, norm, classes):
    import rounds

    return rounds.LogisticRegression(epsilon, 1e-5, bounds=bounds, classes=classes, random_state=seed, secure=False)


def of_rounds_release(seed, epsilon, bounds, norm, classes):
    import rounds

    return rounds.LogisticRegression(epsilon, 1e-5, bounds=bounds, classes=classes)


def of_diffprivlib(seed, epsilon, bounds, norm, classes):
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed, max_iter=1_000)


def of_jax_privacy(seed, epsilon, bounds, norm, classes, plan):
    from jax_privacy_fit import JaxPrivacy

    return JaxPrivacy(epsilon, 1e-5, plan, classes, seed)


def of_opacus(seed, epsilon, bounds, norm, classes, plan):
    from opacus_fit import Opacus

    return Opacus(epsilon, 1e-5, plan, classes, seed)


def without_privacy(seed, epsilon, bounds, norm, classes):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(random_state=seed, max_iter=200)


PEERS = {
    "rounds": of_rounds,
    "rounds release": of_rounds_release,
    "diffprivlib": of_diffprivlib,
    "jax-privacy tuned": of_jax_privacy,
    "Opacus tuned": of_opacus,
    "scikit-learn without privacy": without_privacy,
}

# How many times the CPU seconds of `rounds` are aimed at.
AIMS = {"diffprivlib": 100, "jax-privacy tuned": 20}


def interval(values):
    """Mean and half the width of a 95 % interval of a few values."""
    t = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776}.get(len(values), 1.96)
    spread = statistics.stdev(values) if len(values) > 1 else float("nan")
    return statistics.mean(values), t * spread / len(values) ** 0.5


def measured(name, peer, settings, data):
    """One fit, as a line of in_process.json."""
    (X, y), (X_test, y_test) = data
    seed, epsilon, bounds, norm, classes = settings
    # The others get f64 in [0, 1], made outside of the clock.
    most = np.float64(255 if bounds == "bytes" else bounds[1])
    rows, test = (X, X_test) if peer.startswith("rounds") else (X / most, X_test / most)
    if peer.endswith("tuned"):
        plan = of_rounds(*settings).fit(X, y).outcome_["plan"]
        model = PEERS[peer](*settings, plan).prepare(rows, y)
    else:
        model = PEERS[peer](*settings)
    # Threads of other libraries spin for a while after a fit, which would count for the next one.
    time.sleep(0.5)
    load, start, processor = os.getloadavg()[0], time.perf_counter(), time.process_time()
    model.fit(rows, y)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    accuracy, privacy = 100.0 * model.score(test, y_test), getattr(model, "privacy_", {})
    claim = dict(epsilon=privacy.get("epsilon") or (epsilon if peer == "diffprivlib" else None), delta=privacy.get("delta"))
    return dict(data=name, peer=peer, seed=seed, seconds=seconds, cpu_seconds=processor, accuracy=accuracy, **claim, load=load)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a fit after which a peer is left out of further seeds")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("ROUNDS_DATA", ".")))
    parser.add_argument("--only", help="some of a9a,covtype,mnist")
    parser.add_argument("--peers", help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--out", type=Path, help="folder for in_process.json and in_process.md; lines that it holds of other data and peers stay")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = {"a9a": a9a, "covtype": covtype, "mnist": mnist}
    chosen = given.only.split(",") if given.only else list(sets)
    peers = given.peers.split(",") if given.peers else list(PEERS)
    found = []
    if given.out and (given.out / "in_process.json").is_file():
        found = json.loads((given.out / "in_process.json").read_text())
        found = [one for one in found if one["data"] not in chosen or one["peer"] not in peers]
    for name in chosen:
        train, test, bounds, norm = sets[name](given.data_dir)
        classes, slow = np.unique(train[1]).tolist(), set()
        for seed in range(given.seeds):
            for peer in peers[seed % len(peers):] + peers[: seed % len(peers)]:
                # scikit-learn draws nothing.
                if peer in slow or (seed and PEERS[peer] is without_privacy):
                    continue
                line = measured(name, peer, (seed, given.epsilon, bounds, norm, classes), (train, test))
                found.append(line)
                print(json.dumps(line), file=sys.stderr, flush=True)
                if line["seconds"] > given.limit:
                    slow.add(peer)
    text = markdown(found, given.epsilon)
    print(text)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(one) for one in found)
        (given.out / "in_process.json").write_text(f"[\n{lines}\n]\n")
        (given.out / "in_process.md").write_text(text + "\n")


def markdown(found, epsilon):
    """in_process.md: the table, and how far the aims are reached."""
    packages = ("diffprivlib", "scikit-learn", "jax", "jax-privacy", "torch", "opacus", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    loads = [one["load"] for one in found]
    lines = [
        "# Private classifiers in one process of Python",
        "",
        f"ε = {epsilon:g}, δ = 1e-5 (diffprivlib: δ = 0); {os.cpu_count()} threads, {date.today()}, load of the machine {min(loads):.1f} to "
        f"{max(loads):.1f}. {versions}. Means of the seeds with 95 % intervals, medians of seconds of `fit`; `×` is the ratio of CPU seconds to those "
        "of `rounds`, with its bootstrap interval. `tuned` libraries run the plan of `rounds` (rounds, batches, steps, clip norm), compiled and "
        "calibrated before the clock starts; `rounds` plans within its seconds, and a release digests its rows, too. The first fit of a data set "
        "calibrates its noise, which the process remembers for the others.",
        "",
        "| data | library | seeds | accuracy in % | ε | δ | seconds | CPU seconds | × |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    aims = {peer: [] for peer in AIMS}
    for name in dict.fromkeys(one["data"] for one in found):
        of = {peer: [one for one in found if (one["data"], one["peer"]) == (name, peer)] for peer in PEERS}
        own = [one["cpu_seconds"] for one in of["rounds"]]
        for peer, runs in of.items():
            if not runs:
                continue
            mean, half = interval([one["accuracy"] for one in runs])
            right = f"{mean:.2f} ± {half:.2f}" if len(runs) > 1 else f"{mean:.2f}"
            claim = "none | none" if runs[0]["epsilon"] is None else f"{runs[0]['epsilon']:.3f} | {runs[0]['delta'] or 0:g}"
            seconds, processor = (statistics.median(one[key] for one in runs) for key in ("seconds", "cpu_seconds"))
            times = intervals.ratio([one["cpu_seconds"] for one in runs], own) if own else (float("nan"),) * 3
            lines.append(
                f"| {name} | {peer} | {len(runs)} | {right} | {claim} | {seconds:.3f} | {processor:.3f} | "
                + (f"{times[0]:.1f} ({times[1]:.1f} – {times[2]:.1f}) |" if peer != "rounds" else "1 |")
            )
            if peer in AIMS:
                aims[peer].append(f"{name} {times[0]:.0f} ({'reached' if times[0] >= AIMS[peer] else 'missed'})")
    lines.append("")
    first = {one["data"]: one["cpu_seconds"] for one in reversed(found) if one["peer"] == "rounds"}
    lines += ["- CPU seconds of the first fits of `rounds`: " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in first.items()) + "."] if first else []
    lines += [f"- Aim: {AIMS[peer]} times faster than {peer}: {', '.join(told)}." for peer, told in aims.items() if told]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
