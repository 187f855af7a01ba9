"""The command `rounds`: the wheel's own, or that on the path."""

from __future__ import annotations

import os
import shutil
import sys

from . import _builds


def main() -> None:
    """Becomes the command, with the arguments of this process."""
    own = _builds.BUILDS / "rounds"
    program = str(own) if own.is_file() else shutil.which("rounds")
    if program is None or os.path.realpath(program) == os.path.realpath(sys.argv[0]):
        sys.exit("rounds: this installation has no command; a wheel has one, and `cargo install --path harness` builds it")
    os.execv(program, ["rounds", *sys.argv[1:]])


if __name__ == "__main__":
    main()
