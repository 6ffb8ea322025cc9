# Made by scripts/unasync.py of ../_async/client.py: change that.
"""A server, and what it can be asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from .. import _wire
from .._result import Result
from .._transport import Address, parse
from .._wire import Duration, Policy, Snapshot
from ..errors import ConfineError
from ._http import Call, Pool, chunks
from .sandbox import Sandbox, snapshot_id


class Client:
    """A server: the one at base_url (unix:/PATH or http://HOST:PORT), that of $CONFINE_URL, or one of this interpreter's own.

    token is what TCP needs ($CONFINE_TOKEN unless said). request_timeout is for the server, which answers at once or sends a sign of
    life every 15 seconds; it has nothing to do with how long a process may run. Any number of threads and tasks may use one client.
    """

    def __init__(self, base_url: str | None = None, *, token: str | None = None, request_timeout: float | None = 60.0):
        url = base_url if base_url is not None else os.environ.get("CONFINE_URL") or None
        if token is None and url is not None:
            token = os.environ.get("CONFINE_TOKEN") or None
        if token is not None and (not isinstance(token, str) or not token.isascii() or not token.isprintable()):
            raise ValueError("a token is a line of ASCII text")
        self._pool = Pool(None if url is None else parse(url), token, _wire.timeout(request_timeout))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._pool._named or 'a private server'}>"

    # Requests.

    def _send(self, method: str, path: str, **words: Any) -> Call:
        query = words.pop("query", None)
        return self._pool.send(method, _wire.target(path, query), **words)

    def _ask(self, method: str, path: str, **words: Any) -> dict[str, Any]:
        call = self._send(method, path, **words)
        with call:
            return call.doc()

    def _finish(self, call: Call) -> dict[str, Any]:
        """The answer of what makes sandboxes; if its caller is interrupted, they end."""
        try:
            return call.doc()
        except (ConfineError, GeneratorExit):
            raise
        except BaseException:
            try:
                call.hurry()
                doc = call.doc()
                for made in doc.get("sandboxes") or [doc]:
                    self._box(made, call.address).close()
            except ConfineError:
                pass
            raise
        finally:
            call.close()

    def _box(self, doc: dict[str, Any], address: Address | None) -> Sandbox:
        box = Sandbox.__new__(Sandbox)
        box._bare(self)
        return box._adopt(doc, address)

    # What users ask for.

    def sandbox(
        self,
        policy: Policy = None,
        *,
        name: str | None = None,
        dir: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        lifetime: Duration = None,
        idle_timeout: Duration = None,
        labels: Mapping[str, str] | None = None,
        snapshot: Snapshot | str | None = None,
    ) -> Sandbox:
        """Open a sandbox. policy: options by their names (docs/OPTIONS.md, with _ for -), or the name of a profile."""
        box = Sandbox(
            policy,
            client=self,
            name=name,
            dir=dir,
            env=env,
            lifetime=lifetime,
            idle_timeout=idle_timeout,
            labels=labels,
            snapshot=snapshot,
        )
        return box.open()

    def connect(self, id: str) -> Sandbox:
        """A sandbox that is there already, by its ID or its name."""
        address = self._pool.address()
        call = self._send("GET", "sandboxes/" + _wire.segment(id, "id"), at=address)
        with call:
            return self._box(call.doc(), address)

    def sandboxes(self, *, state: str | None = None, labels: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The sandboxes of whoever asks, and for a day those that have ended: documents as in docs/API.md."""
        wanted = [f"{k}={v}" for k, v in (_wire.texts(labels, "labels") or {}).items()]
        query = {"state": state, "label": wanted or None}
        return list((self._ask("GET", "sandboxes", query=query)).get("sandboxes") or ())

    def run(
        self,
        argv: Sequence[str | PathLike[str]],
        *,
        policy: Policy = None,
        env: Mapping[str, str] | None = None,
        dir: str | PathLike[str] | None = None,
        stdin: bytes | str | None = None,
        files: Mapping[str, bytes | str] | None = None,
        collect: Sequence[str] = (),
        time_limit: Duration = None,
        check: bool = False,
    ) -> Result:
        """Run one command in a sandbox of its own. Whoever is interrupted, or cancelled, ends it.

        files are written before it starts, collect names those that are read after it has ended: Result.files and .missing.
        """
        if isinstance(collect, (str, bytes)):
            raise TypeError("collect is a list of names")
        if files is not None and not isinstance(files, Mapping):
            raise TypeError(f"files is a mapping of names to contents, not {type(files).__name__}")
        doc = {
            "argv": _wire.argv(argv),
            "policy": _wire.policy(policy),
            "env": _wire.texts(env, "env"),
            "dir": _wire.directory(dir),
            "stdin": None if stdin is None else _wire.to_octets(stdin),
            "files": None if not files else {_wire.text(k, "a name"): _wire.to_octets(v, "a file") for k, v in files.items()},
            "collect": [_wire.text(name, "a name") for name in collect] or None,
            "time_limit": _wire.duration(time_limit, "time_limit"),
        }
        call = self._send("POST", "runs", doc=_wire.without_none(doc))
        with call:
            # It takes as long as the command does. A run ends when its client leaves.
            call.timeout = None
            answer = call.doc()
        result = Result(
            answer.get("report") or {},
            _wire.octets(answer.get("stdout")),
            _wire.octets(answer.get("stderr")),
            bool(answer.get("truncated")) or _wire.cut(answer.get("report")),
            int(answer.get("process", 0)),
            str(answer.get("id", "")),
            {name: _wire.octets(data) for name, data in (answer.get("files") or {}).items()},
            dict(answer.get("missing") or {}),
        )
        return result.check() if check else result

    def snapshots(self) -> list[Snapshot]:
        """The snapshots that are kept, the newest first."""
        return [_wire.snapshot(doc) for doc in (self._ask("GET", "snapshots")).get("snapshots") or ()]

    def remove_snapshot(self, snapshot: Snapshot | str) -> None:
        """Throw a snapshot away. Sandboxes that began with it go on."""
        self._ask("DELETE", "snapshots/" + _wire.segment(snapshot_id(snapshot), "snapshot"))

    def download_snapshot(self, snapshot: Snapshot | str) -> Iterator[bytes]:
        """A snapshot as a bundle: pieces of a tar."""
        call = self._send("GET", "snapshots/" + _wire.segment(snapshot_id(snapshot), "snapshot"))
        try:
            call.check()
        except BaseException:
            call.close()
            raise
        return chunks(call)

    def upload_snapshot(self, id: str, bundle: bytes | Iterable[bytes] | Iterable[bytes]) -> dict[str, Any]:
        """Take a bundle, which has to be that of the ID."""
        return self._ask("PUT", "snapshots/" + _wire.segment(id, "id"), body=bundle, headers={"Content-Type": "application/x-tar"})

    def version(self) -> dict[str, Any]:
        """The versions of the server and of its API."""
        return self._ask("GET", "version")

    # Its end.

    def close(self) -> None:
        """Close its connections. Sandboxes go on; a private server ends with the interpreter."""
        self.close_now()

    def close_now(self) -> None:
        """The same, where nothing can be awaited."""
        self._pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
