"""Measurements of studies as data frames, for plots and statistics of one's own."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any


def load(folder: str | os.PathLike[str], *, record: str = "cell") -> Any:
    """The measurements of a results folder, one row a run.

    Parameters
    ----------
    folder : str or path
        A folder with ``measurements.jsonl`` or ``measurements.jsonl.xz``, or this file: a study's, in the folder of its name below that of
        ``rounds run NAME --out FOLDER``.
    record : str
        The kind of record: ``cell``, ``skipped`` or ``rejected``.

    Returns
    -------
    pandas.DataFrame
        Keys of the records, as docs/FORMAT.md of the repository lists them; of objects their members, as in ``parameters.epsilon`` and ``privacy.epsilon``. Lists stay lists.

    Raises
    ------
    FileNotFoundError
        A folder without measurements.
    """
    import pandas as pd

    if record not in ("cell", "skipped", "rejected"):
        raise ValueError(f"`record` is cell, skipped or rejected, not {record!r}")
    path = (Path(folder).parent if Path(folder).is_file() else Path(folder)) / "measurements.jsonl"
    packed = path.with_suffix(".jsonl.xz")
    if path.is_file():
        text = path.read_text(encoding="utf-8")
    elif packed.is_file():
        text = lzma.open(packed, "rt", encoding="utf-8").read()
    else:
        raise FileNotFoundError(f"{folder}: it has no measurements.jsonl; `rounds run NAME --out FOLDER` writes one into FOLDER/NAME")
    lines = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        # A line that a kill cut in half is none.
        if line.endswith("\n"):
            try:
                lines.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: it is no JSON: {error}") from None
    chosen = [_flat(line) for line in lines if line.get("record") == record]
    return pd.DataFrame(chosen)


def _flat(line: dict[str, Any]) -> dict[str, Any]:
    """The same with the members of objects at its top."""
    flat: dict[str, Any] = {}
    for key, value in line.items():
        if isinstance(value, dict):
            flat.update((f"{key}.{name}", member) for name, member in value.items())
        else:
            flat[key] = value
    return flat
