"""The virtual environment of the peers: made once, kept while requirements.txt stays as it is."""

import glob
import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
STAMP = "installed.txt"


def interpreter():
    """A Python that the pinned requirements are known to fit: 3.12, else 3.13, else 3.11."""
    chosen = os.environ.get("PYTHON")
    if chosen:
        return chosen
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    for version in ["3.12", "3.13", "3.11"]:
        candidates = [shutil.which(f"python{version}")]
        candidates += sorted(glob.glob(os.path.join(root, "versions", f"{version}.*", "bin", "python")))
        if "%d.%d" % sys.version_info[:2] == version:
            candidates.append(sys.executable)
        for candidate in filter(None, candidates):
            says = subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True, check=False)
            if says.returncode == 0:
                return candidate
    sys.exit("peers: no Python 3.11, 3.12 or 3.13 with venv was found; name one with PYTHON=… (Debian: python3-venv)")


def prepare(folder, torch_index):
    """Makes the environment in `folder`/venv unless it is there, and returns its Python."""
    venv = os.path.join(folder, "venv")
    python = os.path.join(venv, "bin", "python")
    with open(REQUIREMENTS, encoding="utf-8") as file:
        requirements = file.read()
    digest = hashlib.sha256(requirements.encode()).hexdigest()
    stamp = os.path.join(venv, STAMP)
    if os.path.exists(python) and os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.readline().strip() == digest:
                return python
    print(f"peers: setting up {venv} (once; some minutes)", file=sys.stderr)
    os.makedirs(folder, exist_ok=True)
    subprocess.run([interpreter(), "-m", "venv", venv], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    lines = [line for line in requirements.splitlines() if line.strip() and not line.startswith("#")]
    torch = [line for line in lines if line.startswith("torch==")]
    if torch_index:
        # What it does not give comes from the usual index below.
        subprocess.run([*install, "--index-url", torch_index, *torch], check=False)
    failed = []
    if subprocess.run([*install, "--requirement", REQUIREMENTS], check=False).returncode != 0:
        # One by one: what can be had is measured, what cannot be is named. jax and jaxlib belong together.
        print("peers: the requirements do not install as a whole; trying them one by one", file=sys.stderr)
        for line in lines:
            if subprocess.run([*install, line], check=False).returncode != 0:
                failed.append(line)
    if any(line.startswith("numpy") for line in failed):
        sys.exit("peers: numpy could not be installed, and without it nothing can be measured; see pip's message above")
    if failed:
        print(f"peers: not installed, and skipped: {'; '.join(failed)}", file=sys.stderr)
    else:
        # Only a whole environment is kept as it is.
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(digest + "\n")
    return python
