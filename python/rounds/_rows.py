"""Arrays, sparse matrices and data frames as the module `_rounds` takes them.

**Privacy.** Let one row change; the encoding of every other row stays, and nothing is raised, told or shaped otherwise:

1. `word` and `number` are functions of one value (and of the public words of the domain), total: what a value raises makes it missing.
2. `array` gives the values of its source one by one. The types that it may choose for a column hold each of its values exactly, and `word` and
   `number` are the same on each of them: a null makes no integer a float, and a word makes no boolean text.
3. `words` and `numbers` apply 1 to each value. The order of different words enters nothing where a domain declares them.
4. What is refused follows from types, shapes and names, which belong to the form of the data, as a file's syntax does. Lists have no type.
   No exception is raised while another one is handled, so none keeps a value as its context. NumPy's own errors and warnings, which follow values
   and the caller's settings, are ignored (`_quiet`).
"""

from __future__ import annotations

import datetime
import functools
import math
import sys
from array import array as Numbers
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, ParamSpec, TypeVar

from ._rounds import Domain, Rows


# Arguments that are numbers, whole ones where the example is, which is shown to whoever gives another thing.
_NUMBERS: dict[str, float] = dict(
    epsilon=1.0, delta=1e-5, noise_multiplier=1.0, clip_norm=1.0, learning_rate=0.5, epochs=5.0, regularization=0.01, alpha=0.01, momentum=0.9,
    sampling_rate=0.01, gap=1e-6, trials=10.0, huber=1.35, test_split=0.2, batch_size=256, steps=100, trees=1, m=100, n=10_000, rows=10_000, rounds=100,
    dimension=10, runs=20_000, seed=1, key=1, random_state=1, threads=1, public_rows=10_000, lambda_tau=100,
)  # fmt: skip


_Given = ParamSpec("_Given")
_Encoded = TypeVar("_Encoded")


def _quiet(encode: Callable[_Given, _Encoded]) -> Callable[_Given, _Encoded]:
    """A function in which no overflow and no signalling NaN raises or warns."""

    @functools.wraps(encode)
    def quiet(*given: _Given.args, **named: _Given.kwargs) -> _Encoded:
        import numpy as np

        with np.errstate(all="ignore"):
            return encode(*given, **named)

    return quiet


def checked(given: Mapping[str, Any], *needed: str) -> dict[str, Any]:
    """Arguments, of which those that are numbers are some; of those that are `needed` None is refused."""
    return {name: _checked(name, value, name in needed) for name, value in given.items()}


def _checked(name: str, value: Any, is_needed: bool) -> Any:
    example = _NUMBERS.get(name)
    if example is None or value is None and not is_needed:
        return value
    is_whole, found = isinstance(example, int), None
    try:
        if not isinstance(value, (str, bytes, bool)) and getattr(value, "dtype", None) != bool:
            found = float(value)
            if not is_whole:
                return value
            if 0 <= int(value) == value < 2**64:
                return int(value)
    except Exception:
        pass
    shown = number(value) if found is None else found
    shown = shown if math.isfinite(shown) else example
    told = repr(value) if isinstance(value, (str, bytes, Real, type(None))) else f"a {type(value).__name__}"
    shown, kind = (max(round(abs(shown)), 1), "whole number from 0 to 2^64 − 1") if is_whole else (shown, "number")
    raise (TypeError if found is None else ValueError)(f"`{name}` is a {kind}, not {told}: give {name}={shown}")


def pair(name: str, value: Any) -> tuple[float, float]:
    """Two numbers, the same for all columns."""
    try:
        lo, hi = value
        if not isinstance(lo, (str, bytes)) and not isinstance(hi, (str, bytes)):
            return float(lo), float(hi)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"`{name}` is two numbers, the lower one first, as {name}=(-1.0, 1.0)"
                    + (" for all columns together, or \"bytes\"; a `domain` declares those of each column (rounds.Schema.draft)" if name == "bounds" else ""))


def is_frame(data: Any) -> bool:
    """`data` is a data frame of pandas or polars, or a table of Arrow."""
    if hasattr(data, "collect") and not hasattr(data, "shape"):
        raise TypeError(f"a {type(data).__name__} has no rows in memory yet: give what its collect() gives")
    return hasattr(data, "column_names") or (hasattr(data, "columns") and hasattr(data, "__getitem__") and hasattr(data, "shape"))


def _keys(frame: Any) -> list[Any]:
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def names_of(frame: Any) -> list[str]:
    """The names of a data frame's columns."""
    return [str(name) for name in _keys(frame)]


def column_of(frame: Any, name: str) -> Any:
    """A column as `array` gives it."""
    names = names_of(frame)
    if name not in names:
        raise ValueError(f"the data have no column {name!r}, which the domain declares; they have {', '.join(names)}")
    if names.count(name) > 1:
        raise ValueError(f"the data have several columns {name!r}")
    return array(_column_at(frame, names.index(name)))


def _column_at(frame: Any, place: int) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, place]
    return frame.column(place) if hasattr(frame, "column") else frame[frame.columns[place]]


def lines_of(frame: Any) -> Iterator[tuple[str, ...]]:
    """The rows of a data frame as lines of a file, in the words that `rows_of` takes their values for."""
    columns = [array(_column_at(frame, place)) for place in range(len(_keys(frame)))]
    block = 10_000
    for start in range(0, max(map(len, columns), default=0), block):
        yield from zip(*(_fields(one[start : start + block]) for one in columns))


def _fields(values: Any) -> list[str]:
    if values.dtype.kind not in "iuf":
        return list(map(word, _each(values)))
    # A number has more digits in a file than as a class.
    numbers = values.astype(float) if values.dtype.kind == "f" else values
    return ["" if value != value else repr(value) for value in numbers.tolist()]


@_quiet
def array(values: Any) -> Any:
    """A vector, a column or a list as a NumPy array. Types that nulls or other values would change are arrays of objects."""
    found = _array(values)
    if found.dtype.kind == "c":
        raise TypeError(f"a column or the labels have values of {found.dtype}; numbers or words are needed")
    return found


def _array(values: Any) -> Any:
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values)
    dtype, kind = getattr(values, "dtype", None), str(getattr(values, "type", ""))
    if isinstance(dtype, np.dtype):
        return np.asarray(values)
    if is_frame(values):
        if len(_keys(values)) != 1:
            raise ValueError(f"one column is needed, and the data frame has {len(_keys(values))}")
        return array(_column_at(values, 0))
    if _is_list(values):
        return np.fromiter(values, dtype=object, count=len(values))
    if hasattr(values, "to_pylist"):
        is_exact = kind.startswith(("timestamp", "date", "duration", "float", "double", "halffloat"))
        is_exact = is_exact or (kind.startswith(("int", "uint", "bool")) and values.null_count == 0)
        return _typed(values, **({} if hasattr(values, "chunks") else {"zero_copy_only": False})) if is_exact else _objects(values)
    if hasattr(values, "null_count") and hasattr(values, "to_list"):
        is_exact = dtype.is_temporal() or dtype.is_float()  # type: ignore[union-attr]
        is_exact = is_exact or ((dtype.is_integer() or dtype == bool) and values.null_count() == 0)  # type: ignore[union-attr]
        return _typed(values) if is_exact else _objects(values)
    if str(dtype) == "category":
        own = values.cat if hasattr(values, "cat") else values
        levels = _each(array(own.categories))
        return np.fromiter((levels[code] if code >= 0 else None for code in np.asarray(own.codes).tolist()), dtype=object, count=len(values))
    if hasattr(dtype, "fill_value"):
        # A sparse column of pandas.
        return _typed(values, dtype=dtype.subtype)  # type: ignore[union-attr]
    if hasattr(values, "isna"):
        if getattr(dtype, "kind", "O") == "f":
            return _typed(values, dtype=dtype.numpy_dtype, na_value=math.nan)  # type: ignore[union-attr]
        is_exact = getattr(dtype, "kind", "O") in "iub" and not values.isna().any()
        return _typed(values) if is_exact else _objects(values)
    return np.asarray(values)


def _is_list(values: Any) -> bool:
    """Values without a common type, which NumPy would give them: each is encoded by itself."""
    kind = type(values)
    if issubclass(kind, (str, bytes, bytearray, memoryview, Numbers, Mapping)) or not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")):
        return False
    return issubclass(kind, Sequence) or not hasattr(kind, "__array__")


def _typed(values: Any, **how: Any) -> Any:
    """A column of a type that NumPy has for each of its values, or objects: integers of 128 bits have none."""
    import numpy as np

    try:
        return np.asarray(values.to_numpy(**how))
    except Exception:
        pass
    return _objects(values)


def _unmasked(values: Any) -> Any:
    import numpy as np

    return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))


def _objects(values: Any) -> Any:
    """The values of a column of pandas, polars or Arrow as objects, None for one that cannot be read."""
    import numpy as np

    try:
        if hasattr(values, "to_pylist"):
            values_of = values.to_pylist()
        else:
            values_of = values.to_numpy(dtype=object) if hasattr(values, "isna") else values.to_list()
        return np.fromiter(values_of, dtype=object, count=len(values))
    except Exception:
        pass
    return np.fromiter(_one_by_one(getattr(values, "array", values)), dtype=object, count=len(values))


def _one_by_one(values: Any) -> Any:
    for place in range(len(values)):
        try:
            value = values[place]
            value = value.as_py() if hasattr(value, "as_py") else value
        except Exception:
            value = None
        yield value


def _each(values: Any) -> list[Any]:
    """The values of an array. Dates stay NumPy's, which hold every one."""
    if values.dtype.kind in "mM":
        return list(values)
    try:
        return values.tolist()  # type: ignore[no-any-return]
    except Exception:
        pass
    return list(_one_by_one(values))


def _spelt(value: Any, known: Collection[str]) -> str:
    import numpy as np

    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes.decode(value, "utf-8", "replace")
    if isinstance(value, (bool, np.bool_)):
        text = str(bool(value))
        return text if text in known or not known else str(int(value))
    if value is None or value is np.ma.masked or isinstance(value, (np.timedelta64, datetime.timedelta)):
        return ""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return ""
        value = value.astype("M8[s]") if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D", "h", "m") else value
        text = str(value).replace("T", " ")
    elif isinstance(value, (Real, Decimal)):
        if value != value:
            return ""
        if isinstance(value, (float, np.floating)):
            # Beyond, several integers are one float.
            if not abs(value) < 2.0 ** (np.finfo(type(value) if isinstance(value, np.floating) else float).nmant + 1):
                return ""
            value = value.item() if isinstance(value, np.floating) else float(value)
        try:
            near = float(value)
            whole = int(near) if near.is_integer() else None
        except OverflowError:
            whole = None
        if whole is not None and value == whole:
            return str(whole)
        text = str(value)
        if not isinstance(value, Decimal) or "E" in text:
            return text
    else:
        text = str(value)
        if not isinstance(value, datetime.datetime) or text == "NaT":
            return "" if text in ("<NA>", "NaT") else text
    text = text.rstrip("0").rstrip(".") if "." in text and "+" not in text else text
    return text.removesuffix(" 00:00:00")


def word(value: Any, known: Collection[str] = ()) -> str:
    """A value as it stands in a file: 1 and 1.0 are ``1``; True is ``True``, or ``1`` if `known`, the words of the domain, lacks it; a moment
    at midnight is its day. Missing values are empty, and all that has no words: durations, floats above those that count every integer, and
    what raises.
    """
    try:
        text = value if type(value) is str else str(value) if type(value) is int else _spelt(value, known)
        text.encode()
        return text
    except Exception:
        return ""


def number(value: Any) -> float:
    """A value as a float64, text as the command reads it; NaN for a missing one and for what is no number. Too large ones are infinite."""
    import numpy as np

    try:
        if type(value) is float:
            return value
        if isinstance(value, (str, bytes)):
            text = word(value).strip()
            return float(text) if text.isascii() and "_" not in text else math.nan
        if isinstance(value, (Real, Decimal, np.bool_)) and not isinstance(value, np.timedelta64):
            try:
                return float(value)
            except OverflowError:
                return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    except Exception:
        pass
    return math.nan


@_quiet
def words(values: Any, known: Collection[str] = ()) -> tuple[list[str], Any]:
    """The different words of an array, and each value's index among them, −1 for a missing one."""
    import numpy as np

    if values.dtype.kind in "iufb":
        different, codes = np.unique(values, return_inverse=True)
        codes = codes.astype(np.int64).reshape(values.shape)
        if values.dtype.kind == "f":
            codes[~(np.abs(values) < 2.0 ** (np.finfo(values.dtype).nmant + 1))] = -1
        return [word(value, known) for value in different.tolist()], codes
    places: dict[str, int] = {}
    spelt = (word(value, known) for value in _each(values))
    codes = np.fromiter((places.setdefault(text, len(places)) if text else -1 for text in spelt), dtype=np.int64, count=len(values))
    return list(places), codes


def _refuse_numbers(values: Any, known: Collection[str]) -> None:
    """Refuses numbers where words are declared, for somebody who may know: with a null a column may have another type."""
    if values.dtype.kind in "iuf" and known and all(map(math.isnan, map(number, known))):
        raise TypeError(f"the values are numbers, and the domain declares words, {', '.join(map(repr, known))}: give these")


@_quiet
def numbers(values: Any) -> Any:
    """The numbers of an array as float64, NaN for a missing one."""
    import numpy as np

    if values.dtype.kind in "iufb":
        return np.ascontiguousarray(values, dtype=np.float64)
    found = np.fromiter(map(number, _each(values.ravel())), dtype=np.float64, count=values.size)
    return found.reshape(values.shape)


def labels(y: Any, domain: Domain | None, rows: int, explain: bool = False) -> Any:
    """Labels for the domain: words of classes, or numbers."""
    import numpy as np

    y = one_a_row(array(y) if domain is not None or hasattr(y, "dtype") or is_frame(y) else np.asarray(y), rows)
    if domain is None:
        is_classes = y.dtype.kind not in "f" or bool(np.all(y == np.floor(y)))
        return words(y) if is_classes else numbers(y)
    if explain:
        _refuse_numbers(y, domain.classes or ())
    return words(y, domain.classes) if domain.classes is not None else numbers(y)


def one_a_row(y: Any, rows: int) -> Any:
    """An array of one label a row."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y has {y.ndim} dimensions; one label a row is needed")
    if len(y) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, len(y)]}")
    return y


def ids(unit: Any, rows: int) -> list[str] | None:
    """Ids of units as words, one a row; an empty one for a row of no unit."""
    if unit is None:
        return None
    if isinstance(unit, str):
        raise ValueError(f"`unit`: an array has no column {unit!r}; give the ids, one for each row, and leave them out of the rows")
    unit = array(unit)
    if unit.shape != (rows,):
        raise ValueError(f"unit has the shape {unit.shape}; one id for each of {rows} rows is needed")
    different, codes = words(unit)
    different.append("")
    return [different[code] for code in codes.tolist()]


@_quiet
def dense(X: Any) -> Any:
    """Rows of bytes or of f32 in C order, those of `X` where it has them so. Every number is a float64 first, as `number` gives it."""
    import numpy as np

    if is_frame(X):
        columns = [numbers(array(_column_at(X, place))) for place in range(len(_keys(X)))]
        X = np.stack(columns, axis=1) if columns else np.zeros((len(X), 0))
    elif _is_list(X):
        X = _of_lists(X)
    elif isinstance(X, np.ma.MaskedArray):
        X = numbers(_unmasked(X))
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; rows of features are needed: Reshape your data to (rows, features)")
    if X.dtype.kind in "OUS":
        X = numbers(X)
    if X.dtype.kind not in "iufb":
        raise TypeError(f"X has values of {X.dtype}; numbers are needed")
    if X.dtype != np.uint8:
        X = (X if X.dtype.itemsize <= 4 else X.astype(np.float64, copy=False)).astype(np.float32, copy=False)
    return np.ascontiguousarray(X)


def _of_lists(X: Any) -> Any:
    """Rows, each encoded by itself; arrays of one type are stacked as they are."""
    import numpy as np

    rows = list(X)
    if all(type(row) is np.ndarray and row.dtype.kind in "iufb" for row in rows) and len({(row.dtype, row.shape) for row in rows}) == 1:
        return np.stack(rows)
    if not any(hasattr(row, "__len__") and not isinstance(row, (str, bytes)) for row in rows):
        return np.zeros(len(rows))
    rows = [_row(row) for row in rows]
    if len({row.shape for row in rows}) != 1:
        raise ValueError("X has rows of different lengths")
    return np.stack(rows)


def _row(row: Any) -> Any:
    import numpy as np

    if not hasattr(row, "__len__") or isinstance(row, (str, bytes)):
        return np.zeros(0)
    if _is_list(row) and {float, int, bool}.issuperset(map(type, row)):
        # The same numbers, faster.
        try:
            return np.fromiter(row, dtype=np.float64, count=len(row))
        except OverflowError:
            pass
    return numbers(_array(row))


@_quiet
def sparse(X: Any) -> Any:
    """Sparse rows of numbers with their columns in order, or None for what is not sparse."""
    module = sys.modules.get("scipy.sparse")
    if module is None or not module.issparse(X):
        return None
    if X.dtype.kind not in "iufb":
        raise TypeError(f"X has values of {X.dtype}; numbers are needed")
    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


@_quiet
def _matrix(X: Any, domain: Domain | None) -> Any:
    """Sparse rows, bytes or f32 in C order: those of `X` where it has them so."""
    import numpy as np

    rows = sparse(X)
    if rows is None:
        return dense(X)
    if domain is not None and domain.storage == "bytes":
        raise TypeError("sparse rows, and the domain keeps bytes: declare storage=\"sparse\"")
    values = np.ascontiguousarray(rows.data.astype(np.float64, copy=False), dtype=np.float32)
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), values, rows.shape[1]


def not_finite(X: Any, domain: Domain) -> list[str]:
    """What to say of values that are no finite numbers, to somebody who may know."""
    import numpy as np

    if domain.columns is not None and is_frame(X):
        told = []
        for name, values in [(name, column_of(X, name)) for name, kind in domain.columns if kind == "number"]:
            words_of = _each(values) if values.dtype.kind in "OUS" else []
            lost = sum(word(value).strip().lower() not in ("", "nan") and math.isnan(number(value)) for value in words_of)
            told += [f"{lost} values of the column {name!r} are no numbers (1.5 is one, and 1,5 is none) and count as missing ones"] if lost else []
        return told
    values = getattr(X, "data", X) if not isinstance(X, np.ndarray) else X
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fOUS":
        return []
    if values.dtype.kind != "f":
        values = numbers(values)
    elif np.isfinite(values).all():
        return []
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    told = [f"{missing} values are NaN or no numbers and count as 0, or the bound next to it"] if missing else []
    return told + ([f"{infinite} values are infinite and cut to the bounds"] if infinite else [])


def label_of(frame: Any, name: str, domain: Domain | None) -> Any:
    """The label's column."""
    if domain is not None and domain.label_column not in (None, name):
        raise ValueError(f"the domain declares its label, the column {domain.label_column!r}, not {name!r}")
    return column_of(frame, name)


def with_unit(domain: Domain, unit: Any, frame: Any, label: Any) -> Domain:
    """The domain of rows with these ids, or with those of a column that is neither feature nor label."""
    if not isinstance(unit, str) or not is_frame(frame):
        return domain.by_unit()
    is_label = unit == domain.label_column or isinstance(label, str) and unit == label
    if is_label or unit in dict(domain.columns or ((name, "") for name in names_of(frame))):
        role = "the label" if is_label else "a feature"
        raise ValueError(f"`unit`: the column {unit!r} is {role}, and a unit's ids are neither: name a column that the domain does not declare")
    column_of(frame, unit)
    return domain.by_unit(column=unit)


def rows_of(
    data: Any, y: Any = None, domain: Domain | None = None, unit: Any = None, *, name: str = "arrays", explain: bool = False
) -> Rows:
    """The rows of an array or a data frame, in the domain."""
    if unit is not None and domain is None:
        raise ValueError("`unit` needs a domain: without one nothing is claimed of a unit")
    if isinstance(unit, str) and is_frame(data):
        unit = None if domain is not None and domain.unit == unit else column_of(data, unit)
    if unit is not None and domain is not None and domain.unit:
        # A statement names the unit of the schema.
        raise ValueError(f"the domain declares its unit, the column {domain.unit!r}: leave `unit` out")
    if not is_frame(data) or (domain is not None and domain.columns is None):
        matrix = _matrix(data, domain)
        count = len(matrix[0]) - 1 if isinstance(matrix, tuple) else len(matrix)
        given = None if y is None else labels(y, domain, count, explain)
        return Rows.of_matrix(name, matrix, given, domain, ids(unit, count), explain)
    if domain is None:
        raise TypeError("a data frame needs the domain of its columns: `rounds.Schema.draft(df)` drafts a schema for you to check")
    assert domain.columns is not None
    columns: list[Any] = []
    for column, kind in domain.columns:
        known = [feature.removeprefix(f"{column}=") for feature in domain.feature_names if feature.startswith(f"{column}=")]
        values = column_of(data, column)
        if explain and kind != "number":
            _refuse_numbers(values, known)
        columns.append(numbers(values) if kind == "number" else words(values, known))
    count = len(data) if not hasattr(data, "num_rows") else data.num_rows
    if isinstance(y, str):
        y = label_of(data, y, domain)
    # Units order the rows of a training; rows that are only judged, one by one, keep their own order.
    if unit is None and y is not None and domain.unit and domain.unit in names_of(data):
        unit = column_of(data, domain.unit)
    given = None if y is None else labels(y, domain, count, explain)
    return Rows.of_columns(name, columns, count, domain, given, ids(unit, count), explain)
