"""What tests share: made-up rows, and the command to compare with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def command():
    """Runs the command with --json; skips where none was built."""
    program = os.environ.get("ROUNDS_COMMAND") or str(REPOSITORY / "target/release/rounds")
    if not (os.path.exists(program) or shutil.which(program)):
        pytest.skip("the command is not built: set ROUNDS_COMMAND")

    def run(*arguments, **keywords):
        done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True, check=True, **keywords)
        return json.loads(done.stdout)

    return run


def numbers(rows, columns, seed=0):
    """Rows of f32 in [−1, 1], and classes that follow them."""
    X = np.random.default_rng(seed).uniform(-1, 1, (rows, columns)).astype(np.float32)
    return X, (X.sum(axis=1) > 0).astype(int)


def frame(rows, seed=0):
    """A made-up table with numbers, a category, a missing value here and there, and a label."""
    import pandas as pd

    random = np.random.default_rng(seed)
    age = random.integers(18, 90, rows).astype(float)
    age[:: 50] = np.nan
    plan = random.choice(["basic", "full"], rows).astype(object)
    plan[7::40] = None
    income = random.normal(40, 20, rows)
    stays = np.where(np.nan_to_num(age, nan=50) + 30 * (plan == "full") > 65, "yes", "no")
    return pd.DataFrame({"age": age, "plan": plan, "income": income, "person": np.arange(rows) // 4, "stays": stays})


SCHEMA = """
[rows]
drop = ["person"]

[columns.age]
kind = "number"
bounds = [0, 100]
missing = 50

[columns.plan]
kind = "category"
values = ["basic", "full"]

[columns.income]
kind = "number"
bounds = [0, 100]

[label]
column = "stays"
classes = ["no", "yes"]
"""
