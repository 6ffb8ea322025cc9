"""Values as bytes, and back: what goes into a sandbox and what comes out of it.

A packet is the length of a JSON document, the document, and after it blobs: bytes, arrays, Arrow streams and
pictures, which the document refers to by number. JSON's own types stand for themselves; every other value is an
object with a "$" that names its kind. Nothing is unpickled unless both sides were told so.

The same file is run inside the sandbox, where nothing of the package is: it imports the standard library only, and
NumPy, pandas, pyarrow and Pillow where a value needs them. `loads` reads what a hostile sandbox may have written: whatever
is wrong is a CodecError, and what it makes is not much larger than the packet.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import fractions
import importlib
import io
import json
import math
import re
import struct
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100  # of lists in lists; far from what the JSON module can read
MAX_DIGITS = 100_000  # of a Decimal
MAX_REPR = 10_000  # characters of what can't be carried
MAX_SAME_HASH = 20  # keys of one hash: building a set of them takes the square of that
MAX_TEXT = 1 << 16  # characters of a string in the document; a longer one is a blob
MAX_PARTS = 3_000_000  # values in a document that comes out, lists and dictionaries thrice: each takes more memory than its bytes
MAX_COLUMNS = 50_000  # columns and indexes of pandas: each takes far more memory and time than its bytes
MAX_EMPTY = 1_000_000  # of a dimension of what has no elements, and of an index without columns
MAX_WIDTH = 4_096  # bytes of an element of an array that has none
MAX_LEVEL = 5_000  # categories that are in no order and no text: pandas' tables of hashes take the square of what collides
MIN_TEXTS = 100  # texts that go by Arrow
MAX_HEAD = 4_096  # bytes of a message's head in an Arrow stream
MAX_DIGITS_OF_INT = 20  # in the document; larger ones are hexadecimal


class CodecError(ValueError):
    """A value that can't be carried, or a packet that isn't one."""


class CodecTimeout(CodecError):
    """A packet that takes longer to read than there is time."""


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Stands for a value that has no form as data, such as a function: its type's name, and what repr() said inside."""

    type: str
    repr: str

    def __repr__(self) -> str:
        return f"<opaque {self.type}: {self.repr}>"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture that came out: a Pillow image or a Matplotlib figure, as PNG. The bytes are as hostile as the code was."""

    data: bytes = dataclasses.field(repr=False)
    media_type: str = "image/png"

    def _repr_png_(self) -> bytes:
        return self.data


@dataclasses.dataclass(frozen=True)
class Abilities:
    """What the other side can read besides the standard library's types."""

    arrow: bool = False
    pickle: bool = False


def _library(name: str) -> Any:
    """A library that only some values need."""
    return importlib.import_module(name)


def has_arrow() -> bool:
    """Whether this side reads and writes Arrow. Before 14.0.1 reading it could run code, so an older one doesn't count."""
    try:
        pyarrow = _library("pyarrow")
    except Exception:
        return False
    numbers = [int(n) for n in re.findall(r"\d+", pyarrow.__version__)[:3]]
    return numbers >= [14, 0, 1]


# Out: values to packets.


class _Writer:
    def __init__(self, abilities: Abilities, opaque: bool) -> None:
        self.abilities, self.opaque = abilities, opaque
        self.blobs: list[bytes] = []
        self.within: set[int] = set()
        self.columns = 0

    def column(self) -> None:
        self.columns += 1
        if self.opaque and self.columns > MAX_COLUMNS:
            raise CodecError(f"there are more than {MAX_COLUMNS} columns in it")

    def blob(self, data: Any) -> int:
        self.blobs.append(bytes(data))
        return len(self.blobs) - 1

    def write(self, x: Any) -> Any:
        if x is None or x is True or x is False:
            return x
        exact = _EXACT.get(type(x))
        if exact is not None:
            return exact(self, x)
        if isinstance(x, (list, tuple, set, frozenset, dict)) and type(x) in _CONTAINERS:
            return self.inside(x, _CONTAINERS[type(x)])
        return self.other(x)

    def inside(self, x: Any, write: Callable[[_Writer, Any], Any]) -> Any:
        """Writes what has parts, unless it is one of its own parts or too deep."""
        if id(x) in self.within or len(self.within) >= MAX_DEPTH:
            why = "contains itself" if id(x) in self.within else f"is nested more than {MAX_DEPTH} deep"
            return self.no(x, why)
        self.within.add(id(x))
        try:
            return write(self, x)
        finally:
            self.within.discard(id(x))

    def no(self, x: Any, why: str = "has no form as data") -> Any:
        name = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
        if self.abilities.pickle:
            import pickle

            return {"$": "pickle", "b": self.blob(pickle.dumps(x))}
        if not self.opaque:
            raise CodecError(f"a value of type {name} {why}")
        try:
            text = repr(x)[:MAX_REPR]
        except Exception as e:
            text = f"<repr failed: {type(e).__name__}>"
        return {"$": "opaque", "type": self.write(str(name)[:MAX_REPR]), "repr": self.write(str(text))}

    def other(self, x: Any) -> Any:
        library = type(x).__module__.partition(".")[0]
        if library in _LIBRARIES:
            found = _LIBRARIES[library](self, x)
            if found is not None:
                return found
        for base in type(x).__mro__[1:-1]:
            library = base.__module__.partition(".")[0]
            if library in _LIBRARIES:
                found = _LIBRARIES[library](self, x)
                if found is not None:
                    return found
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            return self.inside(x, _write_dataclass)
        for kind, write in _CONTAINERS.items():
            if isinstance(x, kind):
                return self.inside(x, write)
        if not isinstance(x, (dt.date, dt.time, dt.timedelta)):
            for kind, write in _EXACT.items():
                if isinstance(x, kind):
                    return write(self, x)
        return self.no(x)


def _write_int(w: _Writer, x: int) -> Any:
    x = int(x)
    return x if -(2**63) <= x < 2**64 else {"$": "int", "v": hex(x)}


def _write_float(w: _Writer, x: float) -> Any:
    x = float(x)
    return x if math.isfinite(x) else {"$": "float", "v": repr(x)}


def _write_str(w: _Writer, x: str) -> Any:
    x = str.__str__(x)
    if len(x) > MAX_TEXT:
        return {"$": "str", "b": w.blob(x.encode("utf-8", "surrogatepass"))}
    if not x.isascii():
        try:
            x.encode()
        except UnicodeEncodeError:  # surrogates: a pair of them would come back as one character
            return {"$": "str", "b": w.blob(x.encode("utf-8", "surrogatepass"))}
    return x


def _write_dict(w: _Writer, x: dict[Any, Any]) -> Any:
    if all(type(k) is str and k.isascii() for k in x) and "$" not in x:
        return {k: w.write(v) for k, v in x.items()}
    return {"$": "dict", "v": [[w.write(k), w.write(v)] for k, v in x.items()]}


def _write_dataclass(w: _Writer, x: Any) -> Any:
    return _write_dict(w, {f.name: getattr(x, f.name) for f in dataclasses.fields(x)})


def _write_list(w: _Writer, x: Any) -> Any:
    return [w.write(v) for v in x]


def _tagged(kind: str) -> Callable[[_Writer, Any], Any]:
    return lambda w, x: {"$": kind, "v": [w.write(v) for v in x]}


def _blob(kind: str) -> Callable[[_Writer, Any], Any]:
    return lambda w, x: {"$": kind, "b": w.blob(x)}


def _iso(kind: str) -> Callable[[_Writer, Any], Any]:
    return lambda w, x: {"$": kind, "v": x.isoformat(), "fold": x.fold}


_EXACT: dict[type, Callable[[_Writer, Any], Any]] = {
    int: _write_int,
    float: _write_float,
    str: _write_str,
    bytes: _blob("bytes"),
    bytearray: _blob("bytearray"),
    memoryview: _blob("bytes"),
    complex: lambda w, x: {"$": "complex", "v": [_write_float(w, x.real), _write_float(w, x.imag)]},
    range: lambda w, x: {"$": "range", "v": [_write_int(w, n) for n in (x.start, x.stop, x.step)]},
    dt.datetime: _iso("datetime"),
    dt.date: lambda w, x: {"$": "date", "v": x.isoformat()},
    dt.time: _iso("time"),
    dt.timedelta: lambda w, x: {"$": "timedelta", "v": [x.days, x.seconds, x.microseconds]},
    decimal.Decimal: lambda w, x: {"$": "decimal", "v": str(x)},
    fractions.Fraction: lambda w, x: {"$": "fraction", "v": [hex(x.numerator), hex(x.denominator)]},
    uuid.UUID: lambda w, x: {"$": "uuid", "v": x.hex},
    Picture: lambda w, x: {"$": "png", "b": w.blob(x.data)},
    Opaque: lambda w, x: {"$": "opaque", "type": w.write(x.type), "repr": w.write(x.repr)},
}
_CONTAINERS: dict[type, Callable[[_Writer, Any], Any]] = {
    list: _write_list,
    tuple: _tagged("tuple"),
    set: _tagged("set"),
    frozenset: _tagged("frozenset"),
    dict: _write_dict,
}

# An array's dtype as text: numbers, times, and text of a fixed width. No objects, and no structures.
_DTYPE = re.compile(r"[<>|](?:[biufcSU][0-9]{1,9}|[mM]8(?:\[[0-9]{0,9}[a-zA-Zμ]{1,7}\])?)", re.ASCII)


# Types as texts that are given to pandas, which opens files for some, and makes a gigabyte of a "S1000000000".
_ZONE = re.compile(r"(?!/|dateutil/)[A-Za-z0-9_+/-]{1,64}|(?:UTC)?[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?", re.ASCII)
_FREQUENCY = re.compile(r"[A-Za-z0-9-]{1,30}", re.ASCII)
_STAMP = re.compile(r"[0-9T:. +-]{1,40}", re.ASCII)
_NUMBERS = r"(?:bool_?|u?int(?:8|16|32|64)|float(?:16|32|64|128)?|complex(?:64|128|256)|(?:datetime|timedelta)64\[(?:s|ms|us|ns)\])"
_PANDAS_TYPE = re.compile(
    r"U?Int(?:8|16|32|64)|Float(?:32|64)|boolean|str|string(?:\[(?:python|pyarrow|pyarrow_numpy)\])?"
    rf"|Sparse\[{_NUMBERS}(?:, [A-Za-z0-9.+-]{{1,30}})?\]"
    r"|(?:bool|u?int(?:8|16|32|64)|halffloat|float|double|(?:large_)?(?:string|binary)|date32\[day\]|date64\[ms\]"
    r"|(?:timestamp|duration|time32|time64)\[(?:s|ms|us|ns)\])\[pyarrow\]",
    re.ASCII,
)
_ZONED_TYPE = re.compile(r"datetime64\[(?:s|ms|us|ns), (.{1,70})\]|timestamp\[(?:s|ms|us|ns), tz=(.{1,70})\]\[pyarrow\]", re.ASCII)
_PERIOD_TYPE = re.compile(rf"period\[{_FREQUENCY.pattern}\]", re.ASCII)


def _is_zone(x: Any) -> bool:
    """Whether a text is the name of a time zone, and not of a file."""
    return isinstance(x, str) and _ZONE.fullmatch(x) is not None and ".." not in x


def _pandas_type(x: Any) -> bool:
    """Whether a text is one of pandas' own types."""
    if not isinstance(x, str) or len(x) > 100:
        return False
    zoned = _ZONED_TYPE.fullmatch(x)
    if zoned:
        return _is_zone(zoned[1] or zoned[2])
    return any(kind.fullmatch(x) for kind in (_PANDAS_TYPE, _PERIOD_TYPE))


def _write_numpy(w: _Writer, x: Any) -> Any:
    np = _library("numpy")
    if isinstance(x, np.ma.MaskedArray):
        return None
    if isinstance(x, np.ndarray) and x.dtype == object:
        picture = _write_matplotlib(w, x)
        if picture is not None:
            return picture
        return w.inside(x, lambda w, x: {"$": "objects", "shape": list(x.shape), "v": [w.write(v) for v in x.ravel().tolist()]})
    if isinstance(x, (np.ndarray, np.generic)):
        code = x.dtype.str
        if not _DTYPE.fullmatch(code):
            return None
        kind, shape = ("array", list(x.shape)) if isinstance(x, np.ndarray) else ("scalar", [])
        return {"$": kind, "dtype": code, "shape": shape, "b": w.blob(np.ascontiguousarray(x).tobytes())}
    return None


def _write_pandas(w: _Writer, x: Any) -> Any:
    pd = _library("pandas")
    if x is pd.NaT or x is pd.NA:
        return {"$": "missing", "v": "NaT" if x is pd.NaT else "NA"}
    if isinstance(x, pd.Timestamp):
        return {
            "$": "timestamp",
            "v": x.tz_localize(None).isoformat(),
            "unit": x.unit,
            "tz": _zone(x.tz),
            "utc": None if x.tz is None else x.utcoffset().total_seconds(),
        }
    if isinstance(x, pd.Timedelta):
        return {"$": "timedelta64", "v": x.isoformat(), "unit": x.unit}
    if isinstance(x, pd.Period):
        return {"$": "period", "v": x.ordinal, "freq": x.freqstr}
    if isinstance(x, pd.DataFrame):
        return w.inside(x, _write_frame)
    if isinstance(x, pd.Series):
        return w.inside(
            x, lambda w, x: {"$": "series", "v": _write_column(w, x), "index": _write_index(w, x.index), "name": w.write(x.name)}
        )
    if isinstance(x, pd.Index):
        return w.inside(x, lambda w, x: {"$": "index", "v": _write_index(w, x)})
    if isinstance(x, pd.api.extensions.ExtensionArray):
        return w.inside(pd.Series(x), lambda w, x: {"$": "extension", "v": _write_column(w, x)})
    return None


def _zone(tz: Any) -> str | None:
    return None if tz is None else str(tz)


def _write_frame(w: _Writer, x: Any) -> Any:
    frame = {"$": "frame", "columns": _write_index(w, x.columns), "index": _write_index(w, x.index)}
    kinds = set(x.dtypes)
    if len(kinds) == 1 and _of_numpy(kinds.pop()):  # may be wide
        return {**frame, "block": w.write(x.to_numpy())}
    return {**frame, "v": [_write_column(w, x.iloc[:, i]) for i in range(x.shape[1])]}


def _of_numpy(dtype: Any) -> bool:
    """Whether it is a type of NumPy's other than objects."""
    return type(dtype).__module__.partition(".")[0] == "numpy" and dtype.kind != "O"


def _write_column(w: _Writer, column: Any) -> Any:
    """One column: what NumPy holds as an array, text by Arrow, categories as codes, everything else as objects and the dtype's name."""
    pd = _library("pandas")
    w.column()
    if isinstance(column.dtype, pd.CategoricalDtype):
        values = column.array if isinstance(column, pd.Series) else column.values
        return {"codes": w.write(values.codes), "categories": _write_level(w, values.categories), "ordered": bool(values.ordered)}
    if _of_numpy(column.dtype):
        return {"values": w.write(column.to_numpy())}
    values = column.astype(object).to_numpy()
    dtype = {"dtype": str(column.dtype)} if column.dtype != object and _pandas_type(str(column.dtype)) else {}
    text = _arrow_text(values, missing=bool(dtype)) if w.abilities.arrow and len(values) >= MIN_TEXTS else None
    return {"values": w.write(values), **dtype} if text is None else {"text": w.blob(text), **dtype}


def _write_level(w: _Writer, index: Any) -> Any:
    """Categories, and levels of an index."""
    if w.opaque:
        _check_level(index)
    return {"column": _write_column(w, index), "name": w.write(index.name)}


def _check_level(index: Any) -> None:
    """Text, whose hashes nobody can foresee, what is in order, for which pandas needs no hashes, and a few others."""
    if len(index) <= MAX_LEVEL:
        return
    numpy = type(index.dtype).__module__.partition(".")[0] == "numpy"
    if index.inferred_type == "string" and (numpy or str(index.dtype) == "str"):
        return
    if not numpy or not index.is_monotonic_increasing:
        raise CodecError(f"there are more than {MAX_LEVEL} categories in it that are neither text nor in order")


def _write_index(w: _Writer, index: Any) -> Any:
    pd = _library("pandas")
    if isinstance(index, pd.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "name": w.write(index.name)}
    if isinstance(index, pd.MultiIndex):
        np = _library("numpy")
        index = index.remove_unused_levels()
        levels = [_write_level(w, level) for level in index.levels]
        return {"levels": levels, "codes": [w.write(np.asarray(c)) for c in index.codes], "names": w.write(list(index.names))}
    return {"column": _write_column(w, index), "name": w.write(index.name)}


def _write_pillow(w: _Writer, x: Any) -> Any:
    image: Any = sys.modules.get("PIL.Image")
    if image is None or not isinstance(x, image.Image):
        return None
    out = io.BytesIO()
    x.save(out, "PNG")
    return {"$": "png", "b": w.blob(out.getvalue())}


def _write_matplotlib(w: _Writer, x: Any) -> Any:
    figure = _figure(x)
    if figure is None:
        return None
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return {"$": "png", "b": w.blob(out.getvalue())}


def _figure(x: Any) -> Any:
    """The figure that this is, or that these axes belong to: what pandas' plot() gives back is one or an array of them."""
    figures, axes = (sys.modules.get(f"matplotlib.{name}") for name in ("figure", "axes"))
    if figures is None or axes is None:
        return None
    if isinstance(x, (figures.Figure, axes.Axes)):
        while x is not None and not isinstance(x, figures.Figure):
            x = x.figure  # of a part of a figure, that it is a part of
        return x
    found = [_figure(one) if isinstance(one, axes.Axes) else None for one in x.flat] if type(x).__module__ == "numpy" else []
    return found[0] if found and all(one is found[0] for one in found) else None


_LIBRARIES: dict[str, Callable[[_Writer, Any], Any]] = {
    "numpy": _write_numpy,
    "pandas": _write_pandas,
    "PIL": _write_pillow,
    "matplotlib": _write_matplotlib,
}


# Taken before code inside can put something else in its place.
_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_now = time.monotonic


def dumps(value: Any, abilities: Abilities = Abilities(), *, opaque: bool = False) -> bytes:
    """The packet of a value. What has no form as data is a CodecError or, with opaque, goes as an Opaque."""
    writer = _Writer(abilities, opaque)
    document = writer.write(value)
    text = _json({"v": document, "b": [len(b) for b in writer.blobs]}).encode()
    if opaque and _parts(text) > MAX_PARTS:
        raise CodecError(f"there are more than {MAX_PARTS} values in it")
    return b"".join([struct.pack(">I", len(text)), text, *writer.blobs])


# In: packets to values.


def _parts(document: bytes | bytearray) -> int:
    """How many values a document may have, at most: as many as what they begin or end with."""
    return document.count(b",") + 2 * (document.count(b"[") + document.count(b"{"))


def _nothing_like_it(token: str) -> Any:
    raise CodecError(f"{token} is not JSON")


def _small_int(digits: str) -> int:
    """What is longer takes the square of its length, and not every Python forbids that."""
    if len(digits) > MAX_DIGITS_OF_INT:
        raise CodecError("a number with too many digits")
    return int(digits)


class _Reader:
    def __init__(self, data: bytes | bytearray, abilities: Abilities, inside: bool, deadline: float) -> None:
        self.abilities, self.inside, self.deadline = abilities, inside, deadline
        (length,) = struct.unpack_from(">I", data)
        end = 4 + length
        if end > len(data):
            raise CodecError("the packet is cut")
        text = data[4:end]
        if not inside and _parts(text) > MAX_PARTS:
            raise CodecError("too many parts")
        document = json.loads(text, parse_constant=_nothing_like_it, parse_int=_small_int)
        self.value = document["v"]
        self.blobs: list[memoryview] = []
        view = memoryview(data)
        for size in document["b"]:
            if type(size) is not int or size < 0 or end + size > len(data):
                raise CodecError("a blob is cut")
            self.blobs.append(view[end : end + size])
            end += size
        if end != len(data):
            raise CodecError("there is more than the packet")
        self.depth = self.columns = 0

    def column(self) -> None:
        self.columns += 1
        if not self.inside and self.columns > MAX_COLUMNS:
            raise CodecError("too many columns")

    def blob(self, x: dict[str, Any]) -> memoryview:
        n = x["b"]
        if type(n) is not int or not 0 <= n < len(self.blobs):
            raise CodecError("no such blob")
        # Each is read once: many references to a large one would make much of little.
        blob, self.blobs[n] = self.blobs[n], memoryview(b"")
        return blob

    def read(self, x: Any) -> Any:
        if not isinstance(x, (list, dict)):
            return x
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:
            raise CodecError("nested too deep")
        if _now() > self.deadline:
            raise CodecTimeout("it takes too long to read")
        try:
            if isinstance(x, list):
                return [self.read(v) for v in x]
            if "$" not in x:
                return {k: self.read(v) for k, v in x.items()}
            return _KINDS[x["$"]](self, x)
        finally:
            self.depth -= 1

    def many(self, x: Any) -> list[Any]:
        if not isinstance(x, list):
            raise CodecError("not a list")
        return [self.read(v) for v in x]

    def keys(self, items: list[Any]) -> list[Any]:
        """Items that a set or a dictionary can be made of without taking the square of their number."""
        if len(items) > MAX_SAME_HASH and Counter(map(hash, items)).most_common(1)[0][1] > MAX_SAME_HASH:
            raise CodecError("too many keys with one hash")
        return items


def _text(x: Any, limit: int = 100) -> str:
    if not isinstance(x, str) or len(x) > limit:
        raise CodecError("not a short text")
    return x


def _read_dict(r: _Reader, x: Any) -> Any:
    pairs = r.many(x["v"])
    r.keys([k for k, _ in pairs])
    return dict(pairs)


def _shape(x: Any) -> list[int]:
    """A shape. Where one dimension is 0, no bytes stand for the others."""
    if not isinstance(x, list) or len(x) > 64 or not all(type(n) is int and n >= 0 for n in x) or (0 in x and max(x) > MAX_EMPTY):
        raise CodecError("not an array")
    return x


def _read_numpy(r: _Reader, x: Any) -> Any:
    np = _library("numpy")

    shape = _shape(x["shape"])
    if not _DTYPE.fullmatch(_text(x["dtype"])):
        raise CodecError("not an array")
    dtype: Any = np.dtype(x["dtype"])
    blob = r.blob(x)
    if math.prod(shape) == 0:
        if not 0 <= dtype.itemsize <= MAX_WIDTH:  # less than 0 in NumPy 1, where it is too large
            raise CodecError("not an array")
        array = np.zeros(shape, dtype)
    elif dtype.itemsize * math.prod(shape) != len(blob) or not len(blob):
        raise CodecError("not an array")
    else:
        array = np.frombuffer(blob, dtype).reshape(shape).copy()
    return array if x["$"] == "array" else array[()]


def _read_objects(r: _Reader, x: Any) -> Any:
    np = _library("numpy")

    values = r.many(x["v"])
    array = np.empty(len(values), object)
    for i, v in enumerate(values):
        array[i] = v
    return array.reshape(_shape(x["shape"]))


def _read_column(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    r.column()
    if "codes" in x:
        return pd.Categorical.from_codes(_read_codes(r, x["codes"]), _read_level(r, x["categories"]), ordered=x["ordered"] is True)
    values = _read_text(r, x) if "text" in x else _column_values(r, x["values"])
    if "dtype" not in x:
        return values
    dtype = x["dtype"]
    if not _pandas_type(dtype) or values.dtype != object or not _plain(values, "str" in dtype):
        raise CodecError("not a column of pandas'")
    return pd.array(values, dtype=dtype)


def _column_values(r: _Reader, x: Any) -> Any:
    """One dimension of numbers, times or objects: pandas makes objects of NumPy's texts, which take far more than their bytes."""
    values = r.read(x)
    if not isinstance(values, _library("numpy").ndarray) or values.ndim != 1 or values.dtype.kind not in "biufcmMO":
        raise CodecError("not a column")
    return values


def _read_codes(r: _Reader, x: Any) -> Any:
    codes = _column_values(r, x)
    if codes.dtype.kind != "i":
        raise CodecError("not codes")
    return codes


def _plain(values: Any, text: bool) -> bool:
    """Whether these are single values, and no text to be read as something else: as times, which takes long."""
    np, pd = _library("numpy"), _library("pandas")
    single = (type(None), int, float, complex, bytes, decimal.Decimal, dt.date, dt.time, dt.timedelta, np.generic, pd.Period, type(pd.NA))
    return all(text if isinstance(v, str) else isinstance(v, single) or v is pd.NaT for v in values)


def _read_level(r: _Reader, x: Any) -> Any:
    """Categories, and levels of an index: no ranges, which have no bytes."""
    if not isinstance(x, dict) or "column" not in x:
        raise CodecError("not an index")
    index = _read_index(r, x)
    if not r.inside:
        _check_level(index)
    return index


def _read_index(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    r.column()
    if "range" in x:
        start, stop, step = _whole(x["range"])
        return pd.RangeIndex(start, stop, step, name=r.read(x["name"]))
    if "levels" in x:
        levels, codes = [_read_level(r, level) for level in x["levels"]], [_read_codes(r, c) for c in x["codes"]]
        return pd.MultiIndex(levels, codes, names=r.many(x["names"]))
    column = _read_column(r, x["column"])
    return pd.Index(column, dtype=_kept(column), name=r.read(x["name"]))


def _kept(column: Any) -> Any:
    """The type of a column of objects, which would be guessed from them otherwise."""
    return object if column.dtype == object else None


def _read_frame(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    index = _read_index(r, x["index"])
    if "block" in x:
        block = r.read(x["block"])
        if not isinstance(block, _library("numpy").ndarray) or block.ndim != 2 or block.dtype.kind not in "biufcmM":
            raise CodecError("not a frame")
        return pd.DataFrame(block, index=index, columns=_read_index(r, x["columns"]))
    columns = [_read_column(r, c) for c in x["v"]]
    if any(len(c) != len(index) for c in columns):
        raise CodecError("columns of different lengths")
    if not columns and len(index) > MAX_EMPTY:
        raise CodecError("an index of nothing")
    frame = pd.DataFrame({i: pd.Series(c, index=index, dtype=_kept(c)) for i, c in enumerate(columns)}, index=index)
    frame.columns = _read_index(r, x["columns"])
    return frame


def _read_series(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    index = _read_index(r, x["index"])
    column = _read_column(r, x["v"])
    if len(column) != len(index):
        raise CodecError("columns of different lengths")
    return pd.Series(column, index=index, dtype=_kept(column), name=r.read(x["name"]))


def _read_timestamp(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    if not _STAMP.fullmatch(_text(x["v"])):
        raise CodecError("not a time")
    stamp = pd.Timestamp(x["v"]).as_unit(_text(x["unit"]))
    if x["tz"] is None:
        return stamp
    if not _is_zone(x["tz"]):
        raise CodecError("not a time zone")
    return (stamp.tz_localize("UTC") - pd.Timedelta(seconds=_number(x["utc"]))).tz_convert(x["tz"])


def _read_timedelta64(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    return pd.Timedelta(_text(x["v"])).as_unit(_text(x["unit"]))


def _read_period(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    if type(x["v"]) is not int or not _FREQUENCY.fullmatch(_text(x["freq"])):
        raise CodecError("not a period")
    return pd.Period(ordinal=x["v"], freq=x["freq"])


def _read_missing(r: _Reader, x: Any) -> Any:
    pd = _library("pandas")

    return pd.NaT if x["v"] == "NaT" else pd.NA


def _arrow_text(values: Any, missing: bool) -> Any:
    """Texts as an Arrow stream of one column in one part; None if there is anything else among them.

    missing: whether the column's type says what is there where nothing is.
    """
    pa = _library("pyarrow")

    try:
        array = pa.array(values, from_pandas=missing)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    if not isinstance(array, pa.StringArray) or len(array) > _most_texts(array.nbytes):
        return None
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["text"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return memoryview(sink.getvalue())


def _most_texts(size: int) -> int:
    """How many texts Arrow may carry in so many bytes: each takes sixty and more in Python."""
    return max(MAX_PARTS, size // 8)


def _compressed(metadata: bytes) -> bool:
    """Whether a message of an Arrow stream says that its body is compressed: by the flatbuffer's fields."""

    def field(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        if vtable < 0 or 4 + 2 * number >= struct.unpack_from("<H", metadata, vtable)[0]:
            return 0
        offset: int = struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)[0]
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + int(struct.unpack_from("<I", metadata, at)[0])

    message = follow(0)
    kind, header = field(message, 1), field(message, 2)
    if not kind or not header or metadata[kind] not in (1, 2, 3):  # Schema, DictionaryBatch, RecordBatch
        return True
    batch = follow(header)
    if metadata[kind] == 1:
        return False
    if metadata[kind] == 2:
        data = field(batch, 1)
        if not data:
            return True
        batch = follow(data)
    return bool(field(batch, 3))


def _read_text(r: _Reader, x: Any) -> Any:
    """Text and nothing else of what Arrow has: one column in one part, neither compressed nor of a type of somebody's own."""
    pa = _library("pyarrow")

    if not has_arrow():
        raise CodecError("pyarrow 14.0.1 or later is needed to read this")
    blob = r.blob({"b": x["text"]})
    parts = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(blob)):
        head, parts = message.metadata.to_pybytes(), parts + 1
        if len(head) > MAX_HEAD or b"ARROW:extension" in head or _compressed(head) or message.type != ("schema", "record batch")[parts > 1]:
            raise CodecError("compressed Arrow data, or more than a column of text")
        if parts > 2:
            raise CodecError("more than one part of Arrow data")
    with pa.ipc.open_stream(pa.py_buffer(blob)) as stream:
        if len(stream.schema) != 1 or stream.schema.types != [pa.string()]:
            raise CodecError("Arrow data that is not text")
        batch = stream.read_next_batch()
    if batch.num_rows > _most_texts(len(blob)):
        raise CodecError("Arrow data that makes much of little")
    batch.validate(full=True)
    return batch.column(0).to_numpy(zero_copy_only=False)


def _read_png(r: _Reader, x: Any) -> Any:
    data = bytes(r.blob(x))
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        raise CodecError("not a PNG")
    if not r.inside:
        return Picture(data)
    image = _library("PIL.Image").open(io.BytesIO(data), formats=["PNG"])
    image.load()
    return image


def _read_pickle(r: _Reader, x: Any) -> Any:
    if not r.abilities.pickle:
        raise CodecError("a pickle, which nobody asked for")
    import pickle

    return pickle.loads(r.blob(x))  # noqa: S301 - asked for by name


def _whole(x: Any) -> list[int]:
    if not isinstance(x, list) or not all(type(n) is int for n in x):
        raise CodecError("not whole numbers")
    return x


def _words(r: _Reader, x: Any) -> str:
    words = r.read(x)
    if not isinstance(words, str):
        raise CodecError("not a text")
    return words[:MAX_REPR]


def _read_int(r: _Reader, x: Any) -> int:
    return int(_text(x["v"], 2**26), 16)


def _read_complex(r: _Reader, x: Any) -> complex:
    real, imag = r.many(x["v"])
    return complex(_number(real), _number(imag))


def _number(x: Any) -> float:
    if type(x) not in (int, float):
        raise CodecError("not a number")
    return float(x)


def _read_fraction(r: _Reader, x: Any) -> fractions.Fraction:
    numerator, denominator = x["v"]
    return fractions.Fraction(int(_text(numerator, 10_000), 16), int(_text(denominator, 10_000), 16))


_KINDS: dict[str, Callable[[_Reader, Any], Any]] = {
    "int": _read_int,
    "float": lambda r, x: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[x["v"]],
    "str": lambda r, x: str(r.blob(x), "utf-8", "surrogatepass"),
    "bytes": lambda r, x: bytes(r.blob(x)),
    "bytearray": lambda r, x: bytearray(r.blob(x)),
    "complex": _read_complex,
    "range": lambda r, x: range(*r.many(x["v"])),
    "dict": _read_dict,
    "tuple": lambda r, x: tuple(r.many(x["v"])),
    "set": lambda r, x: set(r.keys(r.many(x["v"]))),
    "frozenset": lambda r, x: frozenset(r.keys(r.many(x["v"]))),
    "datetime": lambda r, x: dt.datetime.fromisoformat(_text(x["v"])).replace(fold=x["fold"]),
    "date": lambda r, x: dt.date.fromisoformat(_text(x["v"])),
    "time": lambda r, x: dt.time.fromisoformat(_text(x["v"])).replace(fold=x["fold"]),
    "timedelta": lambda r, x: dt.timedelta(*_whole(x["v"])),
    "decimal": lambda r, x: decimal.Decimal(_text(x["v"], MAX_DIGITS)),
    "fraction": _read_fraction,
    "uuid": lambda r, x: uuid.UUID(hex=_text(x["v"])),
    "opaque": lambda r, x: Opaque(_words(r, x["type"]), _words(r, x["repr"])),
    "array": _read_numpy,
    "scalar": _read_numpy,
    "objects": _read_objects,
    "frame": _read_frame,
    "series": _read_series,
    "index": lambda r, x: _read_index(r, x["v"]),
    "extension": lambda r, x: _read_column(r, x["v"]),
    "timestamp": _read_timestamp,
    "timedelta64": _read_timedelta64,
    "period": _read_period,
    "missing": _read_missing,
    "png": _read_png,
    "pickle": _read_pickle,
}


def loads(data: bytes | bytearray, abilities: Abilities = Abilities(), *, inside: bool = False, deadline: float = math.inf) -> Any:
    """The value of a packet. Inside a sandbox a picture is opened by Pillow, and there may be as much as there is memory.

    deadline: of time.monotonic(), after which no further part is read.
    """
    try:
        reader = _Reader(data, abilities, inside, deadline)
        return reader.read(reader.value)
    except CodecError:
        raise
    except (Exception, RecursionError) as e:
        raise CodecError(f"not a packet: {type(e).__name__}: {str(e)[:200]}") from None
