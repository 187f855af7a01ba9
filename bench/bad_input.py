#!/usr/bin/env python3
"""Runs `rounds` with bad input and reports panics, aborts, hangs, lost files and messages that name an unknown option.

    python3 bench/bad_input.py [PROGRAM] [--seconds 5] [--only WORD] [--list]

Every case runs in a scratch folder of its own making. A case is bad usage, a damaged file, or an output that cannot be written:
it ends with 0, 1 or 2 within the limit, says why, leaves all other files as they were and no temporary file behind. The messages of a
release show nothing of what a data file holds, and neither they nor its output anything that was planted in the rows of every such file.
Exit code 1 if any case does not.
"""

import argparse
import collections
import gzip
import hashlib
import io
import itertools
import lzma
import os
import pathlib
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Options of other programs that messages name.
OF_OTHERS = {"--bind-to", "--cpu-bind", "--mpi", "--governor", "--release"}
OPTION = re.compile(r"(?:^|(?<=[\s`'\"(\[]))--[a-z][a-z-]*")
# The least number of cases of a group: a command, a format, or a kind of option.
LEAST = 25
# The least number of all cases, which CONTRIBUTING.md names.
LEAST_OF_ALL = 3000
# So many printable bytes of a data file in the message of a release are no accident.
SHOWN = 6
# A word and a number in rows of every data file, and their forms in a message or a document: text, bytes in hexadecimal and decimal digits.
WORD, NUMBER = b"Qz7Alice", 31415.926
PLANTED = [WORD, WORD[:4], b"31415.9", WORD.hex().encode(), WORD[:3].hex(" ").replace(" ", ", ").encode(), str(list(WORD[:3]))[1:-1].encode()]

COMMANDS = ["run", "train", "account", "schema", "factorize", "audit", "machine", "report", "simulate", "compare", "list",
            "completions", "manual"]
NUMBERS = ["-1", "nan", "inf", "-inf", "1e400", "", "abc", "1,2", "0x10", "1e", "--", "1 2", "∞", "1_0", "-1e-3", "٣", "1;", "NaN%", "-0x1"]
COUNTS = ["0", "-1", "1.5", "nan", "", "abc", "1e9", "99999999999999999999", "0x10", "1-", "+", "1,,2", "∞", "-0", "4294967296000"]
NAMES = ["", "no-such-name", "dpsgd", "DP-SGD", "dp sgd", "../dp-sgd", "a" * 5000, "é", "--help=1", "1", "none,", ";", "*", "\\", "\"", "dp-sgd\n"]
PATHS = ["", "missing/file", "/", ".", "/dev/full/x", "pipe", "loop", "a" * 300, "/proc/self/mem/x", "dir", "no-rights-to/\u0007", "device/x"]
# A named pipe waits for its writer, as everywhere; files that are read in one go may come through one.
READABLE = [path for path in PATHS if path != "pipe"]


class Cases:
    """All cases: (groups, arguments)."""

    def __init__(self):
        self.all = []

    def add(self, groups, *arguments, stdout=None):
        arguments = [one if isinstance(one, bytes) else str(one) for one in arguments]
        command = [f"command:{arguments[0]}"] if arguments and arguments[0] in COMMANDS else []
        self.all.append((command + groups.split(), arguments, stdout))

    def each(self, groups, values, *lines):
        """Every line with every value in place of `{}`."""
        for value, line in itertools.product(values, lines):
            self.add(groups, *(word.replace("{}", value) for word in line.split()))


def npy(values, shape, descr="<f4", fortran=False, version=(1, 0)):
    """Bytes of an NPY file."""
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    header += b" " * ((-(len(header) + 11)) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(header)) + header + values


def floats(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def npz(arrays):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", array)
    return packed.getvalue()


def idx(kind, shape, values):
    return bytes([0, 0, kind, len(shape)]) + b"".join(struct.pack(">I", size) for size in shape) + values


def thrift(*fields):
    """A struct of Thrift's compact protocol, of fields (number, value): integers as (type, value), text, structs, lists of a kind."""
    def varint(number):
        return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)

    def written(value):
        match value:
            case (kind, number):
                return kind, varint(number << 1)
            case str():
                return 8, varint(len(value)) + value.encode()
            case bytes():
                return 12, value
            case list():
                kinds, items = zip(*map(written, value))
                return 9, bytes([len(value) << 4 | kinds[0]]) + b"".join(items)

    out, last = b"", 0
    for number, value in fields:
        kind, contents = written(value)
        out += bytes([number - last << 4 | kind]) + contents
        last = number
    return out + b"\0"


def parquet(columns):
    """Bytes of a Parquet file of columns of doubles, each one plain page."""
    i32, i64 = lambda value: (5, value), lambda value: (6, value)
    out, chunks, double, rows = b"PAR1", [], 5, len(next(iter(columns.values())))
    for name, values in columns.items():
        page = struct.pack(f"<{rows}d", *values)
        header = thrift((1, i32(0)), (2, i32(len(page))), (3, i32(len(page))), (5, thrift((1, i32(rows)), (2, i32(0)), (3, i32(3)), (4, i32(3)))))
        size = i64(len(header) + len(page))
        about = thrift((1, i32(double)), (2, [i32(0)]), (3, [name]), (4, i32(0)), (5, i64(rows)), (6, size), (7, size), (9, i64(len(out))))
        chunks.append(thrift((2, i64(len(out))), (3, about)))
        out += header + page
    schema = [thrift((4, "table"), (5, i32(len(columns))))] + [thrift((1, i32(double)), (3, i32(0)), (4, name)) for name in columns]
    group = thrift((1, chunks), (2, i64(len(out))), (3, i64(rows)))
    footer = thrift((1, i32(1)), (2, schema), (3, i64(rows)), (4, [group]))
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def good_files():
    """One whole file of each format, small, with what is planted in its first row and in the middle."""
    rows = range(60)
    x = [float((row * 7 + column * 3) % 11) / 11 for row in rows for column in range(3)]
    y = [float(row % 2) for row in rows]
    x[0] = x[90] = NUMBER
    planted = {0, 30}
    table = "a,b,c,y\n" + "".join(
        f"{x[3 * row]:.3f},{x[3 * row + 1]:.3f},{WORD.decode() if row in planted else round(x[3 * row + 2], 3)},{row % 2}\n" for row in rows)
    libsvm = "".join(f"{row % 2} 1:{x[3 * row]:.3f} 3:{x[3 * row + 2]:.3f}\n" for row in rows)
    schema = (
        "drafted = false\n[rows]\nrelation = \"zero-out\"\n[columns.a]\nkind = \"number\"\nbounds = [0, 1]\n"
        "[columns.b]\nkind = \"number\"\nbounds = [0, 1]\n[columns.c]\nkind = \"number\"\nbounds = [0, 1]\nmissing = 0\n"
        "[label]\ncolumn = \"y\"\nclasses = [\"0\", \"1\"]\n[test]\npublic = false\n"
    )
    definition = (
        "name = \"tiny\"\nstudy = \"runs\"\nabout = \"a test\"\nseed = 1\nrepeats = 1\nshow = { title = \"t\" }\n"
        "[[problem]]\ndataset = \"planted-logistic\"\naxis = \"epsilon\"\n"
        "parameters = { rows = 200, dimension = 3, norm = 3.0 }\n"
        "method-parameters = { epsilon = [1.0, 2.0], delta = 1e-5, batch-size = 50 }\n"
        "[[method]]\nlabel = \"m\"\nalgorithm = \"dp-sgd\"\nparameters = { epochs = 1 }\n"
    )
    pixels = WORD + bytes(row % 256 for row in range(112)) + WORD + bytes(row % 256 for row in range(112))
    images = idx(8, (60, 2, 2), pixels)
    arrays = npz({"x_train": npy(floats(x), (60, 3)), "y_train": npy(floats(y), (60,))})
    records = bytearray(itertools.islice(itertools.cycle([3, 17, 200]), 20 * 3073))
    records[1 : 1 + len(WORD)] = records[30_731 : 30_731 + len(WORD)] = WORD
    lower = [1.0 if row >= column else 0.0 for row in range(4) for column in range(4)]
    matrix = npy(struct.pack("<16d", *lower), (4, 4), "<f8")
    return {
        "csv": ("table.csv", table.encode()),
        "tsv": ("table.tsv", table.replace(",", "\t").encode()),
        "libsvm": ("table.svm", libsvm.encode()),
        "parquet": ("table.parquet", parquet({name: x[column::3] for column, name in enumerate("abc")} | {"y": y})),
        "npz": ("table.npz", arrays),
        "npz-gz": ("table.npz.gz", arrays),
        "npz-xz": ("table.npz.xz", arrays),
        "npy": ("x_train.npy", npy(floats(x), (60, 3))),
        "idx": ("train-images-idx3-ubyte", images),
        "idx-gz": ("train-images-idx3-ubyte.gz", images),
        "idx-xz": ("train-images-idx3-ubyte.xz", images),
        "cifar": ("data_batch_1.bin", bytes(records)),
        "gzip": ("packed.csv.gz", table.encode()),
        "xz": ("packed.csv.xz", table.encode()),
        "schema-file": ("schema.toml", schema.encode()),
        "definition": ("tiny.toml", definition.encode()),
        "factorization": ("C.npy", matrix),
        "unit-ids": ("ids.npy", npy(struct.pack("<60q", *(row * 7919 % 20 for row in rows)), (60,), "<i8")),
        "unit-ids-gz": ("ids.txt.gz", "".join(f"{row * 7919 % 20}\n" for row in rows).encode()),
    }


def packed(name, contents):
    """Contents as a file of this name holds them."""
    return gzip.compress(contents, mtime=0) if name.endswith(".gz") else lzma.compress(contents) if name.endswith(".xz") else contents


def damaged_file(name, good, seed):
    """Damaged versions of a file of this name: of a packed one, packed ones of damaged contents and damaged ones by turns."""
    inside = [packed(name, bad) for bad in damaged(good, seed)]
    outside = damaged(packed(name, good), seed)
    return [pair[number % 2] for number, pair in enumerate(zip(inside, outside))]


def damaged(good, seed):
    """Damaged versions of a file: cut, changed, too long, empty, of other kinds."""
    choose = random.Random(seed)
    size = len(good)
    yield from (b"", b"\0", b"\n", b"\xff\xfe" + good, b"\xef\xbb\xbf", b"\x1f\x8b" + good[2:], b"PK\x03\x04", b"PAR1" + good)
    yield from (good[: size * part // 8] for part in range(1, 8))
    yield good[:-1]
    yield good + b"\0" * 7
    yield b"\0" * size
    yield good.replace(b"1", b"1e39").replace(b"2", b"nan")
    yield good.replace(b"0", b"-inf")
    yield good.replace(b"\n", b"\r\r")
    yield good.replace(b"\n", b"")
    for _ in range(34):
        changed = bytearray(good)
        for _ in range(1 + size // 200):
            changed[choose.randrange(size)] = choose.randrange(256)
        yield bytes(changed)


def matrix_schema(format, columns, storage="dense", bounds="[0, 1]"):
    return (f'[rows]\nformat = "{format}"\nstorage = "{storage}"\n[columns]\ncount = {columns}\nbounds = {bounds}\n'
            '[label]\nclasses = [0, 1]\n')


def formats(cases, scratch, files):
    """Damaged files of every format, each read by the commands that take it, and as a release."""
    train = ["train", "--epsilon", "1", "--threads", "1", "--epochs", "1", "--data"]
    release = ["--secure", "--delta", "1e-4", "--batch-size", "10", "--schema"]
    schemas = {name: matrix_schema(name.split("-")[0], 3) for name in ("libsvm", "npz", "npz-gz", "npz-xz", "npy")}
    schemas |= {name: matrix_schema("idx", 4, "bytes", "[0, 255]") for name in ("idx", "idx-gz", "idx-xz")}
    schemas |= {name: files["schema-file"][1].decode().replace("[rows]", "[rows]\nunit = true") for name in ("unit-ids", "unit-ids-gz")}
    schemas["cifar"] = matrix_schema("cifar-records", 3072, "bytes", "[0, 255]")
    for name in files:
        schema = schemas.get(name, files["schema-file"][1].decode())
        (scratch / f"schema-{name}.toml").write_text(schema)
    for name, (file, good) in files.items():
        for number, bad in enumerate(damaged_file(file, good, name)):
            folder = scratch / f"damaged-{name}-{number}"
            folder.mkdir()
            path = folder / file
            path.write_bytes(bad)
            group = f"format:{name}"
            if name == "npy":
                (folder / "y_train.npy").write_bytes(npy(floats([float(row % 2) for row in range(60)]), (60,)))
            if name.startswith("idx"):
                labels = idx(8, (60,), bytes(row % 3 for row in range(60)))
                (folder / "train-labels-idx1-ubyte").write_bytes(labels)
                (folder / "t10k-images-idx3-ubyte").write_bytes(good)
                (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)
            if name == "cifar":
                (folder / "test_batch.bin").write_bytes(good)
            if name == "schema-file":
                cases.add(f"{group}", *train, "table.csv", "--schema", path)
            elif name == "definition":
                cases.add(f"{group}", "run", path, "--out", folder / "out", "--threads", "1")
            elif name.startswith("factorization"):
                cases.add(f"{group}", "factorize", "--rounds", "4", "--check", path)
            elif name.startswith("unit-ids"):
                cases.add(f"{group}", *train, "table.csv", "--unit-ids", path)
                cases.add(f"{group} secure", *train, "table.csv", *release, f"schema-{name}.toml", "--unit-ids", path)
            else:
                data = folder if name.split("-")[0] in ("npy", "idx", "cifar") else path
                cases.add(f"{group}", *train, data)
                if number % 3 == 0:
                    cases.add(f"{group}", "schema", data)
                line = [*train, data, *release, f"schema-{name}.toml"]
                cases.add(f"{group} secure", *line)
                if name in ("csv", "tsv", "gzip", "xz", "parquet"):
                    cases.add(f"{group} secure private-bounds", *line, "--bounds", "private:1")


def results(cases, scratch):
    """Damaged results, for report, compare and run --resume."""
    good = scratch / "results"
    names = ["environment.json", "measurements.jsonl"]
    number = 0
    for name in names:
        for bad in itertools.islice(damaged((good / name).read_bytes(), name), 26):
            folder = scratch / f"results-{number}"
            number += 1
            shutil.copytree(good, folder)
            (folder / name).write_bytes(bad)
            out = folder / "page.html"
            cases.add("format:results", "report", folder, "--out", out)
            cases.add("format:results", "compare", good, folder)
            if number % 2:
                cases.add("format:results", "run", "tiny.toml", "--resume", "--out", folder)


def flags(cases):
    """Values that options cannot have."""
    train = "train --data table.csv --threads 1 --epochs 1"
    for option in ["delta", "learning-rate", "momentum", "clip-norm", "regularization", "scale-features"]:
        cases.each("option:number", NUMBERS, f"{train} --epsilon 1 --{option} {{}}")
    cases.each("option:number", NUMBERS, f"{train} --epsilon {{}}", f"{train} --noise-multiplier {{}}",
               "train --data table.csv --threads 1 --epsilon 1 --epochs {}")
    for option in ["batch-size", "seed", "checkpoint-every", "dimension"]:
        cases.each("option:count", COUNTS, f"{train} --epsilon 1 --{option} {{}}")
    cases.each("option:count", COUNTS, "train --data table.csv --epochs 1 --epsilon 1 --threads {}")
    for option in ["algorithm", "loss", "noise", "sampling", "accountant", "adjacency", "pin", "engine"]:
        cases.each("option:name", NAMES[:8], f"train --epsilon 1 --threads 1 --data table.csv --{option} {{}}")
    cases.each("option:name", NAMES[:8], "train --epsilon 1 --threads 1 --data {}")
    pairs = ["", "=", "x", "x=", "=1", "rounds=", "rounds=0", "rounds=-1", "rounds=1e30", "clip-norm=1e-30", "smoothness=nan", "x=y=z"]
    pairs += ["noise=", "sampling=poisson,fixed", "epochs=1,2", "rounds=1e9", "batch-size=1e18", "momentum=2", "é=1", "rounds=٣"]
    cases_of = [("--set", pairs), ("--bounds", pairs + ["1", "1,1", "2,1", "a=1:0", "nan,nan", "private:0", "private:x", "0,1,2", "-inf,inf"])]
    cases_of += [("--clip-features", pairs + ["l2=0", "l3=1", "l2=-1", "l2=nan", "l2="]), ("--classes", ["", ",", "0", "0,0", "a,,b", "0,1," * 9])]
    cases_of += [("--label", NAMES[:9]), ("--unit", NAMES[:9] + ["a", "y"]), ("--public-rows", COUNTS)]
    for option, values in cases_of:
        cases.each("option:pair", values, f"{train} --epsilon 1 {option} {{}}")
    cases.each("option:output", PATHS, f"{train} --epsilon 1 --model {{}}", f"{train} --epsilon 1 --checkpoint {{}}")
    cases.each("option:input", PATHS, *(f"{train} --epsilon 1 --{option} {{}}" for option in ["resume", "factorization", "data-dir"]))
    cases.each("option:input", READABLE, f"{train} --epsilon 1 --schema {{}}", f"{train} --epsilon 1 --unit-ids {{}}")
    for extra in ["--secure", "--secure --seed 1", "--epsilon 1 --epsilon 2", "--unknown", "extra", ""]:
        cases.add("", *f"{train} {extra}".split())


def commands(cases):
    """Bad usage of every other command."""
    for mechanism in ["gaussian", "subsampled-gaussian --sampling-rate 0.1 --steps 10", "laplace", "tree", "zcdp"]:
        name, _, more = mechanism.partition(" ")
        cases.each("option:number", NUMBERS[:14], *(f"account {name} --{option} {{}} --delta 1e-5 {more}" for option in ["noise-multiplier", "epsilon"]))
    subsampled = "account subsampled-gaussian --noise-multiplier 1"
    cases.each("", NUMBERS, f"{subsampled} --sampling-rate {{}} --steps 10 --delta 1e-5", f"{subsampled} --sampling-rate 0.1 --steps {{}} --delta 1e-5",
               f"{subsampled} --sampling-rate 0.1 --steps 10 --delta {{}}")
    cases.each("option:input", READABLE + ["table.csv", "x_train.npy", "schema.toml"], "account --statement {}")
    cases.each("option:input", PATHS, "schema {}", "report {}", "compare {} results", "compare results {}", "run {} --list", "run {}.toml --list")
    cases.each("option:input", READABLE, "simulate {}")
    cases.each("option:output", PATHS, "schema table.csv --output {}", "report results --out {}", "run tiny.toml --threads 1 --out {}",
               "factorize --rounds 4 --out {}", "manual {}")
    cases.each("", PATHS, "compare --build {} --build {} --out pairs")
    cases.each("option:input", READABLE, "factorize --rounds 4 --workload lr={}", "simulate {} --workers 2 --latency 0.1")
    # What fails for another reason leaves its output as it was.
    cases.each("option:output", ["kept.txt", "device", "pipe"], "train --data table.csv --epsilon nan --model {}", "train --data x --epsilon 1 --model {}",
               "factorize --rounds 4 --method x --out {}", "factorize --rounds 0 --out {}", "report missing --out {}", "schema missing --output {}",
               "schema table.csv --output {}")
    cases.each("option:output", ["device"], "train --data table.csv --epsilon 1 --epochs 1 --model {}", "factorize --rounds 4 --out {}", "report results --out {}")
    audit = "audit --algorithm dp-gd --threads 1"
    cases.each("option:number", NUMBERS + ["0.5", "-5%", "%", "5%%", "1000000%", "0"], "compare results results --threshold {}",
               "compare results results --machine-noise {}", "factorize --rounds 4 --gap {}", f"{audit} --runs 400 --epsilon {{}}", f"{audit} --runs 400 --delta {{}}")
    cases.each("option:number", NUMBERS, "simulate study.json --latency {}", "simulate study.json --accuracy {}")
    cases.each("option:count", COUNTS, "run tiny.toml --list --repeats {}", "run tiny.toml --list --batch-sizes {}", "factorize --rounds {}",
               "factorize --rounds 4 --epochs {}", "factorize --rounds 4 --lambda-tau {}", "audit --algorithm dp-gd --runs 400 --threads {}",
               "simulate study.json --dimension {}", "compare --build x --build y --pairs {}")
    cases.each("option:count", ["1" if value == "1e9" else value for value in COUNTS], f"{audit} --runs {{}}")
    cases.each("option:count", [value for value in COUNTS if value != "4294967296000"], "simulate study.json --workers {}")
    cases.each("option:list", [*COUNTS, "4-1", "1-", "-2", "1-2-3", "1..2", "1,0", "a-b", "1-100000", "1,2,", ",", "1- 2", "1–2", "2-٣"],
               "run tiny.toml --list --threads {}", "machine --no-measure --threads {}")
    cases.each("option:name", NAMES, "list {}", "list algorithms {}", "list datasets {}", "completions {}", "run {} --list",
               "run tiny.toml --list --algorithms {}", "audit --algorithm {} --runs 400", "account {}", "factorize --rounds 4 --method {}",
               "factorize --rounds 4 --workload {}", "machine --no-measure --pin {}")
    for words in (["bash", "zsh"], ["--shell", "bash"], ["BASH"], ["bash", "--out", "x"], [], ["powershel"], ["bash\0"[:4] + "x"], ["é"], ["-"]):
        cases.add("", "completions", *words)
    for words in ([], ["a", "b"], ["--dir", "x"], ["table.csv"], ["table.csv/man"], ["/proc/man"], ["/dev/null"], ["--json"], ["pipe/man"], ["loop/man"],
                  ["kept.txt"], ["--out", "man"], ["man", "--threads", "1"], ["a" * 300], ["/sys/man"]):
        cases.add("", "manual", *words)
    for line in ["1000000", "200000 --method honaker-full", "1000000 --method banded=4"]:
        cases.add("", *f"factorize --rounds {line}".split())
    # Outputs on a full disk.
    for line in ["list algorithms", "list suites --json", "train --help", "--version", "completions bash", "machine --no-measure", "factorize --rounds 4",
                 "account gaussian --noise-multiplier 1 --delta 1e-5", "schema table.csv", "report results", "compare results results",
                 "run tiny.toml --list", "train --data table.csv --epsilon 1 --epochs 1 --threads 1", "manual man"]:
        cases.add("full-disk", *line.split(), stdout="/dev/full")
    # Words that are no text.
    for words in (["train", "--data", b"caf\xe9.csv"], ["schema", b"\xff"], ["report", b"\xff"], ["compare", b"\xff", b"\xfe"], ["run", b"\xff"],
                  ["run", b"\xff.toml"], ["manual", b"/proc/\xff"], ["list", b"\xff"], ["completions", b"\xff"], [b"\xff"], ["account", b"\xff"]):
        cases.add("not-text", *words)
    for words in ([], ["no-such-command"], ["--no-such-option"], ["trian"], ["train", "train"], ["help", "nothing"], ["-x"], ["--json"]):
        cases.add("", *words)


def prepare(scratch, program):
    """Whole files that cases read, and things that must not be replaced."""
    files = good_files()
    for file, contents in files.values():
        if file != "schema.toml":
            (scratch / file).write_bytes(packed(file, contents))
    os.mkfifo(scratch / "pipe")
    (scratch / "loop").symlink_to("loop")
    (scratch / "dir").mkdir()
    try:
        # A full disk that a bad program may replace, unlike that of the system.
        os.mknod(scratch / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        print("no right to make a device: its cases write a plain file", file=sys.stderr)
    (scratch / "kept.txt").write_text("not to be touched\n")
    line = [program, "run", "quick", "--algorithms", "sgd", "--batch-sizes", "64", "--threads", "1", "--repeats", "1", "--out", "results"]
    made = subprocess.run(line, cwd=scratch, capture_output=True)
    if made.returncode != 0:
        sys.exit(f"the whole run that cases damage failed: {made.stderr.decode()}")
    return files


def known_options(program):
    """All options of all commands, from their help."""
    def help_of(*words):
        return subprocess.run([program, *words, "--help"], capture_output=True, text=True).stdout

    def below(text):
        part = text.split("Commands:\n")[1].split("\n\n")[0] if "Commands:\n" in text else ""
        return [line.split()[0] for line in part.splitlines() if re.match(r"  \S", line)]

    found = set(OF_OTHERS)
    for command in below(help_of()):
        own = help_of(command)
        for text in [own, *(help_of(command, name) for name in below(own))]:
            found |= {option for line in text.splitlines() if line.strip().startswith("-") for option in OPTION.findall(line)}
    return found


def snapshot(scratch, digests):
    """Every file with its kind and digest; folders that cases write are left out. `digests` remembers those of files that are as they were."""
    found = {}
    for folder, folders, files in os.walk(scratch):
        if folder == str(scratch):
            folders[:] = [name for name in folders if name not in ("out", "man", "pairs", ".cache")]
        for name in folders + files:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            kind, version = stat.S_IFMT(about.st_mode), (path, about.st_ino, about.st_size, about.st_mtime_ns)
            if stat.S_ISREG(kind) and version not in digests:
                digests[version] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            found[path[len(str(scratch)) + 1 :]] = (kind, digests.get(version, about.st_size))
    return found


def complaints(output, known, before, after, arguments):
    """What is wrong with the end of a case."""
    text = output.stderr.decode(errors="replace")
    found = []
    if "panicked" in text:
        found.append("panic")
    if output.returncode not in (0, 1, 2):
        found.append(f"ended with {output.returncode}")
    if output.returncode and not text.strip():
        found.append("no message")
    given = set(OPTION.findall(" ".join(map(str, arguments))))
    quoted = {option for option in OPTION.findall(text) if option not in known and option not in given}
    if quoted:
        found.append(f"names {', '.join(sorted(quoted))}")
    if "--secure" in arguments:
        folder = pathlib.Path(str(arguments[arguments.index("--data") + 1])) if "--data" in arguments else pathlib.Path()
        held = [path.read_bytes() for path in ([folder] if folder.is_file() else folder.glob("*")) if path.is_file()]
        said = re.sub(r"\S*/\S*", "", text).encode()
        shown = {said[at : at + SHOWN] for at in range(len(said) - SHOWN + 1)}
        if any(part in whole for part in shown for whole in held) or re.search(r"\[[0-9a-f]{2}, |line \d|row \d", text):
            found.append("shows what the rows hold")
        if any(form in output.stdout + output.stderr for form in PLANTED):
            found.append("shows what was planted in the rows")
    for name, own in before.items():
        now = after.get(name)
        if now is None:
            found.append(f"lost {name}")
        elif now != own and (now[0] != own[0] or output.returncode != 0) and not name.startswith("results-"):
            found.append(f"changed {name}")
    found += [f"left {name}" for name in after if "/.rounds-" in f"/{name}"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default=ROOT / "target/release/rounds", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of a case")
    parser.add_argument("--only", default="", help="cases whose groups or words hold this")
    parser.add_argument("--list", action="store_true", help="print the cases and run none")
    options = parser.parse_args()
    program = str(options.program.resolve())
    with tempfile.TemporaryDirectory(prefix="rounds-bad-input-") as name:
        scratch = pathlib.Path(name)
        files = prepare(scratch, program)
        cases = Cases()
        formats(cases, scratch, files)
        results(cases, scratch)
        flags(cases)
        commands(cases)
        assert len(cases.all) >= LEAST_OF_ALL, f"{len(cases.all)} cases"
        words = lambda case: " ".join(case[0]) + " | " + " ".join(map(str, case[1]))
        chosen = [case for case in cases.all if options.only in words(case)]
        if options.list:
            print("\n".join(map(words, chosen)))
            return 0
        known = known_options(program)
        environment = {name: value for name, value in os.environ.items() if name != "ROUNDS_DATA"}
        environment |= {"HOME": str(scratch), "XDG_CACHE_HOME": str(scratch / ".cache"), "RUST_BACKTRACE": "0"}
        groups, ends, bad = collections.Counter(), collections.Counter(), []
        digests = {}
        before = snapshot(scratch, digests)
        for number, (of, arguments, stdout) in enumerate(chosen):
            groups.update(of)
            out = open(stdout, "wb") if stdout else subprocess.PIPE
            child = subprocess.Popen(
                [program, *arguments], cwd=scratch, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.PIPE, start_new_session=True,
            )
            try:
                printed, errors = child.communicate(timeout=options.seconds)
                output = subprocess.CompletedProcess(arguments, child.returncode, printed or b"", errors)
                after = snapshot(scratch, digests)
                found = complaints(output, known, before, after, arguments)
                before = after
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                _, errors = child.communicate()
                before, found = snapshot(scratch, digests), [f"still ran after {options.seconds:g} s"]
            ends[child.returncode] += 1
            if stdout:
                out.close()
            if found:
                bad.append((found, arguments, errors.decode(errors="replace").strip().splitlines()[-1:]))
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{len(chosen)}", end="", file=sys.stderr)
    print(f"{len(chosen)} cases; exit codes: " + ", ".join(f"{code}: {count}" for code, count in sorted(ends.items())))
    print("by group: " + ", ".join(f"{group} {count}" for group, count in sorted(groups.items())))
    for found, arguments, last in bad:
        print(f"BAD: {'; '.join(found)}\n     rounds {' '.join(map(repr, arguments))}\n     {last}")
    few = [] if options.only else [f"{group} ({count})" for group, count in sorted(groups.items()) if count < LEAST and ":" in group]
    if few:
        print(f"fewer than {LEAST} cases: {', '.join(few)}")
    print(f"{len(bad)} bad outcomes")
    return 1 if bad or few else 0


if __name__ == "__main__":
    sys.exit(main())
