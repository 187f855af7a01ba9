"""The choice among the builds of a wheel: for AVX-512 where the processor has it, else for AVX2."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

BUILDS = Path(__file__).parent / "builds"
_V3 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
# Instruction sets that ROUNDS_ISA names, with the best build that each allows.
_SETS = {"scalar": "v3", "v3": "v3", "v4": "v4", "vnni": "v4", "amx": "v4"}


def processor() -> set[str]:
    """The features of the first processor."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


def choose(features: set[str], wanted: str | None) -> str:
    """The level of the build for a processor with these features, at most that of the instruction set `wanted`."""
    if wanted and wanted not in _SETS:
        raise ImportError(f"ROUNDS_ISA={wanted}: it is no set of instructions: give scalar, v3, v4, vnni or amx")
    if not _V3 <= features:
        lacking = ", ".join(sorted(_V3 - features))
        raise ImportError(f"rounds needs a processor with AVX2 (x86-64-v3), and this one lacks {lacking}")
    best = "v4" if _V4 <= features else "v3"
    return min(best, _SETS[wanted]) if wanted else best


def level() -> str:
    """The level of the build for this processor."""
    return choose(processor(), os.environ.get("ROUNDS_ISA"))


def load() -> None:
    """Loads the build for this processor, of a wheel; a build from source has one module, which Python finds itself."""
    if not BUILDS.is_dir():
        return
    name = "rounds._rounds"
    path = BUILDS / f"_rounds_{level()}.abi3.so"
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
