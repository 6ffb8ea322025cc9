"""Connections to a server: Stream, and AsyncStream with the same methods to await.

The only module that is written twice by hand. Both are thin: a socket, and a time that a read or a write may take. An
AsyncStream belongs to no event loop between two calls, so that it outlives the loop that it was made in, and can be closed
when there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sys
import time
from typing import Any, TypeAlias

from .errors import ConnectionLost, RequestTimeout

__all__ = ["Address", "AsyncStream", "Stream", "parse"]

#: The path of a unix socket, or host and port.
Address: TypeAlias = "str | tuple[str, int]"

_CHUNK = 1 << 16
# What a listener whose queue is full makes us wait for.
_RETRY = 0.005


def parse(url: str) -> Address:
    """What unix:/PATH and http://HOST:PORT lead to; ValueError for anything else."""
    if not isinstance(url, str):
        raise TypeError(f"base_url is text such as unix:/PATH or http://HOST:PORT, not {type(url).__name__}")
    kind, _, rest = url.partition(":")
    if kind == "unix" and rest.startswith("/"):
        return rest
    if kind == "http" and rest.startswith("//"):
        host, colon, port = rest[2:].rstrip("/").rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and colon and port.isdecimal() and 0 < int(port) < 65536 and "/" not in host and "@" not in host:
            return host, int(port)
    raise ValueError(f"base_url: {url!r} is neither unix:/PATH nor http://HOST:PORT")


def _new(address: Address) -> socket.socket:
    try:
        return _socket(address)
    except OSError as e:  # too many files are open
        raise ConnectionLost(f"there is no connection to be had: {e}") from e


def _socket(address: Address) -> socket.socket:
    if isinstance(address, str):
        if not hasattr(socket, "AF_UNIX"):
            raise ConnectionLost("this Python has no unix sockets: name a server by http://HOST:PORT")
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Literal addresses need no resolver, which would block.
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _lost(error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the connection to the server is lost: {error}")


def _unreached(address: Address, error: OSError) -> ConnectionLost:
    where = f"unix:{address}" if isinstance(address, str) else f"http://{address[0]}:{address[1]}"
    return ConnectionLost(f"no server answers at {where}: {error}")


class _Base:
    """A socket, and whether anybody may go on using it."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._pid = os.getpid()

    def stale(self) -> bool:
        """Whether it was closed by the other side, or has bytes that nobody waits for."""
        try:
            if sys.platform != "win32":
                poll = select.poll()
                poll.register(self._sock, select.POLLIN)
                return bool(poll.poll(0))
            return bool(select.select([self._sock], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """Close it. The server sees that, also if a child has a copy; a child that closes its copy ends nothing."""
        with contextlib.suppress(OSError):
            if self._pid == os.getpid():
                self._sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._sock.close()


class Stream(_Base):
    """A connection whose calls block."""

    @classmethod
    def connect(cls, address: Address, timeout: float | None) -> Stream:
        """A connection to the address; ConnectionLost if nobody listens there, RequestTimeout if it takes longer."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            found = [address] if _literal(address) else _each(socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM))
        except OSError as e:
            raise _unreached(address, e) from e
        for each in found[:-1]:
            with contextlib.suppress(ConnectionLost):
                return cls._connect(each, timeout, end)
        return cls._connect(found[-1], timeout, end)

    @classmethod
    def _connect(cls, address: Address, timeout: float | None, end: float | None) -> Stream:
        sock = _new(address)
        try:
            sock.settimeout(timeout)
            while True:
                try:
                    sock.connect(address)
                    return cls(sock)
                except BlockingIOError:
                    if end is not None and time.monotonic() > end:
                        raise TimeoutError from None
                    time.sleep(_RETRY)
        except TimeoutError:
            sock.close()
            raise RequestTimeout("the server does not take the connection") from None
        except OSError as e:
            sock.close()
            raise _unreached(address, e) from e
        except BaseException:
            sock.close()
            raise

    def write(self, data: bytes, timeout: float | None) -> None:
        """Write all of it."""
        try:
            self._sock.settimeout(timeout)
            self._sock.sendall(data)
        except TimeoutError:
            raise RequestTimeout("the server does not read the request") from None
        except OSError as e:
            raise _lost(e) from e

    def read(self, timeout: float | None) -> bytes:
        """Some bytes; none at the end."""
        try:
            self._sock.settimeout(timeout)
            return self._sock.recv(_CHUNK)
        except TimeoutError:
            raise RequestTimeout(f"the server has not answered for {timeout:g} s") from None
        except OSError as e:
            raise _lost(e) from e


class AsyncStream(_Base):
    """A connection whose calls are awaited. A read that is cancelled has taken nothing."""

    @classmethod
    async def connect(cls, address: Address, timeout: float | None) -> AsyncStream:
        """A connection to the address; ConnectionLost if nobody listens there, RequestTimeout if it takes longer."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        try:
            found = [address] if _literal(address) else _each(await loop.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM))
        except OSError as e:
            raise _unreached(address, e) from e
        for each in found[:-1]:
            with contextlib.suppress(ConnectionLost):
                return await cls._connect(each, timeout, end)
        return await cls._connect(found[-1], timeout, end)

    @classmethod
    async def _connect(cls, address: Address, timeout: float | None, end: float | None) -> AsyncStream:
        loop = asyncio.get_running_loop()
        sock = _new(address)
        sock.setblocking(False)
        stream = cls(sock)
        try:
            if isinstance(address, str):
                # Not by the loop: a full queue says EAGAIN, which means neither that it is under way nor an error.
                while True:
                    try:
                        sock.connect(address)
                        return stream
                    except BlockingIOError:
                        if end is not None and loop.time() > end:
                            raise RequestTimeout("the server does not take the connection") from None
                        await asyncio.sleep(_RETRY)
            with _Bound(sock, timeout) as bound:
                await loop.sock_connect(sock, address)
            bound.check("the server does not take the connection")
            return stream
        except OSError as e:
            sock.close()
            if isinstance(e, RequestTimeout):
                raise
            bound_error = RequestTimeout("the server does not take the connection")
            raise (bound_error if end is not None and loop.time() >= end else _unreached(address, e)) from e
        except BaseException:
            sock.close()
            raise

    async def write(self, data: bytes, timeout: float | None) -> None:
        """Write all of it."""
        try:
            sent = self._sock.send(data)  # what is small goes at once
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as e:
            raise _lost(e) from e
        if sent == len(data):
            return
        try:
            with _Bound(self._sock, timeout) as bound:
                await asyncio.get_running_loop().sock_sendall(self._sock, memoryview(data)[sent:])
        except OSError as e:
            bound.check("the server does not read the request")
            raise _lost(e) from e

    async def read(self, timeout: float | None) -> bytes:
        """Some bytes; none at the end."""
        loop = asyncio.get_running_loop()
        try:
            with _Bound(self._sock, timeout) as bound:
                while True:
                    try:
                        data = self._sock.recv(_CHUNK)
                        break
                    except (BlockingIOError, InterruptedError):
                        pass
                    if _PROACTOR and isinstance(loop, _PROACTOR):
                        data = await loop.sock_recv(self._sock, _CHUNK)
                        break
                    await _readable(loop, self._sock)
        except OSError as e:
            raise _lost(e) from e
        if not data:
            bound.check(f"the server has not answered for {timeout} s")
        return data


def _literal(address: Address) -> bool:
    """Whether nobody has to be asked what it means."""
    if isinstance(address, str):
        return True
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, address[0])
    except OSError:
        return False
    return True


def _each(found: list[Any]) -> list[Address]:
    """The addresses of a name, each to be tried."""
    return [(str(address[0]), int(address[1])) for *_, address in found]


_PROACTOR: Any = ()
if sys.platform == "win32":
    _PROACTOR = asyncio.ProactorEventLoop


async def _readable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    fd = sock.fileno()
    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        # A socket that was closed meanwhile has no number to be found by.
        loop.remove_reader(fd)


class _Bound:
    """After its time it shuts the socket down, so that whoever waits for it sees the end: no cancellation that isn't the caller's."""

    def __init__(self, sock: socket.socket, timeout: float | None):
        self._sock = sock
        self._timeout = timeout
        self._timer: asyncio.TimerHandle | None = None
        self.fired = False

    def __enter__(self) -> _Bound:
        if self._timeout is not None:
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._fire)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self.fired = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def check(self, message: str) -> None:
        if self.fired:
            raise RequestTimeout(message)
