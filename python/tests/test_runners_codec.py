"""What goes in comes out, and packets of a hostile sandbox are errors of one type."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import json
import math
import random
import struct
import time
import uuid
from typing import Any, NamedTuple

import pytest

from confine.runners import codec
from confine.runners.codec import Abilities, CodecError, CodecTimeout, Opaque, Picture, dumps, has_arrow, loads
from conftest import need

BERLIN = dt.timezone(dt.timedelta(hours=1))
ARROW = Abilities(arrow=True)


def again(value: Any, abilities: Abilities = Abilities(), **options: Any) -> Any:  # noqa: B008
    return loads(dumps(value, abilities), abilities, **options)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63,
        -(2**63) - 1,
        2**64,
        -(10**6000),
        1.5,
        -0.0,
        math.inf,
        -math.inf,
        1e308,
        "",
        "text",
        "\u00e9\U0001f600",
        "\ud800",
        "\ud83d\ude00",
        "\0",
        "x" * 70_000,
        b"",
        b"\0\xff",
        bytearray(b"x"),
        [],
        [1, [2, [None]]],
        (),
        (1, (2,)),
        set(),
        {(1, "a")},
        frozenset({b"x"}),
        {},
        {"a": {"b": 1}},
        {1: 2, (1, 2): 3, None: 4, b"k": 5},
        {"$": "int", "v": "0x1"},
        {"\ud800": 1},
        range(3),
        range(10, 0, -3),
        1 + 2j,
        complex(math.inf, -0.0),
        dt.datetime(2026, 1, 2, 3, 4, 5, 6),
        dt.datetime(2026, 1, 2, tzinfo=BERLIN),
        dt.datetime(2026, 1, 2, fold=1),
        dt.date(1, 1, 1),
        dt.time(1, 2, 3, 4),
        dt.time(1, tzinfo=BERLIN),
        dt.timedelta(-1, 2, 3),
        decimal.Decimal("1.50"),
        decimal.Decimal("-Infinity"),
        fractions.Fraction(-1, 3),
        uuid.UUID(int=7),
        Opaque("t", "r"),
        Picture(b"\x89PNG\r\n\x1a\nrest"),
    ],
    ids=lambda v: f"{type(v).__name__}-{str(v)[:20] if not isinstance(v, int) or abs(v) < 2**70 else 'big'}",
)
def test_standard_types(value: Any) -> None:
    back = again(value)
    assert back == value
    assert type(back) is type(value)


def test_not_a_number() -> None:
    assert math.isnan(again(math.nan))
    assert again(decimal.Decimal("NaN")).is_nan()
    assert math.copysign(1, again(-0.0)) == -1


def test_order_of_dictionaries_is_kept() -> None:
    assert list(again({3: 1, 1: 1, 2: 1})) == [3, 1, 2]
    assert list(again({"c": 1, "a": 1})) == ["c", "a"]


@dataclasses.dataclass
class Point:
    x: int
    parts: list[int]


class Pair(NamedTuple):
    a: int
    b: int


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


def test_subclasses_arrive_as_what_they_are_made_of() -> None:
    assert again(Point(1, [2])) == {"x": 1, "parts": [2]}
    assert again(Pair(1, 2)) == (1, 2)
    assert type(again(Pair(1, 2))) is tuple
    assert (again(Number.ONE), type(again(Number.ONE))) == (1, int)
    assert again(Text("a")) == "a"
    assert again(memoryview(b"abc")[::2]) == b"ac"


def test_what_has_no_form_as_data() -> None:
    for value in (object(), len, int, dataclasses, Point, (n for n in ()), [object()]):
        with pytest.raises(CodecError, match="has no form as data"):
            dumps(value)
    assert loads(dumps([len], opaque=True)) == [Opaque("builtin_function_or_method", "<built-in function len>")]

    class Bad:
        def __repr__(self) -> str:
            raise ValueError

    assert loads(dumps(Bad(), opaque=True)).repr == "<repr failed: ValueError>"
    assert repr(Opaque("t", "r")) == "<opaque t: r>"


def test_endless_and_deep_values() -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    with pytest.raises(CodecError, match="contains itself"):
        dumps(endless)
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    with pytest.raises(CodecError, match="nested more than 100 deep"):
        dumps(deep)
    assert again(deep[0]) == deep[0]
    twice = [1]
    assert again([twice, twice]) == [[1], [1]]


def test_pickles_only_by_name() -> None:
    value = fractions.Fraction  # a class
    pickled = dumps(value, Abilities(pickle=True))
    assert loads(pickled, Abilities(pickle=True)) is value
    with pytest.raises(CodecError, match="a pickle, which nobody asked for"):
        loads(pickled)


def packet(document: Any, *blobs: bytes) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps({"v": document, "b": [len(b) for b in blobs]}).encode()
    return struct.pack(">I", len(text)) + text + b"".join(blobs)


P = 2**61 - 1  # what hashes of numbers are taken modulo


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff\xff\xff",
        packet(b""),
        packet(b"{}"),
        packet(b"[]"),
        packet(b"NaN"),
        packet(b'{"v":NaN,"b":[]}'),
        packet(b'{"v":1,"b":[9]}'),
        packet(b'{"v":1,"b":[-1]}'),
        packet(b'{"v":1,"b":["1"]}'),
        packet(b'{"v":1,"b":[true]}'),
        packet(1) + b"more",
        packet(b"[" * 100_000),
        packet(b'{"v":' + b"[" * 300 + b"]" * 300 + b',"b":[]}'),
        packet(b'{"v":' + b"9" * 5000 + b',"b":[]}'),
        packet({"$": "nothing like it"}),
        packet({"$": ["x"]}),
        packet({"$": None}),
        packet({"$": "int"}),
        packet({"$": "int", "v": 5}),
        packet({"$": "int", "v": "zz"}),
        packet({"$": "bytes", "b": 0}),
        packet({"$": "bytes", "b": -1}, b"x"),
        packet({"$": "bytes", "b": "0"}, b"x"),
        packet({"$": "str", "b": 0}, b"\xff"),
        packet({"$": "tuple", "v": 1}),
        packet({"$": "set", "v": [[1]]}),
        packet({"$": "dict", "v": [[1]]}),
        packet({"$": "dict", "v": [[[], 1]]}),
        packet({"$": "range", "v": [1, 2, 0]}),
        packet({"$": "range", "v": ["a"]}),
        packet({"$": "float", "v": "1"}),
        packet({"$": "complex", "v": [1]}),
        packet({"$": "datetime", "v": "x", "fold": 0}),
        packet({"$": "datetime", "v": "2020-01-01", "fold": 9}),
        packet({"$": "timedelta", "v": [10**10, 0, 0]}),
        packet({"$": "decimal", "v": "1" * 200_000}),
        packet({"$": "fraction", "v": ["0x1", "0x0"]}),
        packet({"$": "fraction", "v": ["0x" + "f" * 20_000, "0x1"]}),
        packet({"$": "uuid", "v": "x"}),
        packet({"$": "png", "b": 0}, b"GIF89a"),
        packet({"$": "pickle", "b": 0}, b"."),
        packet({"$": "missing"}),
        packet({"$": "set", "v": [n * P for n in range(20_000)]}),
        packet({"$": "dict", "v": [[n * P, n] for n in range(20_000)]}),
        packet({"$": "set", "v": [k * P + n for n in range(50) for k in range(900)]}),
        packet(b'{"v":[' + b"[]," * 1_100_000 + b'1],"b":[]}'),
    ],
    ids=lambda d: str(d[:40]),
)
def test_hostile_packets(data: bytes) -> None:
    began = time.monotonic()
    with pytest.raises(CodecError):
        loads(data)
    assert time.monotonic() - began < 20


def test_mangled_packets_are_values_or_errors() -> None:
    chance = random.Random(7)
    whole = dumps({"a": [1, 2.5, "x", b"y", (1, {2}), dt.date(2020, 1, 1), 2**80], 3: 4})
    for _ in range(5000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(CodecError):
            loads(bytes(data))


def test_many_small_values_come_out_only_so_far() -> None:
    many = packet(b'{"v":[' + b"[]," * 2_600_000 + b'1],"b":[]}')
    with pytest.raises(CodecError, match="too many parts"):
        loads(many)
    assert len(loads(many, inside=True)) == 2_600_001
    with pytest.raises(CodecError, match="more than 3000000 values"):
        dumps([0] * 5_100_000, opaque=True)
    assert again([0] * 1_000_000) == [0] * 1_000_000


def test_there_is_a_time_in_which_it_has_to_be_read() -> None:
    data = dumps([[1]] * 1000)
    assert len(loads(data, deadline=time.monotonic() + 60)) == 1000
    with pytest.raises(CodecTimeout):
        loads(data, deadline=time.monotonic() - 1)


def test_a_blob_is_read_once() -> None:
    reference = {"$": "bytes", "b": 0}
    assert loads(packet([reference, reference], b"x" * 1000)) == [b"x" * 1000, b""]


# NumPy.


def arrays() -> list[Any]:
    import numpy as np

    return [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(10)[::3],
        np.array(1.5),
        np.zeros((0, 3)),
        np.array([True]),
        np.array(["a", "bb"]),
        np.array([b"x"]),
        np.array([1 + 2j]),
        np.arange(3, dtype=">i4"),
        np.array([1, 2], np.float16),
        np.array([1, 2], np.longdouble),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1], "m8[ns]"),
        np.array([1, "a", None, (2,)], dtype=object),
        np.arange(4, dtype="u1"),
    ]


def test_arrays() -> None:
    need("python:numpy")
    import numpy as np

    for array in arrays():
        back = again(array)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(back, array)
        assert back.flags.writeable
    for scalar in (
        np.float64(1.5),
        np.int8(3),
        np.bool_(True),
        np.datetime64("2020-01-01"),
        np.str_("x"),
        np.float32(2),
        np.complex128(1j),
    ):
        back = again(scalar)
        assert back == scalar
        assert type(back) is type(scalar)


def test_arrays_that_have_no_form() -> None:
    need("python:numpy")
    import numpy as np

    for array in (np.zeros(2, [("a", int)]), np.ma.masked_array([1, 2], [True, False]), np.zeros(2, "V4")):
        with pytest.raises(CodecError):
            dumps(array)
        assert isinstance(loads(dumps(array, opaque=True)), Opaque)


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("|O", [1], 8),
        ("<i8", [2], 8),
        ("<i8", [-1], 8),
        ("<i8", [2**62, 4], 8),
        ("<i8", ["1"], 8),
        ("<i8", 1, 8),
        ("i8,i8", [1], 16),
        ("|V8", [1], 8),
        ("<i3", [1], 3),
        ("|S0", [2**40], 0),
        ("|S0", [1_000_000], 0),
        ("<U999999999", [0], 0),
        ("<i8", [0, 2**40], 0),
        ("<i8", [1], 16),
        ("<U9999999999", [1], 8),
        ("<i8", [True], 8),
        (7, [1], 8),
    ],
)
def test_hostile_arrays(dtype: Any, shape: Any, size: int) -> None:
    need("python:numpy")
    with pytest.raises(CodecError):
        loads(packet({"$": "array", "dtype": dtype, "shape": shape, "b": 0}, bytes(size)))


# pandas.


def frames() -> list[Any]:
    import pandas as pd

    return [
        pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, math.nan]}),
        pd.DataFrame(),
        pd.DataFrame({"a": []}),
        pd.DataFrame([[1.5, 2], [3, math.nan]], columns=["a", "b"]),
        pd.DataFrame({"a": pd.date_range("2020", periods=2), "b": pd.date_range("2021", periods=2)}),
        pd.DataFrame([[True, False]]),
        pd.DataFrame({"a": [1, 2]}, index=["x", "y"]),
        pd.DataFrame(
            {
                "when": pd.date_range("2020", periods=3, tz="Europe/Berlin"),
                "kind": pd.Categorical(["a", "b", "a"], ordered=True),
                "maybe": pd.array([1, None, 3], dtype="Int64"),
                "month": pd.period_range("2020", periods=3, freq="M"),
                "long": pd.to_timedelta([1, 2, 3], unit="s"),
            }
        ),
        pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=[0, 1]),
        pd.DataFrame({"mixed": [1, "a", (1, 2)]}),
        pd.DataFrame({"a": [1, 2, 3, 4]}, index=pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["x", "y"])),
        pd.DataFrame({("a", "b"): [1]}),
        pd.DataFrame({"s": pd.array(["a", None], dtype="string")}),
        pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020", periods=2)),
        pd.DataFrame({"a": [1]}, index=pd.RangeIndex(5, 6, name="n")),
    ]


@pytest.mark.parametrize("arrow", [False, True])
def test_frames(arrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    need("python:pandas", *(["python:pyarrow"] if arrow else []))
    import pandas as pd

    monkeypatch.setattr(codec, "MIN_TEXTS", 1)
    for frame in frames():
        data = dumps(frame, Abilities(arrow=arrow))
        assert arrow or b'"text"' not in data
        pd.testing.assert_frame_equal(loads(data), frame, check_freq=False)


def test_series_and_other_values_of_pandas() -> None:
    need("python:pandas")
    import pandas as pd

    for series in (
        pd.Series([1, 2], name="x"),
        pd.Series(["a", None], index=[3, 4]),
        pd.Series([], dtype=float),
        pd.Series(pd.Categorical(["a"])),
    ):
        pd.testing.assert_series_equal(again(series), series)
    for index in (pd.Index([1, 2], name="q"), pd.RangeIndex(3), pd.MultiIndex.from_tuples([(1, "a")]), pd.Index(["a", 1], dtype=object)):
        pd.testing.assert_index_equal(again(index), index)
    for value in (
        pd.Timestamp("2020-01-01 01:02:03.123456789"),
        pd.Timestamp("2020-10-25 00:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp("2020-10-25 00:30", tz="UTC"),
        pd.Timedelta("1D3s"),
        pd.Period("2020-01", "M"),
    ):
        back = again(value)
        assert back == value
        assert type(back) is type(value)
    assert again(pd.NaT) is pd.NaT
    assert again(pd.NA) is pd.NA
    pd.testing.assert_extension_array_equal(again(pd.array([1, None], dtype="Int64")), pd.array([1, None], dtype="Int64"))


def test_hostile_frames() -> None:
    need("python:pandas")
    import pandas as pd

    good = dumps(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    chance = random.Random(3)
    for _ in range(300):
        data = bytearray(good)
        data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(CodecError):
            loads(bytes(data))
    column = {"values": {"$": "array", "dtype": "<i8", "shape": [1], "b": 0}}
    short = {"$": "series", "v": column, "index": {"range": [0, 2**40, 1], "name": None}, "name": None}
    with pytest.raises(CodecError):
        loads(packet(short, bytes(8)))
    with pytest.raises(CodecError):
        loads(packet({"$": "frame", "columns": short, "index": {"range": [0, 9, 1], "name": None}, "v": [column]}, bytes(8)))


def objects(*values: Any) -> dict[str, Any]:
    return {"$": "objects", "shape": [len(values)], "v": list(values)}


def column(kind: str, *values: Any) -> dict[str, Any]:
    return {"$": "extension", "v": {"values": objects(*(values or (1,))), "dtype": kind}}


RANGE = {"range": [0, 1_500_000, 1], "name": None}
CODES = {"$": "array", "dtype": "|i1", "shape": [8], "b": 0}
TEXTS = {"$": "array", "dtype": "|S2", "shape": [4], "b": 0}


@pytest.mark.parametrize(
    "document",
    [
        column("S1000000"),
        column("U1000000"),
        column("V1000000"),
        column("i8,i8"),
        column("object"),
        column("Sparse[S1000000]"),
        column("datetime64[ns, dateutil//etc/hostname]"),
        column("datetime64[ns, ../../etc/hostname]"),
        column("timestamp[ns, tz=/etc/hostname][pyarrow]"),
        {"$": "extension", "v": {"values": {"$": "range", "v": [0, 1_500_000, 1]}, "dtype": "Int64"}},
        {"$": "extension", "v": {"values": {"$": "index", "v": RANGE}, "dtype": "Int64"}},
        {"$": "extension", "v": {"values": TEXTS}},
        {"$": "index", "v": {"column": {"values": TEXTS}, "name": None}},
        {"$": "index", "v": {"levels": [RANGE], "codes": [CODES], "names": [None]}},
        {"$": "index", "v": {"levels": [{"levels": [RANGE], "codes": [CODES], "names": [None]}], "codes": [CODES], "names": [None]}},
        {"$": "index", "v": {"levels": [{"column": {"values": objects(1, 2)}, "name": None}], "codes": [RANGE], "names": [None]}},
        {"$": "index", "v": {"range": [0.5, 1, 1], "name": None}},
        {
            "$": "index",
            "v": {
                "levels": [{"column": {"values": objects(*((n * 7919) % 6007 for n in range(6007)))}, "name": None}],
                "codes": [CODES],
                "names": [None],
            },
        },
        {"$": "extension", "v": {"codes": CODES, "categories": RANGE, "ordered": False}},
        {"$": "extension", "v": {"codes": objects(0), "categories": {"column": {"values": objects(1)}, "name": None}, "ordered": False}},
        column("Sparse[datetime64[ns]]", *["Mon Jan 1 2020"] * 3),
        column("datetime64[ns, UTC]", "now"),
        column("period[D]", "2020"),
        column("Int64", [1]),
        {"$": "extension", "v": {"values": {"$": "array", "dtype": "<i8", "shape": [1], "b": 0}, "dtype": "Int64"}},
        {"$": "complex", "v": ["1", 2]},
        {"$": "timedelta", "v": ["1", 2, 3]},
        {"$": "timedelta", "v": [1.5, 2, 3]},
        {"$": "opaque", "type": [[1]], "repr": ""},
        {"$": "opaque", "type": "", "repr": {"$": "int", "v": "f" * 5000}},
        {"$": "frame", "columns": {"range": [0, 0, 1], "name": None}, "index": RANGE, "v": []},
        {"$": "frame", "columns": {"range": [0, 9, 1], "name": None}, "index": {"range": [0, 8, 1], "name": None}, "block": CODES},
        {"$": "frame", "columns": {"range": [0, 1, 1], "name": None}, "index": {"range": [0, 8, 1], "name": None}, "block": CODES},
        {"$": "frame", "columns": {"range": [0, 1, 1], "name": None}, "index": {"range": [0, 1, 1], "name": None}, "block": [[1]]},
        {
            "$": "frame",
            "columns": {"range": [0, 1, 1], "name": None},
            "index": {"range": [0, 2, 1], "name": None},
            "block": {"$": "array", "dtype": "<U1", "shape": [2, 1], "b": 0},
        },
        {"$": "objects", "shape": [0, 10**15], "v": []},
        {"$": "objects", "shape": [-1], "v": [1]},
        {"$": "period", "v": 1, "freq": "x" * 50},
        {"$": "period", "v": "1", "freq": "D"},
        {"$": "timestamp", "v": "now", "unit": "ns", "tz": None, "utc": 0},
    ],
    ids=lambda d: str(d)[:60],
)
def test_what_makes_much_of_little(document: Any) -> None:
    need("python:pandas")
    with pytest.raises(CodecError):
        loads(packet(document, bytes(8)))


def test_more_columns_than_come_out() -> None:
    need("python:pandas")
    empty = {"$": "index", "v": {"range": [0, 0, 1], "name": None}}
    with pytest.raises(CodecError, match="too many columns"):
        loads(packet([empty] * 50_001))


@pytest.mark.parametrize("zone", ["dateutil//etc/hostname", "dateutil/UTC", "/etc/hostname", "Europe/../../x", "tzlocal()", "a b", ""])
def test_a_time_zone_is_no_file(zone: str) -> None:
    """None of these texts reaches pandas, which would open a file for some."""
    need("python:pandas")
    stamp = {"$": "timestamp", "v": "2020-01-01T00:00:00", "unit": "ns", "utc": 0, "tz": zone}
    with pytest.raises(CodecError, match="not a time zone"):
        loads(packet(stamp))


def test_types_of_pandas_come_back() -> None:
    need("python:pandas")
    import pandas as pd

    for series in (
        pd.Series([1, None], dtype="UInt8"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1.5, None], dtype="Float32"),
        pd.Series(["a", None], dtype="string"),
        pd.Series(pd.date_range("2020", periods=2, tz="America/Argentina/Ushuaia")),
        pd.Series(pd.date_range("2020", periods=2, tz="Etc/GMT+5")),
        pd.Series(pd.date_range("2020", periods=2, tz="+05:30")),
        pd.Series(pd.period_range("2020", periods=2, freq="Q-JAN")),
        pd.Series(pd.Categorical([3, 5, 3])),
        pd.Series([0, 0, 1], dtype="Sparse[int64]"),
    ):
        back = again(series)
        pd.testing.assert_series_equal(back, series)
    for many in (
        pd.MultiIndex.from_arrays([pd.RangeIndex(30), ["same"] * 30]),
        pd.MultiIndex.from_product(
            [["b", "a"], pd.date_range("2020", periods=3, tz="UTC"), pd.Categorical(["x", "y"])], names=[1, "n", None]
        ),
        pd.MultiIndex.from_tuples([("a", 1.5), ("b", math.nan)])[1:],
    ):
        pd.testing.assert_index_equal(again(many), many)
    ranged = pd.Series(pd.Categorical.from_codes([0, 1], pd.RangeIndex(2)))
    pd.testing.assert_series_equal(again(ranged), ranged, check_categorical=False)


def same_for_pandas(n: int) -> Any:
    """Numbers for which pandas' tables of hashes know one place: a set of them takes the square of their number."""
    import numpy as np

    low = high = np.arange(n, dtype=np.uint64)
    for _ in range(4):
        low = high ^ ((low << np.uint64(11)) & np.uint64(2**32 - 1))
    return np.random.default_rng(1).permutation(((high << np.uint64(33)) | low).astype(np.int64))


def test_tables_of_hashes() -> None:
    """Neither categories nor levels of an index make pandas compare each with each: a million would take an hour."""
    need("python:pandas")
    import numpy as np
    import pandas as pd

    codes = np.arange(5, dtype=np.int8)
    numbers = same_for_pandas(6000)
    words = [f"{n * 7919 % 10_007}" for n in range(10_007)]
    for level in (numbers, numbers.astype(float), numbers.astype(object), pd.array(numbers, dtype="Int64")):
        for value in (pd.Categorical.from_codes(codes, pd.Index(level)), pd.MultiIndex([level], [np.arange(6000)])):
            with pytest.raises(CodecError, match="neither text nor in order"):
                again(value)
            with pytest.raises(CodecError, match="neither text nor in order"):
                dumps(value, opaque=True)
            assert loads(dumps(value), inside=True).equals(value)
    for level in (np.sort(numbers), pd.Index(words), pd.Index(words, dtype=object)):
        value = pd.Categorical.from_codes(codes, level)
        assert loads(dumps(value, opaque=True)).equals(value)


def stream(table: Any, **options: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write(table)
    return bytes(sink.getvalue())


def read_text(data: bytes) -> Any:
    return loads(packet({"$": "extension", "v": {"text": 0}}, data))


def test_text_by_arrow() -> None:
    need("python:pyarrow", "python:pandas")
    import pandas as pd

    values: list[Any]
    for values in (["x", None] * 60, ["\u20ac" * n for n in range(200)], [""] * 1000):
        data = dumps(pd.Series(values, dtype=object), ARROW)
        assert b'"text"' in data
        assert list(loads(data)) == values
    for values in ([1, "x"] * 60, [math.nan, "x"] * 60, [b"x"] * 100, ["\ud800"] * 100, [None] * 100, ["x"] * 99):
        data = dumps(pd.Series(values, dtype=object), ARROW)
        assert b'"text"' not in data
        assert str(list(loads(data))) == str(values)
    whole = pd.Series(["x", None] * 60, dtype="string")
    pd.testing.assert_series_equal(again(whole, ARROW), whole)


def test_hostile_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of anything but one part of one column of text; those that would make much of little; and those that are none."""
    need("python:pyarrow", "python:pandas")
    import pyarrow as pa

    def text(*values: Any) -> Any:
        return pa.table({"text": pa.array(values, pa.string())})

    plain = text(*["x"] * 1000)
    assert list(read_text(stream(plain))) == ["x"] * 1000
    for codec_name in ("zstd", "lz4"):
        with pytest.raises(CodecError, match="compressed"):
            read_text(stream(plain, compression=codec_name))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**30], pa.int32()), pa.array([1]))
    words = pa.array(["x", "y"] * 500)
    for array in (
        pa.nulls(20_000_000),
        runs,
        words.dictionary_encode(),
        words.cast(pa.large_string()),
        words.cast(pa.string_view()),
        words.cast(pa.binary()),
        pa.array([1, 2]),
        pa.array([0], pa.timestamp("ns", "dateutil//etc/hostname")),
        pa.array([[["x"]]]),
        pa.array([{"a": "x"}]),
        pa.array([dt.date(2020, 1, 1)]),
        pa.array([True, None]),
        pa.ListViewArray.from_arrays([0, 0], [1, 1], words),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16))),
    ):
        with pytest.raises(CodecError, match=r"not text|compressed"):
            read_text(stream(pa.table({"text": array})))
    with pytest.raises(CodecError, match="more than one part"):
        read_text(stream(pa.concat_tables([plain, plain])))
    with pytest.raises(CodecError, match="not text"):
        read_text(stream(pa.table({"a": words, "b": words})))
    with pytest.raises(CodecError, match="more than a column"):
        read_text(stream(pa.table({f"{n}": words for n in range(200)})))
    with pytest.raises(CodecError):
        read_text(stream(text()))
    monkeypatch.setattr(codec, "MAX_PARTS", 1000)
    with pytest.raises(CodecError, match="much of little"):
        read_text(stream(text(*[""] * 2000)))
    chance = random.Random(5)
    good = stream(plain)
    for _ in range(300):
        data = bytearray(good)
        data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(CodecError):
            read_text(bytes(data[: chance.randrange(1, len(data))] if chance.random() < 0.3 else data))
    for data in (b"", b"x", bytes(100), good[:50]):
        with pytest.raises(CodecError):
            read_text(data)


def test_an_old_pyarrow_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    need("python:pyarrow")
    import pyarrow as pa

    assert has_arrow()
    monkeypatch.setattr(pa, "__version__", "14.0.0")
    assert not has_arrow()
    with pytest.raises(CodecError, match=r"14\.0\.1"):
        read_text(b"")


# Pictures.


def test_pictures() -> None:
    need("python:PIL")
    from PIL import Image

    image = Image.new("RGB", (3, 2), "red")
    picture = again(image)
    assert isinstance(picture, Picture)
    assert picture._repr_png_() == picture.data
    assert picture.media_type == "image/png"
    opened = again(image, inside=True)
    assert (opened.size, opened.getpixel((0, 0))) == ((3, 2), (255, 0, 0))
    assert again(picture, inside=True).size == (3, 2)


def test_figures() -> None:
    need("python:matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2])
    assert again(figure).data.startswith(b"\x89PNG")
    assert again(axes) == again(figure)
    many = Figure()
    for each in (many.subplots(2, 2), many.subfigures(1, 2)[0].subplots(1, 2)):
        assert again(each) == again(each.flat[0]) == again(many)
    with pytest.raises(CodecError, match="no form as data"):
        again(axes.lines)


def test_what_pandas_draws() -> None:
    need("python:matplotlib", "python:pandas")
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": [2, 1]})
    for drawn in (frame.plot(backend="matplotlib"), frame.plot(subplots=True), frame.hist(), frame.a.plot.bar()):
        assert isinstance(again(drawn), Picture)
    mixed = np.array([frame.plot(), 1], dtype=object)
    assert isinstance(again(mixed)[0], Picture)
    assert again(mixed)[1] == 1
    assert list(again(np.array([frame.plot(), frame.plot()], dtype=object)).shape) == [2]
    assert again(np.array([], dtype=object)).shape == (0,)
