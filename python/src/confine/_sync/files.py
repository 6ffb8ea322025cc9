# Made by scripts/unasync.py of ../_async/files.py: change that.
"""The files of a sandbox, by their names inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from .. import _wire
from .._wire import Entry, FileEvent
from ..errors import ConnectionLost, NotFound
from ._http import Call, chunks

if TYPE_CHECKING:
    from .sandbox import Sandbox

Path: TypeAlias = "str | PathLike[str]"


class Files:
    """The files of a sandbox. Names are absolute, and resolved inside: links lead nowhere else."""

    def __init__(self, sandbox: Sandbox):
        self._box = sandbox

    @overload
    def read(self, path: Path, format: Literal["bytes"] = "bytes", *, limit: int = ...) -> bytes: ...
    @overload
    def read(self, path: Path, format: Literal["text"], *, limit: int = ...) -> str: ...
    @overload
    def read(self, path: Path, format: Literal["stream"], *, limit: int = ...) -> Iterator[bytes]: ...

    def read(
        self, path: Path, format: Literal["bytes", "text", "stream"] = "bytes", *, limit: int = _wire.MAX_BODY
    ) -> bytes | str | Iterator[bytes]:
        """What is in a file: bytes, text (UTF-8), or a stream of bytes.

        A file of more than limit bytes (256 MiB) raises TooLarge, but for a stream.
        """
        if format not in ("bytes", "text", "stream"):
            raise ValueError(f'format is "bytes", "text" or "stream", not {format!r}')
        where = _wire.file_path(path)
        if format == "stream":
            return self._stream(where, None)
        call = self._box._checked(self._box._send("GET", "files/" + where))
        with call:
            data = call.read(limit, str(path))
        return data.decode() if format == "text" else data

    def _stream(self, where: str, query: dict[str, str] | None) -> Iterator[bytes]:
        return chunks(self._box._checked(self._box._send("GET", "files/" + where, query=query)))

    def write(self, path: Path, data: str | bytes | Iterable[bytes] | Iterable[bytes], *, mode: int | None = None) -> None:
        """Write a file anew, with the directories that it needs. Data is text, bytes, or gives bytes piece by piece."""
        body: bytes | Iterable[bytes] | Iterable[bytes]
        if isinstance(data, str):
            body = data.encode()
        elif isinstance(data, (bytes, bytearray, memoryview)):
            body = bytes(data)
        elif isinstance(data, Iterable) or isinstance(data, Iterable):  # noqa: SIM101 a checker tells them apart so
            body = data
        else:
            raise TypeError(f"data is text, bytes or an iterable of bytes, not {type(data).__name__}")
        query = {"mode": _mode(mode)} if mode is not None else None
        self._box._ask("PUT", "files/" + _wire.file_path(path), query=query, body=body)

    def list(self, path: Path) -> list[Entry]:
        """What is in a directory."""
        doc = self._box._ask("GET", "files/" + _wire.file_path(path), query={"list": ""})
        return [_wire.entry(e) for e in doc.get("entries") or ()]

    def stat(self, path: Path) -> Entry:
        """What is known of a file; of a link, not of what it leads to."""
        return _wire.entry(self._box._ask("GET", "files/" + _wire.file_path(path), query={"stat": ""}))

    def exists(self, path: Path) -> bool:
        """Whether there is something of that name; a link counts, whatever it leads to."""
        try:
            self.stat(path)
        except NotFound as e:
            if e.code == "FILE":
                return False
            raise
        return True

    def remove(self, path: Path, *, recursive: bool = False) -> None:
        """Remove a file or an empty directory; recursive: with what is below it."""
        query = {"recursive": ""} if recursive else None
        self._box._ask("DELETE", "files/" + _wire.file_path(path), query=query)

    def make_dir(self, path: Path, *, mode: int | None = None, exist_ok: bool = False) -> None:
        """Make a directory; exist_ok: with those that it needs, and no error if it is there."""
        where = "files/" + _wire.file_path(path)
        if exist_ok:
            query = {"dir": "", "mode": None if mode is None else _mode(mode)}
            self._box._ask("PUT", where, query=query)
        else:
            doc = {"type": "directory", "mode": None if mode is None else _mode(mode)}
            self._box._ask("POST", where, doc=_wire.without_none(doc))

    def symlink(self, target: str, path: Path) -> None:
        """Make a symbolic link at path that says target, as os.symlink does."""
        doc = {"type": "link", "target": _wire.text(target, "target")}
        self._box._ask("POST", "files/" + _wire.file_path(path), doc=doc)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name; a file that has that is replaced."""
        _wire.file_path(to)
        self._box._ask("PATCH", "files/" + _wire.file_path(path), doc={"path": _wire.text(to, "to")})

    def chmod(self, path: Path, mode: int) -> None:
        """Change the mode of a file or a directory."""
        self._box._ask("PATCH", "files/" + _wire.file_path(path), doc={"mode": _mode(mode)})

    def watch(self, path: Path, *, deep: bool = False) -> Iterator[FileEvent]:
        """What happens in a directory from now on, until it is gone or the sandbox has ended; deep: below it, too."""
        query = {"watch": "", "deep": "" if deep else None}
        call = self._box._send("GET", "files/" + _wire.file_path(path), query=query, stream=True)
        return _events(self._box._checked(call))

    def download(self, path: Path) -> Iterator[bytes]:
        """A tar of a directory: pieces of it. Whoever unpacks it shouldn't trust it: tarfile's filter="data"."""
        return self._stream(_wire.file_path(path), {"tar": ""})

    def upload(self, path: Path, tar: bytes | Iterable[bytes] | Iterable[bytes]) -> None:
        """Unpack a tar below a directory: directories, regular files, symbolic links and modes."""
        if isinstance(tar, str) or not isinstance(tar, (bytes, bytearray, memoryview, Iterable, Iterable)):
            raise TypeError(f"a tar is bytes or an iterable of bytes, not {type(tar).__name__}")
        body = bytes(tar) if isinstance(tar, (bytearray, memoryview)) else tar
        headers = {"Content-Type": "application/x-tar"}
        self._box._ask("PUT", "files/" + _wire.file_path(path), query={"tar": ""}, body=body, headers=headers)


def _events(call: Call) -> Iterator[FileEvent]:
    with call:
        while (line := call.line()) is not None:
            doc = _wire.parse(line)
            op = str(doc.get("op", ""))
            if op == "end":
                return
            if op != "keepalive":
                yield FileEvent(op, str(doc.get("name", "")))
    raise ConnectionLost("the watch ended without its last event")


def _mode(mode: int) -> str:
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(f"a mode is a number such as 0o644, not {type(mode).__name__}")
    if not 0 <= mode <= 0o777:
        raise ValueError(f"a mode is 0o777 at most, not {mode:#o}")
    return f"{mode:04o}"
