"""What goes over a connection: HTTP/1.1 as far as the server speaks it, documents, and problems. Nothing here reads or writes.

Everything is bounded: the head of an answer, a line of a stream, a document.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

from .errors import (
    BuildFailed,
    Conflict,
    ConnectionLost,
    NotFound,
    PolicyError,
    QuotaExceeded,
    SandboxEnded,
    ServerError,
    StorageFull,
    TooLarge,
)

MAX_HEAD = 1 << 16
#: Of a document, and of a file that is read as a whole.
MAX_BODY = 256 << 20
#: Of one frame. A frame of output has far less, a report may have many denials.
MAX_LINE = 16 << 20
#: Of each stream of a process, in its Result.
MAX_OUTPUT = 8 << 20

Policy: TypeAlias = "str | Mapping[str, Any] | None"
Duration: TypeAlias = "float | str | timedelta | None"


class Frame(NamedTuple):
    """Something that a process or a sandbox did (docs/API.md, "Frames")."""

    type: str
    #: Of stdout and stderr.
    data: bytes
    seq: int
    #: The frame as it came.
    fields: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A file, directory or link in a sandbox."""

    name: str
    type: str
    size: int
    mode: int
    modified: str
    #: What a link says, and what that is: "file", "directory", "other", or None where it leads to nothing.
    target: str | None = None
    leads_to: str | None = None


class FileEvent(NamedTuple):
    """What happened to a file: create, write, remove, rename, chmod; or lost, when some events could not be told."""

    op: str
    name: str


@dataclass(frozen=True)
class Snapshot:
    """The files of a sandbox, written down."""

    id: str
    names: tuple[str, ...] = ()
    size: int = 0
    created: str = ""
    fields: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def request(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A request, with its body if that is given as a whole: one write."""
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}\r\n")
    lines.append("\r\n")
    head = "".join(lines).encode("latin-1")
    return head + body if body else head


def chunk(data: bytes) -> bytes:
    """Part of a body whose length isn't known; nothing is its end."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def target(path: str, query: Mapping[str, Any] | None = None) -> str:
    """/v1/PATH?QUERY; None is left out, and a list repeats its key."""
    if not query:
        return "/v1/" + path
    pairs = [(k, v) for k, v in query.items() if v is not None]
    return "/v1/" + path + ("?" + urlencode(pairs, doseq=True, quote_via=quote) if pairs else "")


class Head(NamedTuple):
    """The head of an answer."""

    status: int
    headers: dict[str, str]


def head(data: bytearray) -> Head | None:
    """The head that data begins with, which is taken from it; None if it isn't all there."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD:
            raise ConnectionLost("what answers is no server of confine's: its head has no end")
        return None
    lines = bytes(data[:end]).decode("latin-1").split("\r\n")
    del data[: end + 4]
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise ConnectionLost("what answers is no server of confine's: it does not speak HTTP")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(int(words[1]), headers)


class Body:
    """Takes the body of an answer from what has come."""

    def __init__(self, method: str, answer: Head):
        length = answer.headers.get("content-length")
        self._chunked = answer.headers.get("transfer-encoding", "").lower() == "chunked"
        self._room = 0  # of the chunk, or of the body
        self._last = False
        #: Nothing follows; the connection can be used again.
        self.done = False
        #: The end of the connection is that of the body.
        self.until_eof = False
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            self.done = True
        elif not self._chunked:
            if length is None:
                self.until_eof = True
            elif not length.isdecimal():
                raise ConnectionLost("what answers is no server of confine's: its length is no number")
            else:
                self._room = int(length)
                self.done = self._room == 0

    def take(self, data: bytearray) -> bytes:
        """What is in data of the body, without what says where it ends."""
        if self.done:
            return b""
        if self.until_eof:
            some = bytes(data)
            data.clear()
            return some
        if not self._chunked:
            some = bytes(data[: self._room])
            del data[: len(some)]
            self._room -= len(some)
            self.done = self._room == 0
            return some
        parts: list[bytes] = []
        while not self.done and self._part(data, parts):
            pass
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, data: bytearray, parts: list[bytes]) -> bool:
        if self._room > 2:  # its bytes, and the end of its line
            some = bytes(data[: self._room - 2])
            if not some:
                return False
            parts.append(some)
            del data[: len(some)]
            self._room -= len(some)
        if self._room:
            if self._room > 2 or len(data) < self._room:
                return False
            del data[: self._room]
            self._room = 0
            self.done = self._last
            return True
        end = data.find(b"\r\n", 0, 64)
        if end < 0:
            if len(data) >= 64:
                raise ConnectionLost("the server's answer is cut in an unknown way")
            return False
        try:
            size = int(bytes(data[:end]).split(b";")[0], 16)
        except ValueError:
            raise ConnectionLost("the server's answer is cut in an unknown way") from None
        del data[: end + 2]
        self._last = size == 0
        self._room = size + 2
        return True


def document(value: object) -> bytes:
    """A document as JSON. TypeError and ValueError for what can't be one."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=os.fspath).encode()


def parse(data: bytes) -> dict[str, Any]:
    """A document of the server's."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConnectionLost("the server's answer is no document")
    return value


def frame(line: bytes) -> Frame:
    """A frame of a stream."""
    fields = parse(line)
    return Frame(str(fields.get("type", "")), octets(fields), int(fields.get("seq", 0)), fields)


def octets(fields: Any) -> bytes:
    """Bytes as documents have them: text, or {"b64": …}; also of a frame, whose text is "data"."""
    if isinstance(fields, str):
        return fields.encode("utf-8", "surrogatepass")
    if isinstance(fields, dict):
        if "b64" in fields:
            return base64.b64decode(fields["b64"])
        return octets(fields["data"]) if "data" in fields else b""
    return b""


def cut(report: object) -> bool:
    """Whether a process wrote more than its output limit."""
    streams = report.get("truncated") if isinstance(report, dict) else None
    return isinstance(streams, dict) and any(streams.values())


#: Bytes that a document carries, as base64 or with characters escaped.
OCTETS = 1 << 24


def to_octets(value: str | bytes | bytearray | memoryview, what: str = "stdin") -> str | dict[str, str]:
    """Bytes or text for a document."""
    if not isinstance(value, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"{what} is bytes or text, not {type(value).__name__}")
    if len(value) > OCTETS:
        more = ": start(…, stdin=True) of a sandbox, and write(), take any number" if what == "stdin" else ""
        raise TooLarge(f"{what} has more than {OCTETS} bytes{more}")
    if isinstance(value, str):
        return value
    data = bytes(value)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def argv(words: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The words of a command."""
    if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
        raise TypeError(f'a command is a list of words such as ["echo", "hello"], not {type(words).__name__}')
    out = []
    for word in words:
        text = os.fspath(word) if isinstance(word, os.PathLike) else word
        if not isinstance(text, str):
            raise TypeError(f"a word of a command is text, not {type(text).__name__}")
        out.append(text)
    if not out:
        raise ValueError("a command has a word at least")
    return out


def texts(value: Mapping[str, str] | None, what: str) -> dict[str, str] | None:
    """A mapping of text to text, such as an environment."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is a mapping, not {type(value).__name__}")
    for k, v in value.items():
        if not isinstance(k, str) or not isinstance(v, str):
            raise TypeError(f"{what} has text for names and values: {k!r}: {v!r} is not")
    return dict(value)


def policy(value: Policy) -> dict[str, Any] | None:
    """A policy: a profile's name, or options by their names."""
    if value is None:
        return None
    if isinstance(value, str):
        return {"profile": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"a policy is a mapping of options, or the name of a profile, not {type(value).__name__}")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"an option of a policy has a name, not {name!r}")
    return dict(value)


def duration(value: Duration, what: str) -> float | str | None:
    """A time as documents have it."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f'{what} is a number of seconds, or text such as "90s", not {type(value).__name__}')
    if not 0 < value < float("inf"):
        raise ValueError(f"{what} is a time above 0, not {value!r}")
    return value


def size(value: object) -> dict[str, int] | None:
    """Rows and columns of a terminal."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(type(n) is int for n in value):
        raise TypeError("a terminal has rows and columns: (24, 80)")
    if not all(0 <= n < 1 << 16 for n in value):
        raise ValueError(f"a terminal of {value[0]} rows and {value[1]} columns there is not")
    return {"rows": value[0], "cols": value[1]}


def timeout(value: float | None) -> float | None:
    """How long something of ours may take."""
    if value is None:
        return None
    number = duration(value, "request_timeout")
    if isinstance(number, str):
        raise TypeError("request_timeout is a number of seconds")
    return number


def directory(value: str | os.PathLike[str] | None) -> str | None:
    """A directory of this host, as the server may name it."""
    return None if value is None else os.path.abspath(text(value, "dir"))


def text(value: str | os.PathLike[str], what: str) -> str:
    """A name or a path."""
    out = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(out, str):
        raise TypeError(f"{what} is text, not {type(out).__name__}")
    return out


def segment(value: object, what: str) -> str:
    """A name that becomes a part of a path."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {type(value).__name__}")
    if not value or value in (".", ".."):
        raise ValueError(f"{what} is a name, not {value!r}")
    return quote(value, safe="")


def file_path(value: str | os.PathLike[str]) -> str:
    """An absolute name inside, as a part of a path."""
    name = text(value, "a path")
    if not name.startswith("/"):
        raise ValueError(f"a path in a sandbox is absolute: {name!r} is not")
    if "\0" in name:
        raise ValueError("a path has no NUL")
    parts: list[str] = []
    for part in name.split("/"):
        if part == "..":
            # The server cleans names, too; a link's parent is not that of its name, so that only the inside could tell.
            raise ValueError(f"a path in a sandbox has no ..: {name!r} has")
        if part not in ("", "."):
            parts.append(quote(part, safe="", errors="surrogateescape"))
    return "/".join(parts)


def without_none(doc: dict[str, Any]) -> dict[str, Any]:
    """A document without what wasn't said."""
    return {k: v for k, v in doc.items() if v is not None}


def entry(doc: Mapping[str, Any]) -> Entry:
    """An Entry of its document."""
    return Entry(
        str(doc.get("name", "")),
        str(doc.get("type", "")),
        int(doc.get("size", 0)),
        int(str(doc.get("mode", "0")), 8),
        str(doc.get("modified", "")),
        doc.get("target"),
        doc.get("leads_to"),
    )


def snapshot(doc: Mapping[str, Any]) -> Snapshot:
    """A Snapshot of its document."""
    names = tuple(str(name) for name in doc.get("names") or ())
    return Snapshot(str(doc.get("id", "")), names, int(doc.get("size", 0)), str(doc.get("created", "")), dict(doc))


_KINDS: dict[str, type[ServerError]] = {
    "POLICY": PolicyError,
    "CEILING": PolicyError,
    "NOT_FOUND": NotFound,
    "CONFLICT": Conflict,
    "CHANGED": Conflict,
    "BUSY": Conflict,
    "STDIN_FULL": Conflict,
    "NO_STDIN": Conflict,
    "QUOTA": QuotaExceeded,
    "OVERLOADED": QuotaExceeded,
    "BUILD_FAILED": BuildFailed,
    "ENDED": SandboxEnded,
}

# Of answers of a file system, whose code is FILE.
_STATUSES: dict[int, type[ServerError]] = {404: NotFound, 409: Conflict, 507: StorageFull}


def problem(status: int, data: bytes) -> ServerError:
    """The error that an answer is."""
    try:
        doc = parse(data)
    except ConnectionLost:
        doc = {}
    code = str(doc.get("code", ""))
    message = str(doc.get("detail") or doc.get("title") or f"the server answers {status}")
    kind = _KINDS.get(code) or _STATUSES.get(status, ServerError)
    return kind(message, code=code, status=status, hint=str(doc.get("hint", "")), problem=doc)


def too_large(what: str, most: int) -> TooLarge:
    """What came is more than is taken."""
    return TooLarge(f"{what} has more than {most} bytes")


def now() -> float:
    """A clock that only goes forward."""
    return time.monotonic()
