"""Interpreters that wait: the host's end of _worker.py, and the pool that keeps one ready.

Whatever comes from an interpreter is read with a deadline and a bound. One that is late, that ends, or that says something
else than was agreed is thrown away with its sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import IO, Any

from . import _worker
from .base import Meter, RunnerClosed, RunnerUnavailable
from .codec import Abilities

START_TIME = 60.0  # seconds for an interpreter to import its modules
CLEAN_TIME = 3.0  # for a sandbox to be as it was
GRACE = 0.5  # the worker holds the time limit; the host, that much later
READ_TIME = 3.0  # at least, for an answer to be read, however little of the time limit is left
LIFETIME = 900.0  # of one that waits
IDLE_TIME = 60.0  # of one that was used and is more than are kept ready
MAX_HEADER = 1 << 16

# Reads the worker and the codec, which the sandbox has no file of.
_BOOT = """
import json, os, sys, types
def read(n):
    b = b""
    while len(b) < n:
        p = os.read(0, n - len(b))
        if not p: os._exit(0)
        b += p
    return b
setup = json.loads(read(int.from_bytes(read(4), "big")))
spaces = []
for name in ("codec", "worker"):
    module = types.ModuleType("_confine_" + name)
    sys.modules[module.__name__] = module
    exec(compile(setup.pop(name), name + ".py", "exec"), vars(module))
    spaces.append(module)
spaces[1].main(setup, spaces[0])
"""

#: The interpreter's own arguments: nothing of the environment, of the directory or of the user's counts.
ARGUMENTS = ["-I", "-B", "-X", "utf8", "-c", _BOOT]
#: One thread for each library: a sandbox has one core, and threads don't survive the fork.
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR", "ARROW_IO")}
ENVIRONMENT = {**THREADS, "OMP_THREAD_LIMIT": "1", "MPLBACKEND": "agg", "MPLCONFIGDIR": "/tmp", "ARROW_DEFAULT_MEMORY_POOL": "system"}  # noqa: S108


class Lost(Exception):
    """An interpreter that can't be used any more, and why: "timeout", "ended" or "protocol"."""


class Busy(Exception):
    """As many interpreters as there may be are at work, and none was given back in time."""


@dataclass(frozen=True)
class Outcome:
    """What the worker says of a job. Its packet is the job's own."""

    end: str
    code: int
    memory_kb: int
    stdout: bytes
    stderr: bytes
    dropped: tuple[int, int]
    packet: bytes


@dataclass(frozen=True)
class Command:
    """How to start an interpreter: the program, what ends it when it doesn't by itself, and how to ask what became of it."""

    argv: Sequence[str]
    env: dict[str, str]
    stop: Callable[[], None] | None = None
    report: bool = False


class Interpreter:
    """One worker in one sandbox."""

    def __init__(self, command: Command, preload: Sequence[str], again: bool) -> None:
        self.command, self.started = command, time.monotonic()
        self.report_fd, write = os.pipe() if command.report else (-1, -1)
        argv = [arg.replace("{report}", str(write)) for arg in command.argv]
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=command.env,
                cwd="/",
                pass_fds=(write,) if command.report else (),
                start_new_session=True,  # a terminal's Ctrl-C is for the caller
            )
        except OSError as e:
            raise RunnerUnavailable(f"{argv[0]}: {e.strerror}") from e
        finally:
            if write >= 0:
                os.close(write)
        self.stdin, self.stdout, self.stderr = (f.fileno() for f in self.streams())
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        for fd in (self.stdin, self.stdout):
            _worker.widen(fd)
        self.poll_in, self.poll_out = select.poll(), select.poll()
        self.poll_in.register(self.stdout, select.POLLIN)
        self.poll_out.register(self.stdin, select.POLLOUT)
        self.preload, self.again = list(preload), again
        self.cleaning = self.arrow = False
        self.idle_since = 0.0
        self.hello: dict[str, Any] = {}

    def streams(self) -> list[IO[bytes]]:
        return [f for f in (self.process.stdin, self.process.stdout, self.process.stderr) if f is not None]

    def greet(self) -> None:
        """Gives it the worker to run, and waits until it has imported its modules."""
        files = resources.files(__package__)
        setup = {
            "codec": files.joinpath("codec.py").read_text(encoding="utf-8"),
            "worker": files.joinpath("_worker.py").read_text(encoding="utf-8"),
            "preload": self.preload,
            "again": self.again,
        }
        document = json.dumps(setup).encode()
        deadline = time.monotonic() + START_TIME
        try:
            self.send(len(document).to_bytes(4, "big") + document, deadline)
            self.hello, _ = self.receive(deadline, 0)
            if self.hello.get("hello") != 1:
                raise Lost("protocol")
        except Lost as e:
            self.end()
            said = self.read_all(self.stderr, 65536, 1.0).decode("utf-8", "replace").strip()
            said = said or str(self.report().get("reason") or "it said nothing")
            raise RunnerUnavailable(f"no interpreter started ({e}): {said}") from None
        self.again = self.again and self.hello.get("again") is True
        self.arrow = self.hello.get("arrow") is True

    def send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.stdin, view[: 1 << 20]) :]
            except BlockingIOError:
                self.wait(self.poll_out, deadline)
            except OSError:
                raise Lost("ended") from None

    def wait(self, poll: select.poll, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000 + 1):
            raise Lost("timeout")

    def read(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self.stdout, min(size, 1 << 20))
            except BlockingIOError:
                self.wait(self.poll_in, deadline)
                continue
            if not part:
                raise Lost("ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self, deadline: float, most: int) -> tuple[dict[str, Any], bytes]:
        """A frame of at most so much beside its header."""
        head = self.read(12, deadline)
        size, rest = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        if size > MAX_HEADER or rest > most:
            raise Lost("protocol")
        try:
            header = json.loads(self.read(size, deadline))
        except (ValueError, RecursionError):
            raise Lost("protocol") from None
        if not isinstance(header, dict):
            raise Lost("protocol")
        return header, self.read(rest, deadline)

    def run(self, job: dict[str, Any], packet: bytes) -> Outcome:
        """Has a job done. Sending what it needs doesn't count for its time."""
        document = json.dumps(job).encode()
        head = len(document).to_bytes(4, "big") + len(packet).to_bytes(8, "big")
        self.send(head + document, time.monotonic() + START_TIME)
        self.send(packet, time.monotonic() + START_TIME)
        most = 2 * job["output"] + job["result"] + 65536
        header, rest = self.receive(time.monotonic() + job["timeout"] + GRACE, most)
        try:
            sizes = [int(n) for n in header["parts"]]
            if len(sizes) != 3 or min(sizes) < 0 or sum(sizes) != len(rest):
                raise Lost("protocol")
            out, err = sizes[0], sizes[0] + sizes[1]
            first, second = header["dropped"]
            outcome = Outcome(
                end=str(header["end"]),
                code=int(header["code"]),
                memory_kb=int(header["memory_kb"]),
                stdout=rest[:out],
                stderr=rest[out:err],
                dropped=(int(first), int(second)),
                packet=rest[err:],
            )
            if not 0 <= outcome.memory_kb < 2**50:
                raise Lost("protocol")
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Lost("protocol") from None
        self.cleaning = True
        return outcome

    def settled(self) -> bool:
        """Whether ready() knows without waiting."""
        return not self.cleaning or bool(self.poll_in.poll(0))

    def ready(self) -> bool:
        """Whether a sandbox that has run something is as it was before: waits for the worker to say so."""
        if time.monotonic() - self.started > LIFETIME:
            return False
        try:
            if self.cleaning:
                header, _ = self.receive(time.monotonic() + CLEAN_TIME, 0)
                self.cleaning = False
                if header.get("clean") is not True:
                    return False
        except Lost:
            return False
        return self.process.poll() is None and not self.poll_in.poll(0)

    def report(self) -> dict[str, Any]:
        """The sandbox's report, when it has ended by itself; else nothing."""
        if self.report_fd < 0:
            return {}
        try:
            document = json.loads(self.read_all(self.report_fd, 1 << 20, 2.0) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    @staticmethod
    def read_all(fd: int, most: int, seconds: float) -> bytes:
        """What a descriptor has until its end, a bounded part of it, for a bounded time."""
        os.set_blocking(fd, False)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        deadline, data = time.monotonic() + seconds, bytearray()
        while len(data) < most and (left := deadline - time.monotonic()) > 0:
            if not poll.poll(left * 1000 + 1):
                break
            part = os.read(fd, 65536)
            if not part:
                break
            data += part
        return bytes(data)

    def end(self) -> None:
        """Asks it to end: SIGTERM ends a sandbox at once, with everybody in it."""
        if not self.command.stop:
            self.process.terminate()

    def close(self) -> None:
        """Ends it and waits. Nothing of it is left."""
        self.end()
        if self.process.stdin:
            self.process.stdin.close()
        self.wait_for_end()
        self.forget()

    def wait_for_end(self) -> None:
        if self.command.stop:
            try:
                self.process.wait(1)
                return
            except subprocess.TimeoutExpired:
                self.command.stop()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def forget(self) -> None:
        """Closes this process's ends of the pipes."""
        for stream in self.streams():
            with contextlib.suppress(OSError):
                stream.close()
        if self.report_fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.report_fd)
            self.report_fd = -1


class Pool:
    """Keeps an interpreter ready beside those at work, and throws away what is used, both in a thread of its own.

    A claim never waits for more than it has to: one that ran before and is clean, one that is ready, one that is being
    started and that nobody else waits for, or else one that the caller starts. Where there are as many as there may be, it waits
    for one that is given back.
    """

    def __init__(self, start: Callable[[], Interpreter], spare: int, most: int, meter: Meter) -> None:
        self.start, self.spare, self.most, self.meter = start, spare, most, meter
        self.reset()
        self.closed = False
        _pools.add(self)

    def reset(self) -> None:
        self.changed = threading.Condition()
        self.idle: deque[Interpreter] = deque()
        self.parked: deque[Interpreter] = deque()
        self.doomed: deque[Interpreter] = deque()
        self.out: set[Interpreter] = set()
        self.live = self.starting = self.waiting = 0  # live: idle, parked, out, and those about to be started
        self.wanted = self.spare > 0
        self.keeper: threading.Thread | None = None

    def wake(self) -> None:
        """Has the keeper look; called with the lock."""
        if self.keeper is None and not self.closed:
            self.keeper = threading.Thread(target=_keep, args=(weakref.ref(self),), name="confine-runner", daemon=True)
            self.keeper.start()
        self.changed.notify_all()

    def warm(self) -> None:
        with self.changed:
            self.wake()

    def claim(self, seconds: float) -> Interpreter:
        deadline = time.monotonic() + seconds
        while True:
            with self.changed:
                self.wanted = self.spare > 0
                self.wake()
                found = self.choose(deadline)
                if found is not None:
                    self.out.add(found)
                    self.wake()
            if found is None:
                return self.build()
            ready = False
            try:
                if ready := found.ready():
                    return found
            finally:
                if not ready:
                    self.discard(found)

    def choose(self, deadline: float) -> Interpreter | None:
        """One that is there, or None for one that the caller starts."""
        self.waiting += 1
        try:
            while not self.closed:
                if self.idle:
                    # The last one that is clean, so that those that nobody needs get old.
                    one = next((one for one in reversed(self.idle) if one.settled()), self.idle[0])
                    self.idle.remove(one)
                    return one
                if self.parked:
                    return self.parked.popleft()
                if self.starting < self.waiting and self.live < self.most:
                    self.live += 1
                    return None
                promised = self.starting >= self.waiting
                if not promised and time.monotonic() >= deadline:
                    raise Busy
                self.changed.wait(None if promised else deadline - time.monotonic())
        finally:
            self.waiting -= 1
        raise RunnerClosed("the runner was cleaned up")

    def build(self) -> Interpreter:
        """A new one, which close() can end while it is still starting."""
        made = None
        try:
            made = self.start()
            with self.changed:
                self.out.add(made)
                closed = self.closed
            if closed:
                raise RunnerClosed("the runner was cleaned up")
            made.greet()
        except BaseException as e:
            with self.changed:
                self.live -= 1
                self.changed.notify_all()
                if made is not None:
                    self.out.discard(made)
            if made is not None:
                made.close()
            if self.closed:
                raise RunnerClosed("the runner was cleaned up") from e
            raise
        self.meter.count("started")
        return made

    def give_back(self, used: Interpreter) -> None:
        with self.changed:
            self.out.discard(used)
            if not self.closed:
                used.idle_since = time.monotonic()
                self.idle.append(used)
                self.changed.notify_all()
                return
        used.close()

    def discard(self, used: Interpreter) -> None:
        self.meter.count("thrown away")
        used.end()
        with self.changed:
            self.out.discard(used)
            self.live -= 1
            if not self.closed:
                self.doomed.append(used)
                self.wake()
                return
        used.close()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            mine = [*self.idle, *self.parked, *self.doomed]
            for kind in (self.idle, self.parked, self.doomed):
                kind.clear()
            theirs, keeper = list(self.out), self.keeper
            self.changed.notify_all()
        for one in [*mine, *theirs]:
            one.end()
        for one in mine:
            one.close()
        for one in theirs:  # whoever has it finds that it has ended, and closes it
            one.wait_for_end()
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(5)

    def doom(self, old: Interpreter) -> None:
        """Has the keeper end one that waits; called with the lock."""
        self.meter.count("thrown away")
        self.live -= 1
        self.doomed.append(old)

    def step(self) -> bool:
        """One thing that the keeper does; False when it has nothing to do any more."""
        with self.changed:
            now = time.monotonic()
            for old in [p for p in self.parked if now - p.started > LIFETIME or p.process.poll() is not None]:
                self.parked.remove(old)
                self.doom(old)
            while self.idle and len(self.idle) + len(self.parked) > self.spare and now - self.idle[0].idle_since > IDLE_TIME:
                self.doom(self.idle.popleft())
            doomed = self.doomed.popleft() if self.doomed else None
            build = doomed is None and self.wanted and len(self.parked) < self.spare and self.live < self.most
            if self.closed and doomed is None:
                return False
            if build:
                self.starting += 1
                self.live += 1
            elif doomed is None:
                self.changed.wait(IDLE_TIME / 4 if self.idle else 60)
                return True
        if doomed is not None:
            doomed.close()
            return True
        made = None
        try:
            made = self.build()
        except Exception:  # whoever claims one starts it, and is told
            self.wanted = False
        with self.changed:
            self.starting -= 1
            if made is not None:
                self.out.discard(made)
                if not self.closed:
                    self.parked.append(made)
                    made = None
            self.changed.notify_all()
        if made is not None:
            made.close()
        return True


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _keep(pool: weakref.ref[Pool]) -> None:
    while (found := pool()) is not None and found.step():
        del found


def _forked() -> None:
    """A fork has none of its parent's interpreters: they would outlive it, held by this end of their pipes."""
    for pool in list(_pools):
        for one in [*pool.idle, *pool.parked, *pool.doomed, *pool.out]:
            one.process.returncode = 0  # not a child of this process
            one.forget()
        pool.reset()
        pool.meter.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def abilities(interpreter: Interpreter, unsafe_pickle: bool, arrow: Callable[[], bool]) -> Abilities:
    """What both sides can read. pyarrow is looked for here only if it is there inside."""
    return Abilities(arrow=interpreter.arrow and "pandas" in sys.modules and arrow(), pickle=unsafe_pickle)
