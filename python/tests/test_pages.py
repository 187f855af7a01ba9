"""The scripts of the pages run as they stand there."""

import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python/docs"))

import scripts  # noqa: E402
from scripts import SCRIPTS, run  # noqa: E402


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_runs(path, tmp_path):
    done, lacks = run(path, tmp_path)
    if lacks is not None:
        pytest.skip(f"{lacks} is not installed")
    if "has no command" in done.stderr:
        pytest.skip("the command is not built")
    assert done.returncode == 0, done.stderr
    assert done.stdout and "False" not in done.stdout


def test_a_page_is_skipped_where_the_system_s_python_cannot_run_its_script(tmp_path, monkeypatch):
    page, system, asked = tmp_path / "page.py", tmp_path / "python3", tmp_path / "asked"
    page.write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    for serves in (False, True):
        # Without NumPy, or too old: asked for these it fails.
        system.write_text(f'#!/bin/sh\ntouch {asked}\n[ "$1" != -c ] || exit {0 if serves else 1}\necho ran\n')
        system.chmod(0o755)
        monkeypatch.setattr(scripts, "SYSTEM", str(system))
        done, lacks = run(page, tmp_path)
        assert asked.exists() and (lacks, done.stdout) == ((None, "ran\n") if serves else ("torch", ""))
