# Made by scripts/unasync.py of ../_async/process.py: change that.
"""A process in a sandbox, whose frames come as they are written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Callable
from typing import TYPE_CHECKING, Any

from .. import _wire
from .._result import Result
from .._wire import Frame
from ..errors import ConfineError, Conflict, ConnectionLost, NotFound, SandboxEnded, ServerDied, ServerError
from ._http import Call

if TYPE_CHECKING:
    from .sandbox import Sandbox

# A cut stream is taken up again so many times in a row without anything new.
_RESUMES = 3
_PIECE = 1 << 16


class Process:
    """A process that was started by Sandbox.start.

    Iterating over it gives its frames, up to "exit". One reader at a time: what wait() reads, no other sees, but all that the process
    wrote is in the Result (8 MiB of each stream). A process whose output nobody reads waits, as with a pipe.
    """

    def __init__(self, sandbox: Sandbox, call: Call, tty: bool):
        self.sandbox = sandbox
        #: Its number in the sandbox.
        self.number = 0
        self.tty = tty
        self._call: Call | None = call
        self._seq = 0
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._truncated = False
        self._result: Result | None = None

    @property
    def result(self) -> Result | None:
        """What came of it, once its last frame was read."""
        return self._result

    def __repr__(self) -> str:
        state = self._result.status if self._result else "running"
        return f"<{type(self).__name__} {self.number} of {self.sandbox.id}: {state}>"

    # Frames.

    def _started(self) -> None:
        """The first frame, or the problem."""
        assert self._call is not None  # noqa: S101
        self._call.check()
        while not self.number:
            if self._next() is None:
                raise ConnectionLost("the stream of the process ended before it had begun")

    def _next(self) -> Frame | None:
        """The next frame that says something; None after the last."""
        resumed = 0
        while self._result is None:
            try:
                if self._call is None:
                    self._call = self._resume()
                line = self._call.line()
                if line is None:
                    raise ConnectionLost(f"the output of process {self.number} ended without its last frame")
            except ServerDied:
                self.close()
                raise
            except ConnectionLost:
                self.close()
                resumed += 1
                if resumed > _RESUMES or not self.number:
                    raise
                continue
            except ServerError as e:
                self.close()
                if e.code != "DROPPED":
                    raise
                # Nobody took it for a minute, and the process wrote on: what is left is what there is.
                self._truncated, self._seq = True, 0
                resumed += 1
                if resumed > _RESUMES:
                    raise
                continue
            frame = self._take(line)
            if frame is not None:
                if self._result is not None:
                    self._drain()
                return frame
        return None

    def _take(self, line: bytes) -> Frame | None:
        frame = _wire.frame(line)
        if frame.type in ("keepalive", ""):
            return None
        if frame.type == "usage":
            return frame
        if frame.seq <= self._seq:
            return None
        self._seq = frame.seq
        if frame.type == "started":
            self.number = int(frame.fields.get("process", 0))
        elif frame.type == "stdout":
            self._keep(self._stdout, frame.data)
        elif frame.type == "stderr":
            self._keep(self._stderr, frame.data)
        elif frame.type == "exit":
            report = frame.fields.get("report")
            self._result = Result(
                report if isinstance(report, dict) else {},
                bytes(self._stdout),
                bytes(self._stderr),
                self._truncated or _wire.cut(report),
                self.number,
                self.sandbox.id,
            )
        return frame

    def _keep(self, kept: bytearray, data: bytes) -> None:
        room = _wire.MAX_OUTPUT - len(kept)
        kept += data[:room]
        self._truncated |= len(data) > room

    def _drain(self) -> None:
        """After the last frame comes the end of the answer, which makes the connection good for the next."""
        try:
            while self._call is not None and self._call.line() is not None:
                pass
        except ConfineError:
            pass
        finally:
            self.close()

    def _resume(self) -> Call:
        query = {"from": self._seq, "follow": 1}
        return self.sandbox._checked(self.sandbox._send("GET", f"processes/{self.number}/output", query=query, stream=True))

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        frame = self._next()
        if frame is None:
            raise StopIteration
        return frame

    @property
    def stdout(self) -> Iterator[bytes]:
        """What it writes to standard output, as it comes. What it writes to standard error is in the Result."""
        return self._only("stdout")

    @property
    def stderr(self) -> Iterator[bytes]:
        """What it writes to standard error, as it comes. What it writes to standard output is in the Result."""
        return self._only("stderr")

    def _only(self, kind: str) -> Iterator[bytes]:
        for frame in self:
            if frame.type == kind:
                yield frame.data

    def wait(self, on_stdout: Callable[[bytes], object] | None = None, on_stderr: Callable[[bytes], object] | None = None) -> Result:
        """Read to its end. Whoever is interrupted here may wait again: the process goes on."""
        while True:
            frame = self._next()
            if frame is None:
                break
            if frame.type == "stdout" and on_stdout is not None:
                on_stdout(frame.data)
            elif frame.type == "stderr" and on_stderr is not None:
                on_stderr(frame.data)
        assert self._result is not None  # noqa: S101
        return self._result

    # What it is told.

    def _post(self, what: str, **words: Any) -> dict[str, Any]:
        try:
            return self.sandbox._ask("POST", f"processes/{self.number}/{what}", **words)
        except SandboxEnded as e:
            if e.cause:
                raise
            raise Conflict(f"process {self.number} has ended", code=e.code, status=e.status) from None

    def write(self, data: bytes | str) -> None:
        """Write to its standard input, and wait until it has taken it. It was started with stdin=True, or tty.

        Conflict if it has no input any more, or doesn't read.
        """
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"data is bytes or text, not {type(data).__name__}")
        rest = data.encode() if isinstance(data, str) else bytes(data)
        while rest:
            self._post("stdin", body=rest[:_PIECE], headers={"Content-Type": "application/octet-stream"})
            rest = rest[_PIECE:]

    def close_stdin(self) -> None:
        """Its standard input ends."""
        try:
            self._post("stdin", query={"eof": 1})
        except Conflict as e:
            if e.code not in ("NO_STDIN", "ENDED"):
                raise

    def signal(self, signal: str | int) -> None:
        """Send a signal, such as "TERM", "SIGTERM" or 15, to it and its process group. Conflict if it has ended."""
        if isinstance(signal, bool) or not isinstance(signal, (str, int)):
            raise TypeError(f"a signal is its name or its number, not {type(signal).__name__}")
        self._post("signal", doc={"signal": str(int(signal)) if isinstance(signal, int) else signal.removeprefix("SIG")})

    def kill(self) -> None:
        """End it, if it runs. Never an error because it doesn't."""
        with contextlib.suppress(Conflict, NotFound, SandboxEnded, ServerDied):
            self.signal("KILL")

    def resize(self, rows: int, cols: int) -> None:
        """Change the size of its terminal."""
        self._post("resize", doc=_wire.size((rows, cols)))

    def close(self) -> None:
        """Stop listening. The process goes on."""
        if self._call is not None:
            self._call.close()
            self._call = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._result is None:
                self.kill()
        finally:
            self.close()
