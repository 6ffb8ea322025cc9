# Made by scripts/unasync.py of ../_async/sandbox.py: change that.
"""A sandbox of a server's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from .. import _server, _wire
from .._result import Result
from .._transport import Address
from .._wire import Duration, Frame, Policy, Snapshot
from ..errors import ConfineError, ConnectionLost, NotFound, SandboxEnded, ServerDied
from ._http import Call
from .files import Files
from .process import Process

if TYPE_CHECKING:
    from .client import Client

_NDJSON = {"Accept": "application/x-ndjson"}


class Sandbox:
    """A sandbox: processes can be started in it, one after another or at once, and its files be read and written.

    It is opened by "with", by open(), or by Client.sandbox. It ends with close(), with the end of "with", with its
    lifetime (1 h unless said), after its idle_timeout (10 min), or with the server.
    """

    def __init__(
        self,
        policy: Policy = None,
        *,
        client: Client | None = None,
        name: str | None = None,
        dir: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        lifetime: Duration = None,
        idle_timeout: Duration = None,
        labels: Mapping[str, str] | None = None,
        snapshot: Snapshot | str | None = None,
    ):
        self._request = _wire.without_none(
            {
                "policy": _wire.policy(policy),
                "name": None if name is None else _wire.text(name, "name"),
                "dir": _wire.directory(dir),
                "env": _wire.texts(env, "env"),
                "lifetime": _wire.duration(lifetime, "lifetime"),
                "idle_timeout": _wire.duration(idle_timeout, "idle_timeout"),
                "labels": _wire.texts(labels, "labels"),
                "from": None if snapshot is None else snapshot_id(snapshot),
            }
        )
        own = client is None
        if client is None:
            from .client import Client

            client = Client()
        elif not hasattr(client, "_pool"):
            raise TypeError(f"client is a client, not {type(client).__name__}")
        self._bare(client, own)
        self.open()

    def _bare(self, client: Client, own: bool = False) -> None:
        self._client = client
        self._own = own
        self._address: Address | None = None
        self._pid = 0
        self._closed = False
        #: Its ID; none before it is open.
        self.id = ""
        #: What the server said of it last: name, ledger, deadline, …
        self.info: dict[str, Any] = {}
        #: Its files.
        self.files = Files(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id or 'that is not open'}>"

    def open(self) -> Sandbox:
        """Open it, if it isn't."""
        if self._closed:
            raise _gone("the sandbox is closed", "closed")
        if not self.id:
            try:
                call = self._client._send("POST", "sandboxes", doc=self._request)
                self._adopt(self._client._finish(call), call.address)
            except BaseException:
                if self._own:
                    self._client.close_now()
                raise
        return self

    def _adopt(self, doc: dict[str, Any], address: Address | None) -> Sandbox:
        self.id, self.info, self._address, self._pid = str(doc.get("id", "")), doc, address, os.getpid()
        return self

    def _foreign(self) -> bool:
        """Whether this is the child of who opened it, on a private server."""
        return self._client._pool.private and self._pid != os.getpid()

    def _send(
        self,
        method: str,
        path: str = "",
        *,
        query: Mapping[str, Any] | None = None,
        doc: object = None,
        body: bytes | Iterable[bytes] | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> Call:
        if self._closed:
            raise _gone("the sandbox is closed", "closed")
        if not self.id:
            raise ValueError("the sandbox is not open: use it by with, or open()")
        if self._client._pool.private:
            if self._pid != os.getpid():
                raise _gone("the sandbox belongs to the process that this one was forked from", "forked")
            if not isinstance(self._address, str) or not _server.alive(self._address):
                raise ServerDied("the private server is no more, and neither is this sandbox")
        target = _wire.target(f"sandboxes/{self.id}" + ("/" + path if path else ""), query)
        if stream:
            headers = {**(headers or {}), **_NDJSON}
        return self._client._pool.send(method, target, doc=doc, body=body, headers=headers, at=self._address)

    def _ask(self, method: str, path: str = "", **words: Any) -> dict[str, Any]:
        call = self._checked(self._send(method, path, **words))
        with call:
            return call.doc()

    def _checked(self, call: Call) -> Call:
        """The call, unless its answer is a problem."""
        try:
            call.check()
        except SandboxEnded as e:
            call.close()
            self._why(e)
            raise
        except BaseException:
            call.close()
            raise
        return call

    def _why(self, error: SandboxEnded) -> None:
        """Find out what ended it, if it has ended: the same code says that a process has."""
        try:
            call = self._send("GET")
            with call:
                doc = call.doc()
        except ConfineError:
            return
        if isinstance(doc.get("ended"), dict):
            error.cause = str(doc["ended"].get("cause", ""))
            self.info = doc

    # Processes.

    def exec(
        self,
        argv: Sequence[str | PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        dir: str | PathLike[str] | None = None,
        stdin: bytes | str | None = None,
        time_limit: Duration = None,
        cpu_time: Duration = None,
        output_limit: int | None = None,
        check: bool = False,
        on_stdout: Callable[[bytes], object] | None = None,
        on_stderr: Callable[[bytes], object] | None = None,
    ) -> Result:
        """Run a command to its end.

        dir is a directory as seen inside. What ends the process is the server's affair: time_limit makes the status TIMEOUT, and
        no exception; check raises ProcessFailed unless the status is OK. Whoever is interrupted, or cancelled, ends the process.
        """
        for callback in (on_stdout, on_stderr):
            if callback is not None and not callable(callback):
                raise TypeError(f"a callback is a function, not {type(callback).__name__}")
        process = self._start(argv, env, dir, stdin, None, time_limit, cpu_time, output_limit)
        try:
            result = process.wait(on_stdout, on_stderr)
        except BaseException as e:
            # A coroutine that is thrown away, as by a loop that is closed, can't wait for anything.
            if not isinstance(e, (ConnectionLost, GeneratorExit)):
                _quietly_kill(process)
            raise
        finally:
            process.close()
        return result.check() if check else result

    def start(
        self,
        argv: Sequence[str | PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        dir: str | PathLike[str] | None = None,
        stdin: bytes | str | bool | None = False,
        tty: tuple[int, int] | bool | None = None,
        time_limit: Duration = None,
        cpu_time: Duration = None,
        output_limit: int | None = None,
    ) -> Process:
        """Start a command. stdin: True, to write it later; or what it is. tty: rows and columns of a terminal, or True."""
        return self._start(argv, env, dir, stdin, tty, time_limit, cpu_time, output_limit)

    def _start(
        self,
        argv: Sequence[str | PathLike[str]],
        env: Mapping[str, str] | None,
        dir: str | PathLike[str] | None,
        stdin: bytes | str | bool | None,
        tty: tuple[int, int] | bool | None,
        time_limit: Duration,
        cpu_time: Duration,
        output_limit: int | None,
    ) -> Process:
        if output_limit is not None and (isinstance(output_limit, bool) or not isinstance(output_limit, int)):
            raise TypeError(f"output_limit is a number of bytes, not {type(output_limit).__name__}")
        size = _wire.size((24, 80) if tty is True else tty or None)
        doc = {
            "argv": _wire.argv(argv),
            "env": _wire.texts(env, "env"),
            "dir": None if dir is None else _wire.text(dir, "dir"),
            "stdin": None if stdin is None or isinstance(stdin, bool) else _wire.to_octets(stdin),
            "open_stdin": True if stdin is True else None,
            "tty": size,
            "time_limit": _wire.duration(time_limit, "time_limit"),
            "cpu_time": _wire.duration(cpu_time, "cpu_time"),
            "output_limit": output_limit,
        }
        call = self._send("POST", "exec", doc=_wire.without_none(doc), stream=True)
        process = Process(self, call, size is not None)
        try:
            process._started()
        except SandboxEnded as e:
            process.close()
            self._why(e)
            raise
        except (ConfineError, GeneratorExit):
            process.close()
            raise
        except BaseException:
            # The server may have started it, and will say so soon.
            try:
                call.hurry()
                process._started()
                process.kill()
            except ConfineError:
                pass
            finally:
                process.close()
            raise
        return process

    def processes(self) -> list[dict[str, Any]]:
        """Its processes, also those that have ended: documents as in docs/API.md."""
        return list((self._ask("GET", "processes")).get("processes") or ())

    # What it has and does.

    def status(self) -> dict[str, Any]:
        """What the server says of it now."""
        self.info = self._ask("GET")
        return self.info

    def usage(self) -> dict[str, Any]:
        """What it uses now: cpu (nanoseconds), memory, tasks, scratch; -1 is what nobody counts."""
        return dict((self.status()).get("usage") or {})

    def change(
        self, *, lifetime: Duration = None, idle_timeout: Duration = None, labels: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Change how long it stays, from now on, and its labels."""
        doc = {
            "lifetime": _wire.duration(lifetime, "lifetime"),
            "idle_timeout": _wire.duration(idle_timeout, "idle_timeout"),
            "labels": _wire.texts(labels, "labels"),
        }
        self.info = self._ask("PATCH", doc=_wire.without_none(doc))
        return self.info

    def network(self, **options: Any) -> dict[str, Any]:
        """Change whom it may reach: allow_network=["example.org:443"] and the other options of the network, by their names."""
        self.info = self._ask("PATCH", doc={"network": options})
        return self.info

    def events(self, *, start: int = 0, follow: bool = True) -> Iterator[Frame]:
        """What happens to it: frames after number start, up to "ended"; without follow, those that there are."""
        seq, resumed = start, 0
        while True:
            query = {"from": seq, "follow": 1 if follow else None}
            call = self._checked(self._send("GET", "events", query=query, stream=True))
            try:
                with call:
                    while (line := call.line()) is not None:
                        frame = _wire.frame(line)
                        if frame.type in ("usage", "keepalive") or frame.seq <= seq:
                            continue
                        seq, resumed = frame.seq, 0
                        yield frame
                        if frame.type == "ended":
                            return
            except ServerDied:
                raise
            except ConnectionLost:
                if resumed >= 3:
                    raise
            if not follow:
                return
            resumed += 1
            if resumed > 3:
                raise ConnectionLost("the events of the sandbox ended without their last frame")

    @overload
    def diff(self, *paths: str, format: Literal["json"] = "json") -> dict[str, Any]: ...
    @overload
    def diff(self, *paths: str, format: Literal["patch", "names"]) -> str: ...

    def diff(self, *paths: str, format: Literal["json", "patch", "names"] = "json") -> dict[str, Any] | str:
        """What it has changed of the files of this host of which it has an overlay: a document, a patch or a line for each."""
        if format not in ("json", "patch", "names"):
            raise ValueError(f'format is "json", "patch" or "names", not {format!r}')
        query: dict[str, Any] = {"path": list(paths)} if paths else {}
        if format == "json":
            return self._ask("GET", "diff", query=query)
        call = self._checked(self._send("GET", "diff", query={**query, format: ""}))
        with call:
            return (call.read()).decode("utf-8", "surrogateescape")

    def apply(self, *paths: str, dry_run: bool = False, force: bool = False, allow_protected: bool = False) -> dict[str, Any]:
        """Copy what it has changed to the files of this host: all that is asked for, or nothing. Conflict says what has changed since."""
        doc = {"paths": list(paths) or None, "dry_run": dry_run, "force": force, "allow_protected": allow_protected}
        return self._ask("POST", "apply", doc=_wire.without_none(doc))

    def snapshot(self, name: str | None = None) -> Snapshot:
        """Write down its files: those of its overlays and private places. No process is in a snapshot."""
        doc = {} if name is None else {"name": _wire.text(name, "name")}
        return _wire.snapshot(self._ask("POST", "snapshots", doc=doc))

    def restore(self, snapshot: Snapshot | str) -> None:
        """Make its files what they were in a snapshot. Its processes end."""
        self.info = self._ask("POST", "restore", doc={"snapshot": snapshot_id(snapshot)})

    def fork(self, n: int = 1, *, lifetime: Duration = None, idle_timeout: Duration = None) -> list[Sandbox]:
        """Open sandboxes with the same policy and files, and without the processes: all of them or none."""
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n is a number, not {type(n).__name__}")
        doc = {
            "lifetime": _wire.duration(lifetime, "lifetime"),
            "idle_timeout": _wire.duration(idle_timeout, "idle_timeout"),
        }
        call = self._send("POST", "fork", query={"n": n}, doc=_wire.without_none(doc))
        docs = (self._client._finish(call)).get("sandboxes") or ()
        return [self._client._box(doc, self._address) for doc in docs]

    # Its end.

    def close(self) -> None:
        """End it and everybody inside. Never an error because it has ended."""
        if self._closed:
            return
        try:
            if self.id and not self._foreign():
                self.info = self._ask("DELETE") or self.info
        except (NotFound, SandboxEnded, ServerDied):
            pass
        finally:
            self._closed = True
            if self._own:
                self._client.close_now()

    def kill(self) -> None:
        """The same as close()."""
        self.close()

    def __enter__(self) -> Sandbox:
        return self.open()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except ConfineError:
            if error is None:
                raise


def snapshot_id(snapshot: Snapshot | str) -> str:
    """The ID or the name of a snapshot."""
    if isinstance(snapshot, Snapshot):
        return snapshot.id
    if not isinstance(snapshot, str):
        raise TypeError(f"a snapshot is a Snapshot, its ID or its name, not {type(snapshot).__name__}")
    return snapshot


def _gone(message: str, cause: str) -> SandboxEnded:
    error = SandboxEnded(message, code="ENDED")
    error.cause = cause
    return error


def _quietly_kill(process: Process) -> None:
    with contextlib.suppress(ConfineError):
        process.kill()
