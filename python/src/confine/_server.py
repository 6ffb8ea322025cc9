"""The private server: "confine serve" of this interpreter alone, started when it is first needed.

It ends with the interpreter, however that ends: it reads a pipe whose other end the interpreter holds, and nobody else. Programs
that are started don't inherit that end, and a fork closes it: a child has a server of its own, when it needs one.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import IO

from . import _forks
from ._binary import find_binary
from ._transport import Stream
from .errors import ConfineError, ConnectionLost, ServerDied

__all__ = ["address", "alive", "async_address", "died"]

_PREFIX = "confine-py-"
# A start takes milliseconds; a host that thrashes gets time.
_START = 30.0
_END = 10.0
# Between the end of its connections and that of its process.
_DYING = 0.2
# The longest name of a unix socket that every system takes.
_LONGEST = 100
# Directories of interpreters that were killed go when nothing happened in them for so long.
_OLD = 60.0
_MANY = 10_000


class _Server:
    """A server and its directory."""

    def __init__(self) -> None:
        if os.name == "nt":  # a checker for Windows reads on
            raise ConfineError("there is no private server on Windows: start one, and name it by base_url or $CONFINE_URL")
        binary = find_binary()
        self.directory = _directory()
        self.address = os.path.join(self.directory, "s")
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        read, self.hold = os.pipe()
        try:
            # A session of its own: what a terminal sends to the interpreter's group isn't meant for it.
            self.process = subprocess.Popen(
                [binary, "serve", "--until-eof", "--listen", "unix:" + self.address],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                start_new_session=True,
            )
        except OSError as e:
            self._clean()
            raise ServerDied(f"{binary}: cannot be started: {e}") from e
        finally:
            os.close(read)
        try:
            self._wait()
        except BaseException:
            self.end()
            raise

    def _wait(self) -> None:
        end, pause = time.monotonic() + _START, 0.0005
        while True:
            try:
                Stream.connect(self.address, 1.0).close()
                return
            except ConnectionLost:
                pass
            if self.process.poll() is not None:
                raise ServerDied(f"the private server ended as it started, with exit code {self.process.returncode}: {self._words()}")
            if time.monotonic() > end:
                raise ServerDied(f"the private server has not started within {_START:g} s: {self._words()}")
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._said.seek(0)
            return self._said.read(4000).decode("utf-8", "replace").strip()
        return ""

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        """Let it go, and wait until it has."""
        self.let_go()
        try:
            self.process.wait(_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._clean(hold=False)

    def let_go(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.hold)

    def _clean(self, hold: bool = True) -> None:
        if hold:
            self.let_go()
        self._said.close()
        with contextlib.suppress(OSError):
            os.unlink(self.address)
        with contextlib.suppress(OSError):
            os.rmdir(self.directory)

    def forget(self) -> None:
        """In a child: it is the parent's."""
        self.let_go()
        self._said.close()
        self.process.returncode = 0  # nobody here may wait for it, nor says that it runs


def _directory() -> str:
    for base in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108
        if not base or not os.path.isabs(base) or len(os.fsencode(base)) + len(_PREFIX) + 12 > _LONGEST:
            continue
        _sweep(base)
        with contextlib.suppress(OSError):
            return tempfile.mkdtemp(prefix=_PREFIX, dir=base)  # 0700
    raise ServerDied("there is no directory for the private server's socket: neither XDG_RUNTIME_DIR nor a temporary one can be written")


def _sweep(base: str) -> None:
    """Removes what this user's interpreters that were killed have left: an empty directory or, when the server was killed too, a socket.

    A start doesn't take as long as these are old, and a server that lives listens.
    """
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in itertools.islice(entries, _MANY):
            with contextlib.suppress(OSError):
                if not entry.name.startswith(_PREFIX):
                    continue
                info, path = entry.stat(follow_symlinks=False), os.path.join(entry.path, "s")
                if info.st_uid == os.geteuid() and info.st_mtime < time.time() - _OLD:
                    if _nobody_listens(path):
                        os.unlink(path)
                    os.rmdir(entry.path)


def _nobody_listens(path: str) -> bool:
    if sys.platform == "win32":
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


_server: _Server | None = None
# Threads that go on while the interpreter ends start no other.
_ended = False


def address() -> str:
    """The socket of this interpreter's server, which is started if it isn't there."""
    global _server
    server = _server
    if server is not None and server.alive():
        return server.address
    with _forks.lock:
        if _ended:
            raise ServerDied("the private server has ended: the interpreter is about to")
        if _server is not None and not _server.alive():
            _server.end()
            _server = None
        if _server is None:
            _server = _Server()
            processes = sys.modules.get("multiprocessing.util")
            if processes is not None:  # its children end without atexit
                processes.Finalize(None, _end, exitpriority=0)
        return _server.address


async def async_address() -> str:
    """The same for a coroutine, whose loop goes on meanwhile."""
    server = _server
    if server is not None and server.alive():
        return server.address
    return await asyncio.to_thread(address)


def died(which: str) -> bool:
    """Whether the server with that socket is no more. One that is about to end is waited for."""
    server = _server
    if server is None or server.address != which:
        return True
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(_DYING)
    return not server.alive()


def alive(which: str) -> bool:
    """Whether the server with that socket is this interpreter's, and runs."""
    server = _server
    return server is not None and server.address == which and server.alive()


def _end() -> None:
    global _server, _ended
    with _forks.lock:
        _ended = True
        if _server is not None:
            _server.end()
            _server = None


def _forget() -> None:
    global _server
    if _server is not None:
        _server.forget()
        _server = None


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
