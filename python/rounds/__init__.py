"""Private linear models with the statement of what they guarantee.

The engine, its refusals and its statements are those of the command ``rounds``; the same inputs and seed give the same model.

>>> import numpy as np, rounds
>>> X = np.tile(np.array([[0.5, -1.0], [-0.5, 1.0]], dtype=np.float32), (500, 1))
>>> y = np.tile([0, 1], 500)
>>> domain = rounds.Domain.matrix(2, (-1.0, 1.0), classes=["0", "1"])
>>> run = rounds.train(X, y, domain=domain, epsilon=1.0, delta=1e-6, seed=1)
>>> run.privacy["claim"], run.privacy["epsilon"] <= 1.0
('simulation', True)
>>> rounds.predict(run.model, X[:2])
array(['0', '1'], dtype='<U1')
"""

from __future__ import annotations

from typing import Any

from ._core import (
    Domain,
    Model,
    Privacy,
    Run,
    Schema,
    account,
    audit,
    clipped_sum,
    compose,
    evaluate,
    factorize,
    instruction_set,
    ledger,
    new_ledger,
    predict,
    train,
    tune,
    verify,
)

__version__ = "0.1.0"

_ESTIMATORS = ("HuberRegressor", "LinearSVC", "LogisticRegression", "PrivateSearchCV", "Ridge")

__all__ = [
    "Domain",
    "Model",
    "Privacy",
    "Run",
    "Schema",
    "account",
    "audit",
    "clipped_sum",
    "compose",
    "evaluate",
    "factorize",
    "instruction_set",
    "ledger",
    "new_ledger",
    "noise",
    "predict",
    "results",
    "train",
    "tune",
    "verify",
    *_ESTIMATORS,
]


def __getattr__(name: str) -> Any:
    """Imports what needs another library when it is first used: the estimators scikit-learn, results a data frame."""
    import importlib

    if name in _ESTIMATORS:
        try:
            return getattr(importlib.import_module(".estimators", __name__), name)
        except ModuleNotFoundError as error:
            raise ImportError(f"rounds.{name} needs scikit-learn: pip install rounds[estimators] ({error})") from None
    if name in ("noise", "results", "estimators"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
