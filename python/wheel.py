#!/usr/bin/env python3
"""Makes the wheel for every x86-64 processor with AVX2, and tries it in a virtual environment of its own.

    python/wheel.py --out target/wheels [--no-build]

It holds the module for x86-64-v3 and for x86-64-v4, among which the import chooses, and the command for x86-64-v3, whose integer kernels
choose for themselves, with the libraries of the system that it needs (hwloc, udev).
"""

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import zopfli.zlib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DIST = ROOT / "target" / "dist"
# What a wheel may hold, in bytes.
LIMIT = 15_000_000
# Libraries that every system has, by the manylinux policy.
OF_SYSTEM = re.compile(r"lib(c|m|gcc_s|pthread|dl|rt)\.so|ld-linux|linux-vdso")


def build(level, packages):
    """Builds for a level of x86-64; identical functions are folded."""
    flags = f"-C target-cpu=x86-64-{level} -C link-arg=-Wl,--icf=all,--disable-new-dtags,-rpath,$ORIGIN"
    chosen = [argument for package in packages for argument in ("--package", package)]
    command = ["cargo", "build", "--profile", "wheel", "--quiet", *chosen, "--target-dir", str(DIST / level)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTFLAGS": flags})


def libraries(program):
    """The libraries of the system that a program needs, beyond those that all have."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(\S+) => (/\S+)", listed)
    return {name: Path(path) for name, path in found if not OF_SYSTEM.match(name)}


def glibc(files):
    """The least version of glibc that has every symbol of the files."""
    versions = set()
    for file in files:
        listed = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout
        versions.update(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", listed))
    return max(versions)


class Zopfli:
    """Deflate as small as zopfli makes it, in the place of zlib's in a zip file: 3 % less."""

    def __init__(self, *_):
        self.data = b""

    def compress(self, data):
        self.data += data
        return b""

    def flush(self):
        # Without the header and the checksum of zlib's container.
        return zopfli.zlib.compress(self.data, numiterations=5)[2:-4]


def contents():
    """Names in the wheel, and their files."""
    files = {}
    for level in ("v3", "v4"):
        files[f"rounds/builds/_rounds_{level}.abi3.so"] = DIST / level / "wheel" / "lib_rounds.so"
    program = DIST / "v3" / "wheel" / "rounds"
    files["rounds/builds/rounds"] = program
    files.update((f"rounds/builds/{name}", path) for name, path in libraries(program).items())
    for path in sorted((HERE / "rounds").iterdir()):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            files[f"rounds/{path.name}"] = path
    return files


def metadata(version):
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    summary = re.search(r'^description = "(.*)"', project, re.M)[1]
    return (
        f"Metadata-Version: 2.4\nName: rounds\nVersion: {version}\nSummary: {summary}\nLicense-Expression: MIT OR Apache-2.0\n"
        "Requires-Python: >=3.10\nRequires-Dist: numpy>=1.24\nProvides-Extra: estimators\n"
        'Requires-Dist: scikit-learn>=1.6; extra == "estimators"\nDescription-Content-Type: text/markdown\n\n'
        + (HERE / "README.md").read_text(encoding="utf-8")
    )


def pack(out):
    """Writes the wheel; its path."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)[1]
    files = contents()
    major, minor = glibc([path for path in files.values() if path.suffix not in (".py", ".pyi", ".typed")])
    tag = f"cp310-abi3-manylinux_{major}_{minor}_x86_64"
    info = f"rounds-{version}.dist-info"
    texts = {
        f"{info}/METADATA": metadata(version),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: rounds\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\nrounds = rounds.__main__:main\n",
    }
    out.mkdir(parents=True, exist_ok=True)
    zipfile._get_compressor = Zopfli
    wheel = (out / f"rounds-{version}-{tag}.whl").resolve()
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name, data, mode=0o644):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")

        for name, path in files.items():
            add(name, path.read_bytes(), 0o755 if name.startswith("rounds/builds/") else 0o644)
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            add(f"{info}/licenses/{licence}", (ROOT / licence).read_bytes())
        for name, text in texts.items():
            add(name, text.encode())
        name = f"{info}/RECORD"
        # Its own line has no digest.
        add(name, ("".join(record) + f"{name},,\n").encode())
    return wheel


def tried(wheel):
    """Installs the wheel by pip, and compares models of all builds and of the command."""
    program = """
import json, subprocess, sys, time
start = time.perf_counter()
import rounds
imported = 1e3 * (time.perf_counter() - start)
run = rounds.train("synthetic-mnist", epsilon=1.0, seed=1, epochs=1, holds_out=False)
told = json.loads(subprocess.run([sys.executable, "-m", "rounds", "train", "--data", "synthetic-mnist", "--epsilon", "1", "--epochs", "1",
                                  "--json"], capture_output=True, text=True, check=True).stdout)
assert told["model_sha256"] == run.outcome["model_sha256"], "the command has another model"
print(rounds.instruction_set(), run.outcome["model_sha256"], f"{imported:.1f}")
"""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], check=True)
        found = set()
        for level in ("v3", "v4", ""):
            environment = {**os.environ, "ROUNDS_ISA": level} if level else os.environ
            done = subprocess.run([python, "-c", program], capture_output=True, text=True, cwd=folder, env=environment)
            if done.returncode:
                sys.exit(f"the wheel fails with ROUNDS_ISA={level or 'unset'}: {done.stderr}")
            name, digest, imported = done.stdout.split()
            found.add(digest)
            print(f"{level or 'best'}: {name}, model {digest[:16]}, import {imported} ms")
        if len(found) != 1:
            sys.exit("models of bytes differ over the builds")
        version = subprocess.run([f"{folder}/bin/rounds", "--version"], capture_output=True, text=True, check=True).stdout
        print("the command:", version.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "wheels")
    parser.add_argument("--no-build", action="store_true", help="pack what was built before")
    given = parser.parse_args()
    if shutil.which("objdump") is None:
        sys.exit("objdump is missing: it tells which glibc the wheel needs (Debian: binutils)")
    if not given.no_build:
        start = time.monotonic()
        build("v3", ["rounds-python", "rounds"])
        build("v4", ["rounds-python"])
        print(f"built in {time.monotonic() - start:.0f} s")
    wheel = pack(given.out)
    size = wheel.stat().st_size
    print(f"{wheel}: {size / 1e6:.2f} MB")
    tried(wheel)
    if size > LIMIT:
        sys.exit(f"it has {size} bytes, and at most {LIMIT} are allowed")


if __name__ == "__main__":
    main()
