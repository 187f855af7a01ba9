"""Arrays, sparse matrices and data frames as the module `_rounds` takes them."""

from __future__ import annotations

import sys
from typing import Any

from ._rounds import Domain, Rows


def is_frame(data: Any) -> bool:
    """`data` is a data frame of pandas or polars, or a table of Arrow."""
    return hasattr(data, "column_names") or (hasattr(data, "columns") and hasattr(data, "__getitem__") and hasattr(data, "shape"))


def names_of(frame: Any) -> list[str]:
    """The names of a data frame's columns."""
    return [str(name) for name in (frame.column_names if hasattr(frame, "column_names") else frame.columns)]


def column_of(frame: Any, name: str) -> Any:
    """A column as a NumPy array, missing values as NaN or None."""
    import numpy as np

    for key in frame.column_names if hasattr(frame, "column_names") else frame.columns:
        if str(key) == name:
            break
    else:
        raise ValueError(f"the data have no column {name!r}, which the domain declares; they have {', '.join(names_of(frame))}")
    values = frame[key]
    if getattr(values, "ndim", 1) != 1:
        raise ValueError(f"the data have several columns {name!r}")
    kind = str(getattr(values, "type", ""))
    if kind.startswith("dictionary"):
        values = values.cast(values.type.value_type)
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def word(value: Any) -> str:
    """A value as it stands in a file: 1 and 1.0 are ``1``; missing ones are empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        if not isinstance(value, bool) and float(value) == int(value):
            return str(int(value))
    except (TypeError, ValueError, OverflowError):
        pass
    return str(value)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA has no truth.
        return True


def words(values: Any) -> tuple[list[str], Any]:
    """The different words of an array, and each value's index among them, −1 for a missing one."""
    import numpy as np

    if values.dtype.kind in "iufb":
        different, codes = np.unique(values, return_inverse=True)
        codes = codes.astype(np.int64).reshape(values.shape)
        if values.dtype.kind == "f":
            codes[np.isnan(values)] = -1
        return [word(value) for value in different.tolist()], codes
    places: dict[Any, int] = {}
    codes = np.fromiter(
        (-1 if _is_missing(value) else places.setdefault(value, len(places)) for value in values.tolist()),
        dtype=np.int64,
        count=len(values),
    )
    return [word(value) for value in places], codes


def numbers(values: Any) -> Any:
    """The numbers of an array as float64, NaN for a missing one; words where it holds others than numbers."""
    import numpy as np

    if values.dtype.kind in "iufb":
        return np.ascontiguousarray(values, dtype=np.float64)
    if values.dtype.kind == "O" and all(isinstance(value, (int, float)) or _is_missing(value) for value in values.tolist()):
        return np.array([np.nan if _is_missing(value) else float(value) for value in values.tolist()], dtype=np.float64)
    return words(values)


def labels(y: Any, domain: Domain | None, rows: int) -> Any:
    """Labels for the domain: words of classes, or numbers."""
    import numpy as np

    y = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y has {y.ndim} dimensions; one label a row is needed")
    if len(y) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, len(y)]}")
    if domain is None:
        is_classes = y.dtype.kind not in "f" or bool(np.all(y == np.floor(y)))
        return words(y) if is_classes else numbers(y)
    return words(y) if domain.classes is not None else numbers(y)


def ids(unit: Any, rows: int) -> list[str] | None:
    """Ids of units as words, one a row; an empty one for a row of no unit."""
    import numpy as np

    if unit is None:
        return None
    unit = np.asarray(unit.to_numpy() if hasattr(unit, "to_numpy") else unit)
    if unit.shape != (rows,):
        raise ValueError(f"unit has the shape {unit.shape}; one id for each of {rows} rows is needed")
    different, codes = words(unit)
    different.append("")
    return [different[code] for code in codes.tolist()]


def _matrix(X: Any, domain: Domain | None) -> Any:
    """Sparse rows, bytes or f32 in C order: those of `X` where it has them so."""
    import numpy as np

    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        if domain is not None and domain.storage == "bytes":
            raise TypeError("sparse rows, and the domain keeps bytes: declare storage=\"sparse\"")
        rows = X.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(rows.data, dtype=np.float32)
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), values, rows.shape[1]
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; rows of features are needed: Reshape your data to (rows, features)")
    if X.dtype.kind == "O":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError):
            problem = "X holds objects that are no numbers: give a data frame and a domain that declares its columns"
            raise TypeError(f"{problem} (rounds.Schema.draft drafts one)") from None
    if X.dtype.kind not in "iufb":
        raise TypeError(f"X has values of {X.dtype}; numbers are needed")
    if X.dtype != np.uint8:
        with np.errstate(over="ignore"):
            X = X.astype(np.float32, copy=False)
    return np.ascontiguousarray(X)


def not_finite(X: Any) -> list[str]:
    """What to say of values of an array that are no finite numbers, to somebody who may know."""
    import numpy as np

    values = getattr(X, "data", X) if not isinstance(X, np.ndarray) else X
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return []
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    told = [f"{missing} values are NaN and count as 0, or the bound next to it"] if missing else []
    return told + ([f"{infinite} values are infinite and cut to the bounds"] if infinite else [])


def rows_of(
    data: Any, y: Any = None, domain: Domain | None = None, unit: Any = None, *, name: str = "arrays", explain: bool = False
) -> Rows:
    """The rows of an array or a data frame, in the domain."""
    if not is_frame(data) or (domain is not None and domain.columns is None):
        if is_frame(data):
            data = data.to_numpy() if hasattr(data, "to_numpy") else data.to_pandas().to_numpy()
        matrix = _matrix(data, domain)
        count = len(matrix[0]) - 1 if isinstance(matrix, tuple) else len(matrix)
        given = None if y is None else labels(y, domain, count)
        return Rows.of_matrix(name, matrix, given, domain, ids(unit, count), explain)
    if domain is None:
        raise TypeError("a data frame needs the domain of its columns: `rounds.Schema.draft(df)` drafts a schema for you to check")
    assert domain.columns is not None
    columns = []
    for column, kind in domain.columns:
        values = column_of(data, column)
        columns.append(numbers(values) if kind == "number" else words(values))
    count = len(data) if not hasattr(data, "num_rows") else data.num_rows
    if isinstance(y, str):
        y = column_of(data, y)
    if unit is None and domain.unit and domain.unit in names_of(data):
        unit = column_of(data, domain.unit)
    given = None if y is None else labels(y, domain, count)
    return Rows.of_columns(name, columns, count, domain, given, ids(unit, count), explain)
