"""SubprocessRunner: interpreters in sandboxes of confine's, each in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import _pool, _worker, codec
from .base import (
    OUTPUT_LIMIT,
    RESULT_LIMIT,
    RunnerUnavailable,
    SandboxedRunner,
    SandboxResult,
    checked,
    outcome_of,
    packed,
    text,
    timeout_error,
)
from .config import SandboxConfig, SecurityLevel

#: What an interpreter with its libraries takes beside what the code may take, in MiB.
OVERHEAD_MB = 256


#: How many sandboxes a runner may have: a variable of the environment.
SANDBOXES_VARIABLE = "CONFINE_RUNNER_SANDBOXES"


def default_sandboxes() -> int:
    """As many as $CONFINE_RUNNER_SANDBOXES says, or two for each CPU that is there for this process, and four at least."""
    said = os.environ.get(SANDBOXES_VARIABLE)
    if said is not None:
        if not re.fullmatch("[1-9][0-9]{0,3}", said):
            raise ValueError(f"{SANDBOXES_VARIABLE}={said[:80]!r} is not a number from 1 to 9999")
        return int(said)
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(4, 2 * cpus)


class PooledRunner(SandboxedRunner):
    """A runner whose interpreters wait in a pool: what SubprocessRunner and DockerRunner have in common.

    warm: how many interpreters are kept ready. max_sandboxes: how many there are at most; who comes when all are at work waits for
    one, as long as code may run. None: as many as $CONFINE_RUNNER_SANDBOXES says, or else two for each CPU, and four at least.
    output_limit: bytes of each of stdout and stderr; result_limit: of the result. unsafe_pickle: what has no form as data is pickled
    both ways, and whoever wrote the code then runs what he likes here, too.
    """

    def __init__(
        self,
        config: SandboxConfig,
        start: Callable[[], _pool.Interpreter],
        *,
        warm: int = 1,
        max_sandboxes: int | None = None,
        output_limit: int = OUTPUT_LIMIT,
        result_limit: int = RESULT_LIMIT,
        unsafe_pickle: bool = False,
    ) -> None:
        super().__init__(config)
        if not hasattr(os, "fork"):
            raise RunnerUnavailable("this runner needs a Unix")
        if warm < 0 or output_limit < 0 or result_limit < 0:
            raise ValueError("warm, output_limit and result_limit are 0 or more")
        self.max_sandboxes = default_sandboxes() if max_sandboxes is None else max_sandboxes
        if self.max_sandboxes < max(1, warm):
            raise ValueError("max_sandboxes is 1 or more, and no less than warm")
        self.output_limit, self.result_limit, self.unsafe_pickle = output_limit, result_limit, unsafe_pickle
        self._pool = _pool.Pool(start, warm, self.max_sandboxes, self._meter)
        self._finalizer = weakref.finalize(self, self._pool.close)
        self._pool.warm()

    def execute(self, code: str, context: dict[str, Any] | None = None) -> SandboxResult:
        """Runs code with those variables in an interpreter that is ready."""
        context = checked(code, {} if context is None else context)
        began = time.perf_counter()
        error: str | None
        try:
            interpreter = self._pool.claim(self.config.timeout_seconds)
        except _pool.Busy:
            error = f"TimeoutError: no sandbox was free within {self.config.timeout_seconds:g} s: all {self.max_sandboxes} are at work"
            result = SandboxResult(False, None, "", "", error, 0.0, None)
            self._meter.add(result, outcome_of(error), (time.perf_counter() - began) * 1000)
            return result
        started = time.perf_counter()
        again, untouched, memory = False, True, None
        out = err = ""
        value = None
        try:
            abilities = _pool.abilities(interpreter, self.unsafe_pickle, _has_arrow)
            packet = packed(context, abilities)
            job = {
                "code": code,
                "timeout": self.config.timeout_seconds,
                "memory": self.config.max_memory_mb << 20,
                "modules": self.config.allowed_modules,
                "output": self.output_limit,
                "result": self.result_limit,
                "abilities": {"arrow": abilities.arrow, "pickle": abilities.pickle},
            }
            started, untouched = time.perf_counter(), False
            deadline = time.monotonic() + self.config.timeout_seconds + _pool.GRACE
            outcome = interpreter.run(job, packet)
            memory = round(outcome.memory_kb / 1024, 3)
            out, err = text(outcome.stdout, outcome.dropped[0]), text(outcome.stderr, outcome.dropped[1])
            deadline = max(deadline, time.monotonic() + _pool.READ_TIME)
            value, error, again = self._answer(outcome, abilities, deadline)
        except _pool.Lost as e:
            error = self._lost(interpreter, str(e))
        finally:
            took = time.perf_counter() - started
            if untouched or (again and interpreter.again):
                self._pool.give_back(interpreter)
            else:
                self._pool.discard(interpreter)
        result = SandboxResult(
            success=error is None,
            result=value if error is None else None,
            stdout=out,
            stderr=err,
            error=error,
            execution_time_ms=took * 1000,
            memory_used_mb=memory,
        )
        self._meter.add(result, outcome_of(error), (started - began) * 1000)
        return result

    def _answer(self, outcome: _pool.Outcome, abilities: codec.Abilities, deadline: float) -> tuple[Any, str | None, bool]:
        """The value, the error, and whether the sandbox may be used again."""
        if outcome.end == "timeout":
            return None, timeout_error(self.config), False
        if outcome.end == "signal":
            return None, f"Crash: the interpreter was killed by {_signal(-outcome.code)}", False
        if outcome.end == "exit":
            return None, f"Crash: the interpreter ended with exit code {outcome.code} before there was a result", False
        try:
            if outcome.end != "answer":
                raise codec.CodecError("more than was allowed")
            answer = codec.loads(outcome.packet, abilities, deadline=deadline)
            if type(answer) is not dict or set(answer) != {"error", "value"}:
                raise codec.CodecError("not an answer")
            error, value = answer["error"], answer["value"]
            if error is not None and not isinstance(error, str):
                raise codec.CodecError("an error that is none")
        except codec.CodecTimeout:
            return None, timeout_error(self.config), False
        except Exception as e:  # whatever comes from inside and isn't understood
            return None, f"Crash: the answer can't be read: {e}", False
        return value, None if error is None else error[: 2 * _worker.MAX_ERROR], True

    def _lost(self, interpreter: _pool.Interpreter, why: str) -> str:
        """The error of an execution whose sandbox is no more."""
        if why == "timeout":
            return timeout_error(self.config)
        if why == "protocol":
            return "Crash: the interpreter's answer can't be read"
        report = interpreter.report()
        if report.get("status") == "MEM_LIMIT":
            return f"MemoryError: killed: the sandbox took more than {self.config.max_memory_mb + OVERHEAD_MB} MiB"
        status = report.get("status")
        return "Crash: the sandbox was killed" + (f" ({str(status)[:40]})" if status else "")

    def cleanup(self) -> None:
        """Ends every sandbox of this runner, also those at work. It can't be used any more."""
        self._finalizer()


class SubprocessRunner(PooledRunner):
    """Subprocess-based sandbox for Standard security level.

    fresh: a sandbox of its own for each execution, as always at STRICT. data_dir: a directory that code may read.
    allow_partial: capabilities that may be missing (docs/POLICY.md). isolation: "process", or "vm" for a virtual machine around each
    sandbox (docs/LEVELS.md), whose kernel is vm_kernel unless confine finds one.
    """

    def __init__(
        self,
        config: SandboxConfig,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        allow_partial: Sequence[str] = (),
        fresh: bool = False,
        isolation: str = "process",
        vm_kernel: str | os.PathLike[str] | None = None,
        warm: int = 1,
        max_sandboxes: int | None = None,
        output_limit: int = OUTPUT_LIMIT,
        result_limit: int = RESULT_LIMIT,
        unsafe_pickle: bool = False,
    ) -> None:
        self._check(config)
        if isolation not in ("process", "vm"):
            raise ValueError(f'isolation is "process" or "vm", not {isolation!r}')
        if vm_kernel is not None and isolation != "vm":
            raise ValueError('vm_kernel is for isolation="vm"')
        if sys.platform != "linux":
            raise RunnerUnavailable("SubprocessRunner needs Linux")
        self.data_dir = None if data_dir is None else Path(data_dir).resolve(strict=True)
        self._binary = _binary()
        self._options = _options(config, self.data_dir, allow_partial)
        if isolation == "vm":
            self._options += ("--isolation", "vm")
        if vm_kernel is not None:
            self._options += ("--vm-kernel", os.path.abspath(vm_kernel))
        self.fresh = bool(fresh) or config.security_level is SecurityLevel.STRICT
        preload = [m for m in config.allowed_modules if m != "*"]
        super().__init__(
            config,
            functools.partial(_start, self._binary, self._options, preload, self.fresh),
            warm=warm,
            max_sandboxes=max_sandboxes,
            output_limit=output_limit,
            result_limit=result_limit,
            unsafe_pickle=unsafe_pickle,
        )

    @property
    def enforced(self) -> dict[str, dict[str, Any]]:
        """What holds each capability here, as "confine explain" tells it."""
        return _ledger(self._binary, self._options)


def _binary() -> str:
    from .._binary import find_binary

    return str(find_binary())


def _start(binary: str, options: tuple[str, ...], preload: Sequence[str], fresh: bool) -> _pool.Interpreter:
    # Only where everybody in the PID namespace is the job's can the worker end them all.
    again = not fresh and _ledger(binary, options).get("containment", {}).get("mechanism") == "pid_namespace"
    argv = [binary, *options, "--report", "fd:{report}", "--", _interpreter(), *_pool.ARGUMENTS]
    return _pool.Interpreter(_pool.Command(argv, _environment(), report=True), preload, again)


def _interpreter() -> str:
    """This one, by a name that means the same inside."""
    return os.path.abspath(sys.executable)


def _environment() -> dict[str, str]:
    """confine's own environment: of the caller's only what leads to a cgroup. HOME is where the private home is."""
    kept = ("PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "TMPDIR")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "HOME": "/tmp"}  # noqa: S108


def _options(config: SandboxConfig, data_dir: Path | None, allow_partial: Iterable[str]) -> tuple[str, ...]:
    """The policy, as options of confine's. What a file says of limits doesn't hold here: each has its option."""
    strict = config.security_level is SecurityLevel.STRICT
    permissive = config.security_level is SecurityLevel.PERMISSIVE
    options = [
        *("--profile", config.security_level.value),
        # Of the sandbox; each execution's is its worker's. It bounds what is left of one whose owner was killed.
        *("--time-limit", f"{2 * _pool.LIFETIME + config.timeout_seconds:g}s"),
        *("--cpu-time", "none"),
        *("--memory-limit", f"{config.max_memory_mb + OVERHEAD_MB}M"),
        *("--cpus", "none" if permissive else "1"),
        *("--cpu-limit", "50%" if strict else "none"),
        *("--output-limit", "none"),
        *("--grace", "0s"),
        *("--workdir", "none"),
        "--virtual-fs",
        *("--tty", "never"),
        *("--log", "quiet"),
    ]
    for path in _shown(data_dir):
        options += ["--mount", f"{path}:{path}"]
    for name, value in _pool.ENVIRONMENT.items():
        options += ["--env", f"{name}={value}"]
    for capability in allow_partial:
        options += ["--allow-partial", capability]
    return tuple(options)


def _shown(data_dir: Path | None) -> list[str]:
    """What the interpreter needs besides /usr, which is always there: its prefixes and the directories of its packages."""
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    paths |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {str(Path(sys.executable).resolve().parent)}
    found = [Path(os.path.abspath(p)) for p in filter(None, paths) if Path(p).is_dir()]
    if data_dir is not None:
        found.append(data_dir)
    shown: list[Path] = []
    for path in sorted(set(found)):
        system = path == Path("/") or path.is_relative_to("/usr") or path in (Path("/bin"), Path("/lib"))
        if not system and not any(path.is_relative_to(above) for above in shown):
            shown.append(path)
    # A private view has at least one mount. Where everything is below /usr, that is the standard library, once more.
    return [str(path) for path in shown] or [sysconfig.get_path("stdlib")]


@functools.lru_cache(maxsize=64)
def _ledger(binary: str, options: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    asked = [binary, "explain", "--json", *options, "--", _interpreter()]
    try:
        answer = subprocess.run(asked, capture_output=True, env=_environment(), cwd="/", timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as e:
        raise RunnerUnavailable(f"{binary}: {e}") from e
    try:
        enforced = json.loads(answer.stdout)["enforced"]
        if not isinstance(enforced, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        said = answer.stderr.decode("utf-8", "replace").strip()
        raise RunnerUnavailable(f"the sandbox can't be had here: {said}") from None
    return enforced


@functools.lru_cache(maxsize=1)
def _has_arrow() -> bool:
    return codec.has_arrow()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
