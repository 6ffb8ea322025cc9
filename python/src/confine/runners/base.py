"""What all runners have in common: their results, their protocol, their errors, and what they count."""

from __future__ import annotations

import statistics
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfineError
from .codec import Abilities, CodecError, dumps
from .config import SandboxConfig

OUTPUT_LIMIT = 1 << 20
RESULT_LIMIT = 64 << 20
TRUNCATED = "\n[TRUNCATED]\n"


class RunnerError(ConfineError):
    """A runner that can't run anything; what code does wrong is told by its result instead."""


class RunnerClosed(RunnerError):
    """execute() after cleanup()."""


class RunnerUnavailable(RunnerError):
    """There is nothing here to run code with: no binary, no container engine, no sandbox that holds the policy."""


class ContextError(RunnerError, TypeError):
    """A variable that can't be given to code: nothing was started."""


@dataclass(frozen=True)
class SandboxResult:
    """Result of sandboxed code execution."""

    success: bool
    result: Any
    stdout: str
    stderr: str
    error: str | None
    execution_time_ms: float
    memory_used_mb: float | None


@dataclass(frozen=True)
class Metrics:
    """What a runner has done so far. Times are in milliseconds, of the last thousand executions."""

    executions: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)  # ok, error, timeout, memory, crash
    execution_time_ms: Mapping[str, float] = field(default_factory=dict)  # p50, p99, max
    waiting_time_ms: Mapping[str, float] = field(default_factory=dict)  # for a sandbox to be ready
    memory_used_mb: Mapping[str, float] = field(default_factory=dict)
    sandboxes_started: int = 0
    sandboxes_thrown_away: int = 0


class Meter:
    """Counts for Metrics. Any thread may call it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.samples: dict[str, deque[float]] = {name: deque(maxlen=1000) for name in ("execution", "waiting", "memory")}

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def add(self, result: SandboxResult, outcome: str, waiting_ms: float) -> None:
        with self.lock:
            self.counts["executions"] += 1
            self.outcomes[outcome] += 1
            self.samples["execution"].append(result.execution_time_ms)
            self.samples["waiting"].append(waiting_ms)
            if result.memory_used_mb is not None:
                self.samples["memory"].append(result.memory_used_mb)

    def read(self) -> Metrics:
        with self.lock:
            return Metrics(
                executions=self.counts["executions"],
                outcomes=dict(self.outcomes),
                execution_time_ms=_summary(self.samples["execution"]),
                waiting_time_ms=_summary(self.samples["waiting"]),
                memory_used_mb=_summary(self.samples["memory"]),
                sandboxes_started=self.counts["started"],
                sandboxes_thrown_away=self.counts["thrown away"],
            )


def _summary(samples: deque[float]) -> dict[str, float]:
    if not samples:
        return {}
    ordered = sorted(samples)
    return {"p50": statistics.median(ordered), "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}


class SandboxedRunner(ABC):
    """Protocol for sandboxed code execution."""

    @abstractmethod
    def __init__(self, config: SandboxConfig) -> None:
        """Initialize with configuration."""
        self._check(config)
        self.config = config
        self._meter = Meter()

    @abstractmethod
    def execute(self, code: str, context: dict[str, Any]) -> SandboxResult:
        """
        Execute code in sandbox with given context.

        Args:
            code: Python code to execute
            context: Variables to inject (e.g., {"df": dataframe})

        Returns:
            SandboxResult with execution outcome
        """
        ...

    @abstractmethod
    def cleanup(self) -> None:
        """Release any resources held by the sandbox."""
        ...

    @staticmethod
    def _check(config: Any) -> None:
        if not isinstance(config, SandboxConfig):
            raise TypeError(f"config is a SandboxConfig, not {type(config).__name__}")

    @property
    def metrics(self) -> Metrics:
        """What this runner has done so far."""
        return self._meter.read()

    @property
    def enforced(self) -> dict[str, dict[str, Any]]:
        """The ledger: each capability with "effective" and "mechanism", as in confine's reports. Empty: nothing is enforced."""
        return {}

    def __enter__(self) -> SandboxedRunner:
        return self

    def __exit__(self, *args: Any) -> None:
        self.cleanup()


def checked(code: Any, context: Any) -> dict[str, Any]:
    """The context, if both are what execute() takes."""
    if not isinstance(code, str):
        raise TypeError(f"code is a str, not {type(code).__name__}")
    if not isinstance(context, Mapping) or not all(isinstance(name, str) for name in context):
        raise TypeError("context is a mapping of names to values")
    return dict(context)


def packed(context: dict[str, Any], abilities: Abilities) -> bytes:
    """The packet of the variables, or a ContextError that names the one that has no form as data."""
    try:
        return dumps(context, abilities)
    except CodecError:
        for name, value in context.items():
            try:
                dumps(value, abilities)
            except CodecError as e:
                raise ContextError(f"context[{name!r}]: {e}") from None
        raise


def text(data: bytes, dropped: int) -> str:
    """A stream as text, with a mark where something is missing."""
    return data.decode("utf-8", "backslashreplace") + (TRUNCATED if dropped else "")


def timeout_error(config: SandboxConfig) -> str:
    return f"TimeoutError: the code ran longer than {config.timeout_seconds:g} s"


def outcome_of(error: str | None) -> str:
    """The word for an error in metrics."""
    if error is None:
        return "ok"
    kind = error.partition(":")[0]
    return {"TimeoutError": "timeout", "MemoryError": "memory", "Crash": "crash"}.get(kind, "error")
