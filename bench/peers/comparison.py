"""The comparison: starts the workers, checks them, measures them interleaved with `rounds`, and writes the results."""

import datetime
import importlib.metadata
import json
import os
import platform
import random
import select
import signal
import subprocess
import sys
import time

import accounting
import intervals
import rounds_binary
import samplers
import tables
from problem import BATCH_SIZES, ROWS, prepare

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-4
KINDS = ["kernel", "end-to-end"]
# Module of a worker, and its peers with the kinds of round that each has.
WORKERS = {
    "peer_jax": {"jax-closed-form": KINDS, "jax-vmap": ["kernel"]},
    "peer_numpy": {"numpy-whole": KINDS, "numpy-blocked": KINDS},
    "peer_torch": {"torch-closed-form": KINDS, "opacus-hooks": KINDS, "opacus-ghost": KINDS},
    "peer_jax_privacy": {"jax-privacy": KINDS, "jax-privacy-micro-batched": KINDS},
}
PACKAGES = ["jax", "jaxlib", "numpy", "torch", "opacus", "jax-privacy", "dp-accounting"]
# Settings that are tried before the comparison, and the peers that decide; what the environment says is not inherited.
TRIALS = {
    "peer_numpy": ("OPENBLAS_CORETYPE", [None, "SkylakeX", "Haswell", "Zen"], ["numpy-whole", "numpy-blocked"]),
    "peer_jax": ("XLA_FLAGS", [None, "--xla_cpu_prefer_vector_width=512"], ["jax-closed-form"]),
}
INHERITED = ("OPENBLAS_", "OMP_", "MKL_", "XLA_", "JAX_")
MINUTES = 60
# Of run.py's flags.
DEFAULTS = {"repeats": 5, "seconds": 0.15, "limit": 3.0, "seed": 1}


class PeerError(Exception):
    """Why a peer cannot go on."""


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


class Worker:
    """A process of worker.py, pinned to `cores`; a session of its own, so that Ctrl-C reaches the driver alone."""

    def __init__(self, module, root, cores, log, variables=None):
        self.module = module
        threads = len(cores)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED)}
        for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]:
            environment[name] = str(threads)
        environment["JAX_PLATFORMS"] = "cpu"
        environment.update(variables or {})
        pin = (lambda: os.sched_setaffinity(0, cores)) if hasattr(os, "sched_setaffinity") else None
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.join(HERE, "worker.py"), module, root, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True,
            preexec_fn=pin,
        )
        self.pending = b""

    def ask(self, timeout=180, **request):
        if self.process.poll() is not None:
            raise PeerError(f"its process ended with status {self.process.returncode}")
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()
        until = time.monotonic() + timeout
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            if not ready:
                self.end()
                raise PeerError(f"no answer within {timeout} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise PeerError(f"its process ended (status {self.process.wait()})")
            self.pending += piece
        line, _, self.pending = self.pending.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Comparison:
    def __init__(self, given):
        self.given = given
        self.cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count()))
        self.cores = self.cores[: given.threads] if given.threads else self.cores
        self.threads = len(self.cores)
        self.sizes = [int(size) for size in given.batch_sizes.split(",")] if given.batch_sizes else BATCH_SIZES
        unknown = [size for size in self.sizes if size not in BATCH_SIZES]
        known = {peer for peers in WORKERS.values() for peer in peers}
        self.wanted = set(given.only.split(",")) if given.only else known
        if unknown:
            sys.exit(f"peers: --batch-sizes: {unknown[0]} is not one of {', '.join(map(str, BATCH_SIZES))}")
        if self.wanted - known:
            sys.exit(f"peers: --only: there is no peer '{min(self.wanted - known)}'; there are {', '.join(sorted(known))}")
        self.workers, self.binaries, self.samples, self.chosen = {}, {}, {}, {}
        self.skipped, self.checks, self.rates, self.accounts = [], [], [], []
        self.started = time.monotonic()
        machine = rounds_binary.ask(given.rounds, ["machine", "--no-measure"], self.cores)
        self.machine = machine["machine"]
        self.out = given.out or self.default_folder()
        os.makedirs(self.out, exist_ok=True)
        os.makedirs(given.work, exist_ok=True)
        self.log = open(os.path.join(given.work, "peers.log"), "a", encoding="utf-8")
        self.data, self.root = prepare(given.work, given.data_dir)
        self.sheet = {
            "schema": 1,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": command(given),
            "machine": self.machine,
            "processor": machine["processor"],
            "isa": machine["isa"],
            "threads": self.threads,
            "data": self.data,
            "rounds": {name: machine["build"].get(name) for name in ["version", "revision", "rustc", "rustflags"]},
            "python": platform.python_version(),
            "packages": {name: version(name) for name in PACKAGES},
            "tuning": {},
        }

    def default_folder(self):
        """Beside the newest results of this machine, or a new day's folder."""
        results = os.path.join(os.path.dirname(os.path.dirname(HERE)), "results")
        days = sorted(os.listdir(results), reverse=True) if os.path.isdir(results) else []
        for day in days:
            if os.path.isdir(os.path.join(results, day, self.machine)):
                return os.path.join(results, day, self.machine, "peers")
        return os.path.join(results, time.strftime("%Y-%m-%d", time.gmtime()), self.machine, "peers")

    def skip(self, peer, kind, size, reason):
        self.skipped.append({"peer": peer, "kind": kind, "batch_size": size, "reason": reason})
        of = "" if size is None else f", {kind}, batches of {size}"
        say(f"left out: {peer}{of}: {reason}")

    def start(self):
        """Workers, their compiled sessions and the check of each against the reference."""
        for module, peers in WORKERS.items():
            wanted = {peer: kinds for peer, kinds in peers.items() if peer in self.wanted}
            if not wanted:
                continue
            say(f"preparing {', '.join(wanted)}")
            try:
                variables = self.fastest(module)
                self.workers[module] = worker = Worker(module, self.root, self.cores, self.log, variables)
                worker.ask(do="start")
            except PeerError as error:
                for peer in wanted:
                    self.skip(peer, None, None, str(error))
                continue
            for peer, kinds in wanted.items():
                for kind in kinds:
                    self.prepare(worker, peer, kind)

    def prepare(self, worker, peer, kind):
        earlier = None
        for size in sorted(self.sizes):
            if kind != "kernel" and size == ROWS:
                continue
            if earlier:
                guess = earlier[1] * size / earlier[0]
                if guess > self.given.limit:
                    self.skip(peer, kind, size, f"about {guess:.0f} s a round, judged by batches of {earlier[0]}")
                    continue
            try:
                answer = worker.ask(do="prepare", peer=peer, kind=kind, batch_size=size)
                earlier = size, answer["seconds"]
                if kind == "kernel":
                    error = worker.ask(do="check", peer=peer, kind=kind, batch_size=size)["relative_error"]
                    self.checks.append({"peer": peer, "batch_size": size, "relative_error": error})
                    if not error < TOLERANCE:
                        self.skip(peer, kind, size, f"its clipped sums are off by {error:.1e} (allowed: {TOLERANCE:.0e})")
                        continue
            except PeerError as error:
                self.skip(peer, kind, size, str(error))
                if worker.process.poll() is not None:
                    return
                continue
            self.samples[(peer, "f32", kind, size, self.threads)] = []
            self.chosen[(peer, "f32", kind, size, self.threads)] = answer["chosen"]

    def fastest(self, module):
        """The environment variables under which a library's closed forms are fastest here, by 500 and 2,000 rows."""
        if module not in TRIALS:
            return {}
        name, values, peers = TRIALS[module]
        times = {}
        for value in values:
            worker = Worker(module, self.root, self.cores, self.log, {name: value} if value else {})
            try:
                worker.ask(do="start")
                total = 1.0
                for peer in peers:
                    for size in [500, 2000]:
                        key = {"peer": peer, "kind": "kernel", "batch_size": size}
                        worker.ask(do="prepare", **key)
                        answers = [worker.ask(do="measure", seconds=0.05, **key) for _ in range(5)]
                        total *= min(answer["seconds"] / answer["rounds"] for answer in answers) ** (0.5 / len(peers))
                times[value] = total
            except PeerError as error:
                say(f"{name}={value}: {error}")
            finally:
                worker.end()
        if not times:
            raise PeerError(f"it runs with no {name}")
        best = min(times, key=times.get)
        trials = {value or "its own choice": rounded(1e3 * seconds) for value, seconds in times.items()}
        self.sheet["tuning"][name] = {"chosen": best or "its own choice", "geometric_mean_ms": trials}
        return {name: best} if best else {}

    def start_rounds(self):
        for kind in KINDS:
            for size in self.sizes:
                if kind != "kernel" and size == ROWS:
                    continue
                for features in ["u8", "f32"]:
                    for threads in sorted({1, self.threads}):
                        key = ("rounds", features, kind, size, threads)
                        unit = rounds_binary.Rounds(self.given.rounds, self.root, features, kind, size, threads, self.cores)
                        try:
                            if kind == "kernel" and threads == self.threads:
                                error = unit.relative_error()
                                self.checks.append(
                                    {"peer": f"rounds {features}", "batch_size": size, "relative_error": error}
                                )
                                if not error < TOLERANCE:
                                    self.skip(f"rounds {features}", kind, size, f"its clipped sums are off by {error:.1e}")
                                    continue
                            unit.measure(0.02)
                        except (rounds_binary.RoundsError, subprocess.TimeoutExpired) as error:
                            self.skip(f"rounds {features}", kind, size, str(error))
                            continue
                        self.binaries[key] = unit
                        self.samples[key] = []

    def measure(self):
        """Every configuration once a repeat, in an order of its own."""
        order = random.Random(self.given.seed)
        of = {peer: module for module, peers in WORKERS.items() for peer in peers}
        failed = set()
        for repeat in range(self.given.repeats):
            keys = sorted(self.samples)
            order.shuffle(keys)
            for key in keys:
                if key in failed:
                    continue
                peer, features, kind, size, _ = key
                try:
                    if key in self.binaries:
                        self.samples[key].append(self.binaries[key].measure(self.given.seconds))
                        continue
                    answer = self.workers[of[peer]].ask(
                        do="measure", peer=peer, kind=kind, batch_size=size, seconds=self.given.seconds
                    )
                    self.samples[key].append(answer["seconds"] / answer["rounds"])
                except (PeerError, rounds_binary.RoundsError, subprocess.TimeoutExpired) as error:
                    failed.add(key)
                    self.skip(f"rounds {features}" if peer == "rounds" else peer, kind, size, str(error))
            say(f"repeat {repeat + 1} of {self.given.repeats}, {time.monotonic() - self.started:.0f} s")
            self.write()

    def account(self):
        worker = None
        try:
            worker = Worker("accounting", self.root, self.cores[:1], self.log)
            worker.ask(do="start")
        except PeerError as error:
            self.skip("dp-accounting", None, None, str(error))
        for case in accounting.CASES:
            row = {"case": case}
            try:
                answers = [rounds_binary.account(self.given.rounds, case, self.cores[:1]) for _ in range(3)]
                row["rounds"] = {"epsilon": answers[0][0], "seconds": sorted(answer[1] for answer in answers)[1]}
            except (rounds_binary.RoundsError, KeyError) as error:
                self.skip("rounds account", None, None, str(error))
            try:
                answers = [worker.ask(do="account", case=case) for _ in range(3)]
                row["dp-accounting"] = {
                    "epsilon": answers[0]["epsilon"], "seconds": sorted(answer["seconds"] for answer in answers)[1]
                }
            except PeerError as error:
                self.skip("dp-accounting", None, None, str(error))
            self.accounts.append(row)
        if worker:
            worker.end()

    def sample_normals(self):
        rates = self.own_sampler()
        if rates:
            self.rates.append({"sampler": "rounds fill_gaussian", "per_second": rates})
        for name in samplers.SAMPLERS:
            worker = Worker("samplers", self.root, self.cores[:1], self.log)
            try:
                worker.ask(do="start")
                rates = worker.ask(do="samplers", name=name, seconds=0.1)["rates"]
                self.rates.append({"sampler": name, "per_second": sorted(rates)[len(rates) // 2]})
            except PeerError as error:
                self.skip(name, None, None, str(error))
            finally:
                worker.end()

    def own_sampler(self):
        """The criterion bench `random`, if it is built: the newest beside the binary."""
        folder = os.path.join(os.path.dirname(os.path.abspath(self.given.rounds)), "deps")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        found = [os.path.join(folder, name) for name in names if name.startswith("random-") and "." not in name]
        found = [path for path in found if os.access(path, os.X_OK)]
        missing = "the bench is not built; `cargo bench -p rounds-bench --bench random --no-run` builds it"
        if not found:
            self.skip("rounds fill_gaussian", None, None, missing)
            return None
        bench = max(found, key=os.path.getmtime)
        home = os.path.join(self.given.work, "criterion")
        flags = ["--bench", "--noplot", "--warm-up-time", "0.3", "--measurement-time", "1", "gaussian/65536/fill_f32"]
        answer = subprocess.run([bench, *flags], capture_output=True, text=True, check=False,
                                env={**os.environ, "CRITERION_HOME": home})
        try:
            path = os.path.join(home, "gaussian_65536", "fill_f32", "new", "estimates.json")
            with open(path, encoding="utf-8") as file:
                return samplers.FILL / (json.load(file)["median"]["point_estimate"] * 1e-9)
        except (OSError, KeyError, ValueError):
            self.skip("rounds fill_gaussian", None, None, (answer.stderr.strip().splitlines() or [missing])[-1])
            return None

    def document(self):
        rows = []
        for key, samples in sorted(self.samples.items()):
            if not samples:
                continue
            peer, features, kind, size, threads = key
            milliseconds = [rounded(1e3 * sample) for sample in samples]
            median, low, high = map(rounded, intervals.median(milliseconds))
            row = {
                "peer": peer, "features": features, "kind": kind, "batch_size": size, "threads": threads,
                "median_ms": median, "low_ms": low, "high_ms": high, "samples_ms": milliseconds,
            }
            if key in self.chosen:
                row["chosen"] = self.chosen[key]
            rows.append(row)
        document = {
            **self.sheet, "rows": rows, "skipped": self.skipped, "checks": self.checks,
            "accounting": self.accounts, "samplers": self.rates,
        }
        earlier = self.earlier() if self.given.resume else None
        if earlier:
            merge(document, earlier)
        add_ratios(document)
        return document

    def earlier(self):
        try:
            with open(os.path.join(self.out, "peers.json"), encoding="utf-8") as file:
                document = json.load(file)
        except OSError:
            return None
        except ValueError as error:
            sys.exit(f"peers: {self.out}/peers.json is damaged ({error}); remove it or leave out --resume")
        for name in ["machine", "threads", "data", "packages", "rounds"]:
            if document.get(name) != self.sheet[name]:
                sys.exit(f"peers: {self.out}/peers.json was measured with another {name}; leave out --resume, or take another --out")
        return document

    def write(self):
        if not any(self.samples.values()):
            return
        document = self.document()
        for name, text in [("peers.json", compact(document) + "\n"), ("peers.md", tables.markdown(document))]:
            path = os.path.join(self.out, name)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)

    def end(self):
        for worker in self.workers.values():
            worker.end()


def merge(document, earlier):
    """Keeps of an earlier document what this run did not measure."""
    def identity(row):
        return tuple(row.get(name) for name in ["peer", "features", "kind", "batch_size", "threads"])

    for name in ["rows", "checks", "skipped"]:
        here = {identity(row) for row in document[name]} | {identity(row) for row in document["rows"]}
        document[name] += [row for row in earlier.get(name, []) if identity(row) not in here]
    document["rows"].sort(key=identity)
    for name in ["accounting", "samplers"]:
        document[name] = document[name] or earlier.get(name, [])
    if earlier["command"] not in document["command"]:
        document["command"] = f"{earlier['command']}; {document['command']}"
    document["tuning"] = {**earlier.get("tuning", {}), **document["tuning"]}


def add_ratios(document):
    """How many times a peer's round takes that of `rounds` on as many threads, on bytes and on f32."""
    own = {
        (row["features"], row["kind"], row["batch_size"]): row["samples_ms"]
        for row in document["rows"]
        if row["peer"] == "rounds" and row["threads"] == document["threads"]
    }
    for row in document["rows"]:
        if row["peer"] == "rounds":
            continue
        for features in ["u8", "f32"]:
            samples = own.get((features, row["kind"], row["batch_size"]))
            if samples:
                ratio, low, high = intervals.ratio(row["samples_ms"], samples)
                row[f"ratio_{features}"] = {"ratio": rounded(ratio), "low": rounded(low), "high": rounded(high)}


def command(given):
    """What decides the measurement; where files lie does not, and is nobody's business in committed results."""
    words = ["bench/peers/run.py"]
    for name in ["threads", "batch_sizes", "only", "repeats", "seconds", "limit", "seed"]:
        value = getattr(given, name)
        if value is not None and value != DEFAULTS.get(name):
            words += ["--" + name.replace("_", "-"), str(value)]
    return " ".join(words)


def compact(document):
    """JSON with one line a row: readable, and kind to differences."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value)
            lines.append(f" {json.dumps(name)}: [\n  {rows}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def rounded(value):
    """Five significant digits: more is noise, and the file is committed."""
    return float(f"{value:.5g}")


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(given):
    comparison = Comparison(given)
    # A request to end is treated as Ctrl-C: what is finished is kept, and no worker is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        comparison.start()
        comparison.start_rounds()
        comparison.measure()
        # They have no batch size; a run that goes on keeps them.
        earlier = comparison.earlier() if given.resume else None
        if not given.only and not (earlier and earlier["accounting"] and earlier["samplers"]):
            comparison.account()
            comparison.sample_normals()
        comparison.write()
    except KeyboardInterrupt:
        comparison.write()
        kept = f"what is finished lies in {comparison.out}" if any(comparison.samples.values()) else "nothing was finished"
        say(f"stopped; {kept}")
        return 130
    finally:
        comparison.end()
    say(f"{comparison.out}/peers.json and peers.md, {(time.monotonic() - comparison.started) / MINUTES:.1f} minutes")
    print(os.path.join(comparison.out, "peers.md"))
    return 0
