"""What the tests share: skips that can be forbidden.

CONFINE_MUST_RUN names what no test may be skipped for want of, as for the Go tests (CONTRIBUTING.md): its words are the
conditions that a test gives to need(). One that is missing then fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import inspect
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import confine
import unasync

unasync.write()
MUST_RUN = frozenset(filter(None, os.environ.get("CONFINE_MUST_RUN", "").split(",")))

# Where the package is not installed, nothing tells pytest of the plugin.
INSTALLED = any(point.name == "confine" for point in importlib.metadata.entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "confine.pytest_plugin"]

Run = Callable[..., pytest.RunResult]

# Sandboxes need these; the Go tests probe them, and doctor prints them.
_BUILT = Path(__file__).parents[2] / "bin"


def _holds(condition: str) -> bool:
    kind, _, name = condition.partition(":")
    if kind == "linux":
        return sys.platform == "linux"
    if kind == "root":
        return sys.platform != "win32" and os.geteuid() == 0
    if kind == "program" and name:
        return shutil.which(name) is not None
    if kind == "python" and name:  # a module that can be imported here
        return importlib.util.find_spec(name) is not None
    if kind == "env" and name:  # a variable that whoever runs the tests has to set
        return bool(os.environ.get(name))
    raise ValueError(f"no such condition: {condition!r}")


def need(*conditions: str) -> None:
    """Skip the test, or the module that asks, unless all conditions hold; fail it where CONFINE_MUST_RUN names one that does not.

    linux, root, program:NAME, python:MODULE, env:VARIABLE.
    """
    for condition in conditions:
        if _holds(condition):
            continue
        if condition in MUST_RUN:
            pytest.fail(f"CONFINE_MUST_RUN: {condition} does not hold", pytrace=False)
        pytest.skip(f"needs {condition}", allow_module_level=True)


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> None:
    """Tests interrupt themselves and what they start, also where whoever started them in the background has this signal ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _binary() -> None:
    """Tests are about this checkout's program: bin/confine unless $CONFINE_BINARY says another."""
    if "CONFINE_BINARY" not in os.environ:
        binary = _BUILT / ("confine.exe" if sys.platform == "win32" else "confine")
        if not binary.exists():
            pytest.exit(f"{binary} is not built: make build", returncode=2)
        os.environ["CONFINE_BINARY"] = str(binary)
    # Interpreters that tests start import the same package.
    source = str(Path(confine.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))


class Blocking:
    """Something to be awaited, without: the same test is for both clients."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop):
        self.target = target
        self.loop = loop

    def wrap(self, value: Any) -> Any:
        if inspect.isawaitable(value):

            async def wait() -> Any:
                return await value

            return self.wrap(self.loop.run_until_complete(wait()))
        if isinstance(value, list):
            return [self.wrap(v) for v in value]
        if inspect.ismethod(value):
            return lambda *a, **k: self.wrap(value(*a, **k))
        if isinstance(value, (confine.AsyncClient, confine.AsyncSandbox, confine.AsyncProcess, confine.AsyncFiles)):
            return Blocking(value, self.loop)
        if hasattr(value, "__anext__"):
            return self.steps(value)
        return value

    def steps(self, value: Any) -> Iterator[Any]:
        while True:
            try:
                yield self.wrap(self.loop.run_until_complete(value.__anext__()))
            except StopAsyncIteration:
                return

    def __getattr__(self, name: str) -> Any:
        return self.wrap(getattr(self.target, name))

    def __repr__(self) -> str:
        return repr(self.target)

    def __iter__(self) -> Iterator[Any]:
        return self.steps(self.target.__aiter__())

    def __enter__(self) -> Any:
        return self.wrap(self.target.__aenter__())

    def __exit__(self, *error: object) -> None:
        self.wrap(self.target.__aexit__(*error))


class Api:
    """One of the two clients, to be used alike."""

    def __init__(self, kind: str):
        self.kind = kind
        self.loop = asyncio.new_event_loop() if kind == "async" else None

    def client(self, *args: Any, **words: Any) -> Any:
        if self.loop is None:
            return confine.Client(*args, **words)
        return Blocking(confine.AsyncClient(*args, **words), self.loop)

    def sandbox(self, *args: Any, **words: Any) -> Any:
        if self.loop is None:
            return confine.Sandbox(*args, **words)
        return Blocking(confine.AsyncSandbox(*args, **words), self.loop).__enter__()

    def close(self) -> None:
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["sync", "async"])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """Both clients, one after the other."""
    need("linux")
    api = Api(request.param)
    yield api
    api.close()


@pytest.fixture
def client(api: Api) -> Iterator[Any]:
    """A client of the private server."""
    client = api.client()
    yield client
    client.close()


@pytest.fixture
def box(client: Any) -> Iterator[Any]:
    """A sandbox."""
    box = client.sandbox("standard")
    yield box
    box.close()


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """The tests of pytester's directory, with the plugin."""
    need("linux")

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:randomly", *arguments)

    return run


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    return dict(sorted(result.parseoutcomes().items()))


def until(condition: Callable[[], object], seconds: float = 10) -> bool:
    """Whether something comes to be so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def runs(command: str) -> bool:
    """Whether a process has these words."""
    wanted = command.replace(" ", "\0").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes():
                return True
    return False


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What so many threads come to, each with its number."""
    found: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: work(n)})) for n in range(count)]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[n] for n in range(count)]


def executable(path: Path, text: str) -> str:
    """A program of this text."""
    path.write_text(text)
    path.chmod(0o755)
    return str(path)
