"""Requests and answers over connections that are kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any

from .. import _server, _wire
from .._transport import Address, AsyncStream
from ..errors import ConnectionLost, RequestTimeout, ServerDied

# The server closes what was idle for two minutes; so many are kept, for no longer than this.
_IDLE = 30.0
_KEPT = 64
# How long an answer is waited for by whoever was interrupted, so that nothing is left running.
GRACE = 5.0
# A stream that says nothing for so long has a server that doesn't run.
_ALIVE = 45.0


class AsyncPool:
    """The connections to one server. Any number of tasks and threads may ask."""

    def __init__(self, address: Address | None, token: str | None, timeout: float | None):
        self._named = address
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self.timeout = timeout
        # list.append and list.pop are one step each: no lock.
        self._idle: list[tuple[AsyncStream, Address, float]] = []
        self._pid = os.getpid()
        self.closed = False

    @property
    def private(self) -> bool:
        """Whether the server is this interpreter's own."""
        return self._named is None

    async def address(self) -> Address:
        """Where the server is; a private one is started."""
        return self._named if self._named is not None else await _server.async_address()

    async def take(self, address: Address) -> AsyncStream:
        """A connection that nobody uses."""
        if self._pid != os.getpid():
            # They are the parent's, who goes on with them.
            self._idle, self._pid = [], os.getpid()
        now = _wire.now()
        while self._idle:
            try:
                stream, where, since = self._idle.pop()
            except IndexError:
                break
            if where == address and now - since < _IDLE and not stream.stale():
                return stream
            stream.close()
        return await AsyncStream.connect(address, self.timeout)

    def give(self, stream: AsyncStream, address: Address) -> None:
        """Take back a connection whose answer was read to its end."""
        if self.closed or len(self._idle) >= _KEPT or self._pid != os.getpid():
            stream.close()
        else:
            self._idle.append((stream, address, _wire.now()))

    def close(self) -> None:
        """Close what nobody uses; what is in use is closed when it is given back."""
        self.closed = True
        while self._idle:
            try:
                self._idle.pop()[0].close()
            except IndexError:
                break

    async def send(
        self,
        method: str,
        target: str,
        *,
        doc: object = None,
        body: bytes | Iterable[bytes] | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        at: Address | None = None,
    ) -> AsyncCall:
        """Send a request. The call has to be closed."""
        if self.closed:
            raise ValueError("the client is closed")
        sent = dict(self._headers)
        if headers:
            sent.update(headers)
        if doc is not None:
            body = _wire.document(doc)
            sent["Content-Type"] = "application/json"
        whole = body if isinstance(body, bytes) else None
        parts = None if isinstance(body, bytes) else body
        if parts is not None:
            sent["Transfer-Encoding"] = "chunked"
        elif body is None and method in ("POST", "PUT", "PATCH"):
            whole = b""
        address = at if at is not None else await self.address()
        host = "confine" if isinstance(address, str) else _host(*address)
        data = _wire.request(method, target, host, sent, whole)
        call = AsyncCall(self, method, address)
        try:
            call.stream = await self.take(address)
            try:
                await call.stream.write(data, self.timeout)
                if parts is not None:
                    await _send_parts(call.stream, parts, self.timeout)
            except RequestTimeout:
                raise
            except ConnectionLost:
                # A server that refuses a body answers before it has read all of it.
                await call.head()
        except ConnectionLost as e:
            call.close()
            raise self.explain(e, address) from e
        except BaseException:
            call.close()
            raise
        return call

    def explain(self, error: ConnectionLost, address: Address) -> ConnectionLost:
        """The error, or ServerDied where that is why."""
        if self.private and isinstance(address, str) and not isinstance(error, ServerDied) and _server.died(address):
            return ServerDied("the private server is no more, and neither are its sandboxes")
        return error


async def _send_parts(stream: AsyncStream, body: Iterable[bytes] | AsyncIterable[bytes], timeout: float | None) -> None:
    if isinstance(body, AsyncIterable):
        async for part in body:
            if part:
                await stream.write(_wire.chunk(part), timeout)
    else:
        for part in body:
            if part:
                await stream.write(_wire.chunk(part), timeout)
    await stream.write(_wire.chunk(b""), timeout)


def _host(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class AsyncCall:
    """A request that was sent, and its answer. Whoever is interrupted while it waits may go on waiting."""

    stream: AsyncStream

    def __init__(self, pool: AsyncPool, method: str, address: Address):
        self._pool = pool
        self._method = method
        self.address = address
        self._data = bytearray()
        self._head: _wire.Head | None = None
        self._body: _wire.Body | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._rest = bytearray()
        self._whole: list[bytes] = []
        self._closed = False
        self._patient = False
        #: How long the server may say nothing.
        self.timeout = pool.timeout

    def hurry(self) -> None:
        """Whoever waits from now on was interrupted already."""
        self.timeout = GRACE
        self._patient = True

    async def _more(self) -> bool:
        try:
            data = await self.stream.read(self.timeout)
        except ConnectionLost as e:
            raise self._pool.explain(e, self.address) from e
        self._data += data
        return bool(data)

    def _cut(self) -> ConnectionLost:
        return self._pool.explain(ConnectionLost("the connection ended before the answer did"), self.address)

    async def head(self) -> _wire.Head:
        """The head of the answer."""
        while self._head is None:
            self._head = _wire.head(self._data)
            if self._head is None:
                if not await self._more():
                    raise self._cut()
            elif self._head.status < 200 and self._head.status != 101:
                self._head = None
        if self._body is None:
            self._body = _wire.Body(self._method, self._head)
        return self._head

    async def chunk(self) -> bytes:
        """Some of the body; none at its end."""
        await self.head()
        body = self._body
        assert body is not None  # noqa: S101
        while True:
            some = body.take(self._data)
            if some:
                return some
            if body.done:
                return b""
            if not await self._more():
                if body.until_eof:
                    body.done = True
                    return b""
                raise self._cut()

    async def read(self, most: int = _wire.MAX_BODY, what: str = "the server's answer") -> bytes:
        """All of the body."""
        while True:
            some = await self.chunk()
            if not some:
                return b"".join(self._parts)
            self._parts.append(some)
            self._size += len(some)
            if self._size > most:
                raise _wire.too_large(what, most)

    async def line(self) -> bytes | None:
        """The next line of the body; None at its end."""
        if not self._patient:
            # What goes on gives a sign of life every 15 seconds at least.
            self._patient = True
            self.timeout = None if self.timeout is None else max(self.timeout, _ALIVE)
        while not self._whole:
            some = await self.chunk()
            if not some:
                return None
            self._rest += some
            if b"\n" in some:
                *whole, last = bytes(self._rest).split(b"\n")
                self._rest = bytearray(last)
                self._whole = whole[::-1]
            elif len(self._rest) > _wire.MAX_LINE:
                raise _wire.too_large("a line of the server's answer", _wire.MAX_LINE)
        return self._whole.pop()

    async def check(self) -> None:
        """Raise the problem that the answer is, if it is one."""
        head = await self.head()
        if not 200 <= head.status < 300:
            raise _wire.problem(head.status, await self.read(_wire.MAX_LINE))

    async def doc(self) -> dict[str, Any]:
        """The document that the answer is."""
        await self.check()
        data = await self.read()
        return _wire.parse(data) if data else {}

    def close(self) -> None:
        """Keep the connection if the answer was read to its end, else close it."""
        if self._closed:
            return
        self._closed = True
        stream = getattr(self, "stream", None)
        if stream is None:
            return
        if (
            self._body is not None
            and self._body.done
            and not self._data
            and not self._body.until_eof
            and self._head is not None
            and self._head.headers.get("connection", "").lower() != "close"
        ):
            self._pool.give(stream, self.address)
        else:
            stream.close()

    async def __aenter__(self) -> AsyncCall:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def chunks(call: AsyncCall) -> AsyncIterator[bytes]:
    """The body of an answer, piece by piece."""
    async with call:
        while True:
            some = await call.chunk()
            if not some:
                return
            yield some
