"""InProcessRunner: exec() with a list of modules, a time limit and a memory limit. It is no wall.

Code runs in the caller's own process, with all that it may: it can reach every module, file and secret of it, by
`().__class__.__base__.__subclasses__()` for one. Time is held by a signal in the main thread; in another thread the code runs
in a thread of its own that is asked to stop and, when it does not, left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from . import _worker
from .base import OUTPUT_LIMIT, RunnerClosed, SandboxedRunner, SandboxResult, checked, outcome_of, text, timeout_error
from .config import SandboxConfig

_one = threading.Lock()  # sys.stdout, the signal and the limits are the process's


def _forked() -> None:
    """Whoever held the lock is not in the fork."""
    global _one
    _one = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _OutOfTime(BaseException):
    """Raised in the code when its time is over; `except Exception` doesn't hold it up."""


class InProcessRunner(SandboxedRunner):
    """In-process execution for Permissive level (development only). Not a security boundary."""

    def __init__(self, config: SandboxConfig, *, output_limit: int = OUTPUT_LIMIT) -> None:
        super().__init__(config)
        self.output_limit = output_limit
        self._closed = False

    def execute(self, code: str, context: dict[str, Any] | None = None) -> SandboxResult:
        """Runs code here, one execution of the process at a time. Variables and results are the objects themselves."""
        context = checked(code, {} if context is None else context)
        began = time.perf_counter()
        with _one:
            if self._closed:
                raise RunnerClosed("the runner was cleaned up")
            out, err = _Capture(self.output_limit), _Capture(self.output_limit)
            value: Any = _worker.NOTHING
            error: str | None
            before, started = _peak_kb(), time.perf_counter()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _memory(self.config.max_memory_mb):
                try:
                    value, error = self._run(code, context)
                except _OutOfTime:
                    error = timeout_error(self.config)
            took = time.perf_counter() - started
            after = _peak_kb()
        result = SandboxResult(
            success=error is None,
            result=None if error is not None or value is _worker.NOTHING else value,
            stdout=out.text(),
            stderr=err.text(),
            error=error,
            execution_time_ms=took * 1000,
            memory_used_mb=None if after is None or before is None else round((after - before) / 1024, 3),
        )
        self._meter.add(result, outcome_of(error), (started - began) * 1000)
        return result

    def _run(self, code: str, context: dict[str, Any]) -> tuple[Any, str | None]:
        space: dict[str, Any] = {"__name__": "__main__"}
        passing = (_OutOfTime, KeyboardInterrupt)

        def run() -> tuple[Any, str | None]:
            return _worker.evaluate(code, context, self.config.allowed_modules, space, passing)

        if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
            with _alarm(self.config.timeout_seconds):
                return run()
        return _beside(run, self.config.timeout_seconds)

    def cleanup(self) -> None:
        """There is nothing to release."""
        self._closed = True


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def over(*_: Any) -> None:
        raise _OutOfTime

    began, handler = time.monotonic(), signal.signal(signal.SIGALRM, over)
    # Again and again: code may catch it once.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # the caller's own timer goes on
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - began)), interval)


def _beside(run: Any, seconds: float) -> tuple[Any, str | None]:
    answer: list[Any] = []

    def target() -> None:
        try:
            answer.append(run())
        except BaseException as e:
            answer.append(e)

    thread = threading.Thread(target=target, name="confine-in-process", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        for _ in range(10):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_OutOfTime))
            thread.join(0.02)
            if not thread.is_alive():
                break
        raise _OutOfTime
    if isinstance(answer[0], BaseException):
        raise answer[0]
    value, error = answer[0]
    return value, error


class _Capture(io.TextIOBase):
    """A text stream that keeps so many bytes and drops the rest."""

    def __init__(self, limit: int) -> None:
        self.limit, self.data, self.dropped = limit, bytearray(), 0

    def writable(self) -> bool:
        return True

    def write(self, s: str) -> int:
        data = s.encode("utf-8", "backslashreplace")
        keep = min(len(data), self.limit - len(self.data))
        self.data += data[:keep]
        self.dropped += len(data) - keep
        return len(s)

    def text(self) -> str:
        return text(bytes(self.data), self.dropped)


def _peak_kb() -> int | None:
    """The most memory that this process ever had; what an execution took is what it added to that."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


@contextlib.contextmanager
def _memory(mb: int) -> Iterator[None]:
    """Lowers RLIMIT_DATA for the time being: that of the whole process, above what it has now."""
    (data,) = _worker.status_kb("self", "VmData")
    if not data:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = data * 1024 + (mb << 20)
    lower = all(most < limit or limit == resource.RLIM_INFINITY for limit in (soft, hard))
    if lower:
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        if lower:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
