"""The scripts of the pages run as they stand there."""

import importlib.util
import os
import runpy
import sys

import pytest
from conftest import REPOSITORY

SCRIPTS = {path.name: path for path in sorted((REPOSITORY / "python/docs").glob("*.py")) if path.name != "conf.py"}
NEEDS = {"noise_jax.py": "jax", "noise_torch.py": "torch", "figure.py": "matplotlib"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name, tmp_path, monkeypatch, capsys):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    monkeypatch.setenv("PATH", f"{REPOSITORY / 'target/release'}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
    said = capsys.readouterr().out
    assert said and "False" not in said
