"""One sandbox: the program confine, with an interpreter in it that waits for tests.

Messages are lines of JSON: to the interpreter by its standard input, from it by its standard output. What tests write comes by
standard error. confine tells what it denies, and how it ended, by a pipe of its own (docs/EVENTS.md).

All that comes from inside may be hostile: lines and their sum are bounded, each wait has a deadline, nothing waits for the
interpreter to read.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, cast

from ..pytests import with_us

__all__ = ["Broken", "Expired", "Gone", "Sandbox"]

# Of one message, and of all messages between two requests.
_LINE = 8 * 2**20
_SUM = 64 * 2**20
# Of a number. Of longer ones some versions of Python take forever to know the value.
_DIGITS = 20
# Of standard error, its end is kept.
_TAIL = 64 * 2**10
# Of confine's own lines, which it bounds itself.
_EVENTS = 16 * 2**20
_DENIALS = 1024


class Gone(Exception):
    """The sandbox has ended."""


class Expired(Exception):
    """The deadline has passed."""


class Broken(Exception):
    """What came is nothing that a worker of ours sends."""


class Sandbox:
    """A sandbox with a worker in it."""

    def __init__(self, command: Sequence[str], directory: str, on_output: Callable[[bytes], None] | None = None):
        """Start confine; command is a list with the words "{events}" where the descriptor for events goes."""
        told, tell = os.pipe()
        try:
            self._process = subprocess.Popen(
                # A test that listens to nothing would outlive a pytest that is killed.
                with_us([word.replace("{events}", f"fd:{tell}") for word in command]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                pass_fds=(tell,),
                # Keys of the terminal are for pytest, which then ends its sandboxes.
                start_new_session=True,
            )
        except BaseException:
            os.close(told)
            raise
        finally:
            os.close(tell)
        self._stdin = cast(IO[bytes], self._process.stdin)
        self._stdout = cast(IO[bytes], self._process.stdout)
        self._stderr = cast(IO[bytes], self._process.stderr)
        self._on_output = on_output
        self._told = told
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._stdin.fileno(), self._stdout.fileno(), self._stderr.fileno(), told):
            os.set_blocking(descriptor, False)
        self._selector.register(self._stdout, selectors.EVENT_READ, self._from_worker)
        self._selector.register(self._stderr, selectors.EVENT_READ, self._from_stderr)
        self._selector.register(told, selectors.EVENT_READ, self._from_confine)
        self._lines: collections.deque[bytes] = collections.deque()
        self._part = bytearray()
        self._unsent = bytearray()
        self._most = _SUM
        #: Bytes that came since the last request.
        self.taken = 0
        self._event_part = b""
        #: The end of what was written to standard error.
        self.tail = b""
        #: What confine has denied, as violations of docs/REPORT.md, until somebody takes it.
        self.denials: list[dict[str, Any]] = []
        #: confine's report, after the end; empty when it couldn't write one.
        self.report: dict[str, Any] = {}
        self.closed = False

    def send(self, message: dict[str, Any], most: int = _SUM) -> None:
        """Hand message to the worker, which may answer with so many bytes; Gone when nobody is there to take it."""
        self.taken, self._most = 0, min(most, _SUM)
        self._unsent += json.dumps(message).encode() + b"\n"
        self._to_worker()
        if self._stdin.closed:
            raise Gone

    def receive(self, deadline: float | None) -> dict[str, Any]:
        """The next message of the worker, until time.monotonic() is deadline."""
        while not self._lines:
            if self._stdout not in self._registered():
                raise Gone
            self._turn(deadline)
        try:
            message = json.loads(self._lines.popleft().decode(), parse_int=_number)
        except (ValueError, RecursionError) as error:
            raise Broken("no JSON") from error
        if not isinstance(message, dict):
            raise Broken("no object")
        return message

    def drain(self) -> None:
        """Take what is there, and do not wait."""
        for key, _ in self._selector.select(0):
            key.data()

    def end(self, patience: float) -> None:
        """Have confine end the sandbox, and take what it says of it. What needs longer than patience is killed."""
        if self.closed:
            return
        self.closed = True
        if patience and self._stdout in self._registered():
            self._process.send_signal(signal.SIGTERM)
        if self._stdin in self._registered():
            self._selector.unregister(self._stdin)
        self._wait(time.monotonic() + patience)

    def leave(self) -> None:
        """Have the worker end by itself: its standard input ends."""
        self.taken, self._most = 0, _SUM
        self._unsent.clear()
        if self._stdin in self._registered():
            self._selector.unregister(self._stdin)
        with contextlib.suppress(OSError):
            self._stdin.close()

    def _wait(self, deadline: float) -> None:
        try:
            with contextlib.suppress(Expired, Broken):
                while self._registered():
                    self._lines.clear()
                    self.taken = 0
                    self._turn(deadline)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            # Of a confine that is killed no process is left, either.
            self._process.kill()
            self._process.wait()
            self._selector.close()
            os.close(self._told)
            for stream in (self._stdin, self._stdout, self._stderr):
                with contextlib.suppress(OSError):
                    stream.close()

    def _registered(self) -> set[Any]:
        # None: it is closed.
        return {key.fileobj for key in (self._selector.get_map() or {}).values()}

    def _turn(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise Expired
        for key, _ in self._selector.select(left):
            key.data()

    def _read(self, file: Any) -> bytes:
        """What there is; at the end nothing, and the file is watched no longer."""
        try:
            data = os.read(file if isinstance(file, int) else file.fileno(), 2**18)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(file)
        return data

    def _to_worker(self) -> None:
        """Write what its pipe takes now; the rest when it takes more, which is not waited for."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._stdin.fileno(), self._unsent)]
        except BlockingIOError:
            if self._stdin not in self._registered():
                self._selector.register(self._stdin, selectors.EVENT_WRITE, self._to_worker)
            return
        except (OSError, ValueError):  # nobody reads it any more
            self.leave()
        if self._stdin in self._registered():
            self._selector.unregister(self._stdin)

    def _from_worker(self) -> None:
        data = self._read(self._stdout)
        self.taken += len(data)
        if self.taken > self._most or len(self._part) + len(data) > _LINE:
            raise Broken("more than a test has to say")
        *lines, rest = data.split(b"\n")
        if lines:
            self._lines += [bytes(self._part) + lines[0], *lines[1:]]
            self._part.clear()
        self._part += rest

    def _from_stderr(self) -> None:
        data = self._read(self._stderr)
        self.tail = (self.tail + data)[-_TAIL:]
        if self._on_output and data:
            self._on_output(data)

    def _from_confine(self) -> None:
        data = self._read(self._told)
        if len(self._event_part) + len(data) > _EVENTS:
            raise Broken("events of confine that never end")
        *lines, self._event_part = (self._event_part + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["event"] == "denied" and len(self.denials) < _DENIALS:
                self.denials.append(event["denied"])
            elif event["event"] == "ended":
                self.report = event["report"]


def _number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number that is too long")
    return int(digits)
