"""The scripts of the pages, and how they are run: by this Python, or by the system's where that alone has a library, PyTorch say."""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = [path for path in sorted(HERE.glob("*.py")) if path.name not in ("conf.py", "scripts.py")]
# Debian's libraries are made for it.
SYSTEM = "/usr/bin/python3"


def _serves(python):
    """This Python does, and the system's where it has NumPy and is none that the library is too new for."""
    asked = "import sys, numpy; sys.exit(sys.version_info < (3, 10))"
    return os.path.exists(python) and (python == sys.executable or not subprocess.run([python, "-c", asked], capture_output=True).returncode)


def run(path, folder):
    """The finished process of a script that may write to a folder, and the library that it lacks, if it does."""
    command = HERE.parents[1] / "target" / "release"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "PATH": f"{command}:{os.environ['PATH']}"}
    for python in filter(_serves, (sys.executable, SYSTEM)):
        done = subprocess.run([python, path, folder], capture_output=True, text=True, env=environment)
        lacks = re.search(r"No module named '(jax|matplotlib|torch)'", done.stderr)
        if lacks is None:
            break
    return done, lacks and lacks[1]
