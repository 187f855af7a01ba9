"""The scripts of the pages run as they stand there."""

import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "python/docs"))

from scripts import SCRIPTS, run  # noqa: E402


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_runs(path, tmp_path):
    done, lacks = run(path, tmp_path)
    if lacks is not None:
        pytest.skip(f"{lacks} is not installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout and "False" not in done.stdout
