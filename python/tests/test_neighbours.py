"""One row changes nothing but its own encoding, whatever it holds and however the data are given."""

import collections
import datetime
import decimal
import fractions
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rounds
from rounds import _rows

BIG = 2**60
ROWS = 8
# Values that an array, a list or a column of objects can hold in any row.
ODD = [
    None, True, False, 0, 1, 1.0, -0.0, 1 + 0j, 0.5, "1", "x", "True", "\ud800", "\x00", "1_0", " 1 ", b"1", b"\xff", np.nan, -np.nan, np.inf, 1e300, 2.0**53,
    BIG, BIG + 1, 10**400, -(10**400), 10**5000, decimal.Decimal("1.0"), decimal.Decimal("sNaN"), decimal.Decimal("1E+9999999"),
    fractions.Fraction(1), fractions.Fraction(1, 3), pd.NA, np.ma.masked, pd.NaT, pd.Timestamp("2020-01-01"), datetime.date(2020, 1, 1),
    datetime.timedelta(1), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.float32(0.1), np.float16(1), np.longdouble(1), np.int8(1),
    np.bool_(True), np.str_("1"), np.bytes_(b"1"), np.complex64(1), [1], [1, 2], (1,), {1: 2}, np.zeros(2), np.array(1), object,
]  # fmt: skip


class Indexed:
    """A sequence by its methods alone, which NumPy takes for one."""

    def __init__(self, values):
        self.values = list(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return self.values[place]


SEQUENCES = [collections.deque, collections.UserList, Indexed]


class Raises:
    """A value whose every use fails."""

    def __str__(self):
        raise ValueError

    __repr__ = __eq__ = __hash__ = __float__ = __int__ = __bool__ = __str__


class Hides(Raises):
    """Not even its type is told. No data frame is made of it."""

    @property
    def __class__(self):
        raise ValueError


ODD.append(Raises())

# Typed values, of which every row of a column has one; None is a null of that column.
DAY = datetime.datetime(2020, 1, 1)
TYPED = {
    "int": [0, 1, 2, BIG, BIG + 1, -BIG, None],
    "float": [0.0, -0.0, 1.0, 0.1, 1e300, float(BIG), float("nan"), float("inf"), None],
    "bool": [True, False, None],
    "text": ["0", "1", "x", "True", "", "  ", None],
    "date": [DAY, DAY + datetime.timedelta(days=1), DAY + datetime.timedelta(microseconds=100_000), None],
    "decimal": [decimal.Decimal("0.10"), decimal.Decimal("1"), decimal.Decimal("1.5"), None],
}


def pandas_column(dtype):
    return lambda values: pd.Series(values, dtype=dtype)


def polars_column(dtype):
    return lambda values: pl.Series(values, dtype=dtype, strict=False)


def arrow_column(dtype):
    return lambda values: pa.chunked_array([pa.array(values[:3], type=dtype), pa.array(values[3:], type=dtype)])


def of_objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


def of_dictionary(values):
    return pa.chunked_array([pa.array(values, type=pa.int64()).dictionary_encode()])


# How values become a column, by their kind. Where a library takes a null for another type (NumPy's own), it is told the type.
COLUMNS = [
    ("int", pandas_column("Int64")),
    ("int", pandas_column(object)),
    ("int", pandas_column(pd.ArrowDtype(pa.int64()))),
    ("int", lambda values: pd.Series(pd.array(values, dtype="Int64")).astype("category")),
    ("int", lambda values: pd.Series(pd.Categorical(pd.array(values, dtype="Int64"), categories=pd.array([BIG + 1, 2, 1, 0, BIG, -BIG, 77])))),
    ("int", lambda values: pd.Series(pd.Categorical.from_codes(
        [-1 if value is None else [BIG + 1, 2, 1, 0, BIG, -BIG, 77].index(value) for value in values], categories=[BIG + 1, 2, 1, 0, BIG, -BIG, 77]))),
    ("int", polars_column(pl.Int64)),
    ("int", polars_column(pl.Int128)),
    ("int", arrow_column(pa.int64())),
    ("int", of_dictionary),
    ("int", lambda values: pd.Series(of_dictionary(values).combine_chunks(), dtype=pd.ArrowDtype(pa.dictionary(pa.int64(), pa.int64())))),
    ("int", lambda values: np.ma.MaskedArray([value or 0 for value in values], [value is None for value in values])),
    ("float", pandas_column("float64")),
    ("float", pandas_column("Float64")),
    ("float", pandas_column(object)),
    ("float", pandas_column("Sparse[float64]")),
    ("float", polars_column(pl.Float64)),
    ("float", arrow_column(pa.float64())),
    ("bool", pandas_column("boolean")),
    ("bool", pandas_column(object)),
    ("bool", pandas_column(pd.ArrowDtype(pa.bool_()))),
    ("bool", polars_column(pl.Boolean)),
    ("bool", arrow_column(pa.bool_())),
    ("text", pandas_column("str")),
    ("text", pandas_column("string")),
    ("text", pandas_column("category")),
    ("text", lambda values: np.array(["" if value is None else value for value in values])),
    ("text", polars_column(pl.String)),
    ("text", polars_column(pl.Categorical)),
    ("text", polars_column(pl.Enum(["x", "1", "0", "unused", "True", "", "  "]))),
    ("text", arrow_column(pa.large_string())),
    ("date", pandas_column("datetime64[ns]")),
    ("date", pandas_column("datetime64[us]")),
    ("date", pandas_column(object)),
    ("date", polars_column(pl.Datetime("us"))),
    ("date", arrow_column(pa.timestamp("us"))),
    ("decimal", pandas_column(object)),
    ("decimal", polars_column(pl.Decimal(20, 2))),
    ("decimal", arrow_column(pa.decimal128(20, 2))),
]  # fmt: skip


def encoded(column):
    """Words and numbers of each value."""
    values = _rows.array(column)
    different, codes = _rows.words(values, ["0", "1"])
    return [(*different, "")[code] for code in codes.tolist()], _rows.numbers(values).tolist(), _rows.ids(column, len(values))


@pytest.mark.parametrize("kind, column", COLUMNS)
def test_a_value_of_a_column_is_encoded_as_if_it_were_alone(kind, column):
    random = np.random.default_rng(5)
    # Each as a column of objects has it, whatever the type.
    expected = {repr(value): (_rows.word(value, ["0", "1"]), _rows.number(value), _rows.word(value)) for value in TYPED[kind]}
    for _ in range(30):
        values = [TYPED[kind][place] for place in random.integers(0, len(TYPED[kind]), ROWS)]
        found = list(zip(*encoded(column(values))))
        for value, one in zip(values, found):
            np.testing.assert_equal(one, expected[repr(value)], err_msg=repr(value))


@pytest.mark.parametrize("column, number", [
    (pandas_column("Float32"), float), (pandas_column(pd.ArrowDtype(pa.float32())), float), (polars_column(pl.Float32), float),
    (arrow_column(pa.float32()), float), (pandas_column("Int64"), int), (arrow_column(pa.int64()), int), (polars_column(pl.Int64), int),
    (pandas_column(pd.ArrowDtype(pa.int64())), int)])
def test_a_null_changes_no_other_row_and_decides_no_refusal(column, number):
    values = [number(value) for value in (2**24, 2**24 + 2, 1, 0, 2**24 + 6, 5)]
    whole, holed = encoded(column(values)), encoded(column([*values[:-1], None]))
    np.testing.assert_equal([part[:-1] for part in map(list, holed)], [part[:-1] for part in map(list, whole)])
    # A release refuses neither: the type may follow from the null.
    domain = rounds.Domain.matrix(1, (0.0, 1.0), classes=["no", "yes"])
    for labels in (column(values), column([*values[:-1], None])):
        assert len(_rows.rows_of(np.zeros((6, 1)), labels, domain)) == 6


@pytest.mark.parametrize("make", [of_objects, list, tuple, pandas_column(object), *SEQUENCES])
def test_odd_values_change_no_other_row_of_labels_ids_and_columns(make):
    random = np.random.default_rng(6)
    odd = ODD if make is pandas_column(object) else [*ODD, Hides()]
    alone = [encoded(of_objects([value])) for value in odd]
    for _ in range(200):
        places = random.integers(0, len(odd), ROWS)
        found = encoded(make([odd[place] for place in places]))
        for row, place in enumerate(places):
            np.testing.assert_equal([part[row] for part in found], [part[0] for part in alone[place]], err_msg=str(type(odd[place])))


@pytest.mark.parametrize("kind", [list, *SEQUENCES])
def test_no_row_of_a_list_decides_how_others_are_encoded(kind):
    # Each beside a row by which NumPy would give the whole another type, or would fail.
    for value, other in [(np.array(1), "x"), (2**53 + 1, 0.5), ([1], 1), (np.ma.masked, 1), (0.1, 1j), (1, None), (np.float32(0.1), 10**400), (True, np.timedelta64(1, "s"))]:
        for beside in (other, 1.0, [1]):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = matrix_of(kind([kind([value, 0.5, 0]), kind([beside, 0, 0])]))
            np.testing.assert_equal(found[0], np.array([_rows.number(value), 0.5, 0], np.float32), err_msg=f"{value!r} {beside!r}")
    # Of complex rows too, whatever the type of others.
    rows = [np.zeros(3), np.zeros(3, complex)]
    np.testing.assert_equal(matrix_of(kind(rows)), [[0, 0, 0], [np.nan] * 3])
    masked = [np.ma.MaskedArray([1.0, 2.0, 3.0], [False, True, False]), np.ma.MaskedArray([4.0, 5.0, 6.0], [False] * 3)]
    np.testing.assert_equal(matrix_of(kind(masked)), [[1, np.nan, 3], [4, 5, 6]])
    for refused, told in [([1.0, 2.0], "1 dimensions"), ([[1, 2], [3]], "different lengths"), ([np.zeros((2, 2))] * 2, "3 dimensions")]:
        with pytest.raises(ValueError, match=told):
            matrix_of(kind(refused))


def test_numpy_s_state_of_errors_decides_nothing():
    from scipy.sparse import csr_array

    signalling = np.array([0x7FA00000, 0x3F800000, 0, 0x7F7FFFFF] * 3, dtype=np.uint32).view(np.float32).reshape(4, 3)
    large = np.array([1e300, 1.0, np.inf] * 4).reshape(4, 3)
    floats = [signalling, large, large.astype(object), large.astype(np.longdouble) * 1e300, signalling.astype(object), large.tolist(), csr_array(signalling),
              pd.DataFrame(signalling), np.ma.MaskedArray(signalling), large.astype(np.float16)]  # fmt: skip
    for state in ("ignore", "warn", "raise"):
        with np.errstate(all=state), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = []
            for X in floats:
                matrix = matrix_of(X) if not hasattr(X, "indptr") else _rows._matrix(X, None)[2]
                found.append(matrix)
            for column in (signalling[:, 0], pd.Series(signalling[:, 0]), pl.Series(signalling[:, 0]), list(signalling[:, 0]), list(large[:, 0].astype(np.longdouble))):
                found.append(encoded(column))
        if state == "ignore":
            expected = found
        np.testing.assert_equal(found, expected)


def test_a_value_is_the_word_and_the_number_that_a_file_would_have():
    equal = [True, 1, 1.0, 1 + 0j, fractions.Fraction(1), decimal.Decimal("1.0"), np.float32(1), np.bool_(True)]
    for values in (equal, equal[::-1]):
        expected = ["(1+0j)" if isinstance(value, complex) else "1" for value in values]
        assert encoded(of_objects(values))[0] == expected
    # Where a domain has the words of booleans, or there is none, they are these words.
    assert [_rows.word(True, known) for known in ([], ["True", "False"], ["yes", "1"])] == ["True", "True", "1"]
    assert [_rows.number(value) for value in (True, "1e3", " 1 ", b"2", 10**400, -(10**400), fractions.Fraction(1, 4))] == [
        1, 1000, 1, 2, np.inf, -np.inf, 0.25]  # fmt: skip
    assert np.isnan([_rows.number(value) for value in ("", "x", "1_0", "\u0661", 1j, None, pd.NaT, np.timedelta64(1))]).all()
    moments = [DAY, DAY.date(), pd.Timestamp(DAY), np.datetime64(DAY), np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00", "h")]
    assert {_rows.word(moment) for moment in moments} == {"2020-01-01"}
    assert _rows.word(np.datetime64("2020-01-01T01:00:00.100", "ns")) == "2020-01-01 01:00:00.1"


DOMAIN = rounds.Domain.matrix(3, (-2.0, 2.0), classes=["0", "1"])


def matrix_of(X):
    return _rows._matrix(X, DOMAIN)


@pytest.mark.parametrize(
    "make", [list, lambda rows: [tuple(row) for row in rows], *SEQUENCES, *(lambda rows, kind=kind: kind(map(kind, rows)) for kind in SEQUENCES),
             lambda rows: [np.ma.MaskedArray(of_objects(row), [False] * 3) for row in rows], lambda rows: np.array([of_objects(row) for row in rows]),
             lambda rows: pd.DataFrame({name: of_objects(column) for name, column in zip("abc", zip(*rows))}),
             lambda rows: pd.DataFrame({name: list(column) for name, column in zip("abc", zip(*rows))}),
             lambda rows: pd.DataFrame([of_objects(row) for row in rows], columns=["a", "a", "b"])]
)  # fmt: skip
def test_odd_values_change_no_other_row_of_a_matrix(make):
    random = np.random.default_rng(7)
    # Of numbers alone pandas makes a complex column of its own, whose type is refused.
    is_typed = isinstance(make([[1.0] * 3]), pd.DataFrame)
    odd = [value for value in ODD if not (is_typed and isinstance(value, (complex, np.complexfloating)))]
    # The last one is another f32 where it is no float64 before.
    plain = [0, 1, -1, 0.25, 1.5, True, 2**24 + 1, BIG + 2**36 + 1]
    for _ in range(100):
        rows = [[plain[place] for place in places] for places in random.integers(0, len(plain), (ROWS, 3))]
        expected = np.array([[_rows.number(value) for value in row] for row in rows]).astype(np.float32)
        assert np.array_equal(matrix_of(make(rows)), expected)
        row, column = random.integers(0, ROWS), random.integers(0, 3)
        rows[row][column] = odd[random.integers(0, len(odd))]
        found = matrix_of(make(rows))
        assert found.dtype == np.float32 and found.shape == expected.shape
        assert np.array_equal(np.delete(found, row, axis=0), np.delete(expected, row, axis=0)), repr(rows[row][column])


SCHEMA = """
[columns.a]
kind = "number"
bounds = [-2, 2]

[columns.b]
kind = "category"
values = ["0", "1"]
other = "1"

[columns.c]
kind = "category"
values = ["True", "False", "2020-01-01"]

[label]
column = "y"
classes = ["0", "1"]
"""


@pytest.mark.filterwarnings("ignore:.*add nothing")
def test_rows_of_a_frame_are_those_of_each_row_alone():
    """The encoded row of a frame is that of the same row in a frame of plain values: by the model's outputs, which are those of features."""
    random = np.random.default_rng(8)
    domain = rounds.Domain.parse(SCHEMA)
    plain = pd.DataFrame({"a": [0.5, -1.0] * 200, "b": ["0", "1"] * 200, "c": ["True", "False"] * 200, "y": [0, 1] * 200})
    model = rounds.train(plain, domain=domain, epsilon=9.0, delta=1e-6, seed=1, epochs=2).model
    for _ in range(40):
        rows = [[ODD[place] for place in random.integers(0, len(ODD), 4)] for _ in range(ROWS)]
        columns = {name: pd.Series(list(column), dtype=object) for name, column in zip("abcy", zip(*rows))}
        whole = rounds.predict(model, pd.DataFrame(columns)), model.outputs(_rows.rows_of(pd.DataFrame(columns), "y", domain))
        # Another order of columns, and columns that no one declares, change nothing.
        other = pd.DataFrame({"z": range(ROWS), **dict(reversed(columns.items()))})
        assert np.array_equal(rounds.predict(model, other), whole[0])
        for row in range(ROWS):
            alone = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in zip("abcy", rows[row])})
            assert rounds.predict(model, alone)[0] == whole[0][row]
            assert np.array_equal(model.outputs(_rows.rows_of(alone, "y", domain))[0], whole[1][row])


@pytest.mark.parametrize("make", [pandas_column("Int64"), pandas_column(pd.ArrowDtype(pa.int64())), polars_column(pl.Int64), arrow_column(pa.int64()), list])
def test_a_row_without_an_id_merges_no_units(make):
    people = [BIG + place // 2 for place in range(200)]
    X, y = np.zeros((200, 3)), np.arange(200) % 2
    settings = dict(domain=DOMAIN.by_unit(), epsilon=1.0, delta=1e-6, seed=1, epochs=1)
    assert rounds.train(X, y, unit=make(people), **settings).outcome["n"] == 100
    assert rounds.train(X, y, unit=make([*people[:-1], None]), **settings).outcome["n"] == 100


def test_what_a_library_cannot_read_is_missing():
    far = pa.array([2**60, None, 0], type=pa.timestamp("s"))
    pieces = [None, pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xff1")]
    broken = pa.Array.from_buffers(pa.string(), 2, pieces)
    for values, expected in [
        (far.dictionary_encode(), ["", "", "1970-01-01"]),
        (far, ["36534630048-05-13 13:56:16", "", "1970-01-01"]),
        (pd.Series(far, dtype=pd.ArrowDtype(far.type)), ["36534630048-05-13 13:56:16", "", "1970-01-01"]),
        (broken, ["", "1"]),
        (pd.Series(broken, dtype=pd.ArrowDtype(pa.string())), ["", "1"]),
        (np.array([0x110000, 49], dtype=np.uint32).view("<U1"), ["", "1"]),
        (np.array([0x7E01, 0xFE00, 0x3C00], dtype=np.uint16).view(np.float16), ["", "", "1"]),
    ]:
        assert _rows.ids(values, len(values)) == expected


def test_floats_that_may_stand_for_several_integers_are_no_ids_or_classes():
    for values in (np.array([2.0**53, 2.0**53 - 1]), of_objects([2.0**53, 2.0**53 - 1]), np.array([2**24, 2**24 - 1], dtype=np.float32)):
        assert [bool(one) for one in _rows.ids(values, 2)] == [False, True]
    assert _rows.ids(np.array([2**53, 2**53 + 1]), 2) == ["9007199254740992", "9007199254740993"]


def test_a_unit_needs_a_domain():
    with pytest.raises(ValueError, match="`unit` needs a domain"):
        rounds.train(np.zeros((20, 3)), np.arange(20) % 2, unit=np.arange(20), epsilon=1.0, delta=1e-6, seed=1)


def test_sparse_columns_of_pandas_are_those_that_are_not():
    from scipy.sparse import random_array

    X = random_array((40, 3), density=0.5, rng=np.random.default_rng(2))
    y = pd.Series(np.arange(40) % 2)
    domain = rounds.Domain.matrix(3, (-1.0, 1.0), classes=["0", "1"])
    settings = dict(domain=domain, epsilon=9.0, seed=1, holds_out=False)
    expected = rounds.train(X.toarray(), y, **settings).outcome["model_sha256"]
    for labels in (y.astype("Sparse[int64]"), y.astype("Sparse[float64]"), y.astype("Sparse[bool]")):
        frame = pd.DataFrame.sparse.from_spmatrix(X)
        frame.columns = list("abc")
        for fitted in (rounds.LogisticRegression(classes=[0, 1], epsilon=9.0, bounds=(-1, 1)), rounds.LogisticRegression(epsilon=9.0, domain=domain)):
            assert fitted.fit(frame, labels).privacy_["claim"] == "release"
        assert rounds.train(frame, labels, **settings).outcome["model_sha256"] == expected
    # Whether a column has gaps changes no type of its values.
    for values in ([0.1, 0.2], [0.1, 0.0]):
        assert encoded(pd.Series(np.float32(values)).astype(pd.SparseDtype("float32", 0.0)))[0][0] == _rows.word(np.float32(0.1))


def test_sparse_rows_of_any_type_are_those_of_floats():
    from scipy.sparse import csr_array

    X = np.where(np.random.default_rng(1).random((20, 3)) < 0.5, 0, BIG + 2**36 + 1)
    expected = _rows._matrix(csr_array(X.astype(np.float64)), None)
    for found, wanted in zip(_rows._matrix(csr_array(X), None)[:3], expected):
        assert np.array_equal(found, wanted)
    with pytest.raises(TypeError, match="complex128; numbers are needed"):
        _rows._matrix(csr_array(X.astype(complex)), None)
