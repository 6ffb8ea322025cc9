"""Run test suites under limits: run_pytests and run_pytests_v2.

    >>> from confine import SandboxPolicy, run_pytests_v2
    >>> result = run_pytests_v2(["tests"], SandboxPolicy(wall_time_s=60))  # doctest: +SKIP
    >>> result["status"], result["rc"], result["reason"]  # doctest: +SKIP
    ('OK', 0, 'exited 0')

pytest runs in the running interpreter's environment, below the program confine and its profile "testing": it writes to an
overlay of the current directory that is thrown away. No server takes part. docs/PYTHON.md says what each status means.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from . import _visible
from ._binary import find_binary
from .errors import ConfineError

__all__ = ["SandboxPolicy", "SandboxResultV2", "run_pytests", "run_pytests_v2"]

#: Of SandboxResultV2. Fields are added, never changed.
VERSION = 2

# Opt-ins of ADR-0002, by the environment; only "1" is yes.
_SECCOMP_FLAG = "VLTAIR_SANDBOX_ENABLE_SECCOMP"
_RESTRICTED_FLAG = "VLTAIR_SANDBOX_ENABLE_RESTRICTED_LAUNCH"

# confine ends with the thread that waits for it, however that ends: PR_SET_PDEATHSIG is 1, SIGKILL 9.
_WITH_US = """import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

# confine ends by itself at the time limit. This is for a confine that doesn't, and for hosts that stood still.
_PATIENCE_S = 60.0

# What measured data may take, of one run; a file of coverage's is some hundred kilobytes.
_COVERAGE_FILES = 4096
_COVERAGE_BYTES = 256 * 2**20


@dataclass
class SandboxPolicy:
    """Limits of a run of tests. Each that cannot be held is an INTERNAL_ERROR, unless allow_partial.

    With enforce_network the tests reach no network. Without it the network is the caller's.
    """

    wall_time_s: float = 30
    cpu_time_s: float = 20
    mem_bytes: int = 512 * 2**20
    pids_max: int = 32
    nofile: int = 512
    output_bytes: int = 1 * 2**20
    enforce_network: bool = False
    allow_partial: bool = False

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise TypeError or ValueError for a field that cannot be one."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "bool":
                if not isinstance(value, bool):
                    raise TypeError(f"{field.name} is True or False, not {value!r}")
                continue
            whole = field.type == "int"
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise TypeError(f"{field.name} is {'a whole number' if whole else 'a number'}, not {value!r}")
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field.name} is more than 0 and finite, not {value!r}")


class SandboxResultV2(TypedDict):
    """How a run of tests ended.

    enforced has a line for each capability: requested, applied, details; enabled, effective, fallback_reason, mechanism; of the
    policy over system calls policy_kind and version; hit, where a limit was reached that doesn't end a run; and under denied what was
    refused, where something was.
    """

    version: int
    status: str
    rc: int
    reason: str
    stdout: str
    stderr: str
    duration_ms: int
    cmd: list[str]
    traceId: str
    enforced: dict[str, dict[str, Any]]


def run_pytests(paths: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run pytest on paths under the defaults of SandboxPolicy, and give its exit code and output.

    The codes are those of run_pytests_v2: 124 says that timeout_s was over.
    """
    result = run_pytests_v2(paths, SandboxPolicy(wall_time_s=timeout_s))
    output = result["stdout"] + result["stderr"]
    if result["status"] not in ("OK", "FAILED") or "; " in result["reason"]:
        output += ("" if not output or output.endswith("\n") else "\n") + f"[{result['status']}] {result['reason']}\n"
    return result["rc"], output


def run_pytests_v2(paths: Sequence[str], policy: SandboxPolicy | None = None) -> SandboxResultV2:
    """Run pytest on paths (files, directories, node IDs) under policy, and say how it ended and what was enforced.

    Only wrong arguments raise. Whatever else goes wrong is a result, with the status INTERNAL_ERROR.
    """
    policy = SandboxPolicy() if policy is None else policy
    if not isinstance(policy, SandboxPolicy):
        raise TypeError(f"policy is a SandboxPolicy, not {policy!r}")
    policy.validate()
    if isinstance(paths, str | bytes):
        raise TypeError("paths is a list of paths, not one string")
    paths = [os.fspath(path) for path in paths]
    if not all(isinstance(path, str) for path in paths) or any("\0" in path for path in paths):
        raise ValueError("paths are strings without a null character")

    # A path is no option of pytest's, however it begins.
    paths = ["./" + path if path.startswith(("-", "@")) else path for path in paths]
    # The order of tests and the head of the output are the same each time.
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *paths]
    with _coverage_directory() as coverage:
        try:
            places = [path.split("::")[0] for path in paths]
            result = _result(_run(command, places, policy, coverage), command)
            # Of pytest: what was named is not there, or there are no tests.
            if result["reason"] in ("exited 4", "exited 5") and (why := _visible.hidden(places, os.getcwd())):
                result["reason"] += "; " + why
            return result
        except (ConfineError, OSError, ValueError, subprocess.SubprocessError) as error:
            return _internal_error(str(error), command)


def with_us(command: list[str]) -> list[str]:
    """The command that starts command, a program by its path, so that it ends with the thread that does so."""
    if sys.platform == "linux" and sys.executable:
        return [sys.executable, "-I", "-S", "-c", _WITH_US, str(os.getpid()), *command]
    return command


def _flag(name: str) -> bool:
    return os.environ.get(name) == "1"


def _seconds(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _arguments(paths: Sequence[str], policy: SandboxPolicy, coverage: str | None) -> list[str]:
    """Options of confine for policy."""
    options = [
        "--json",
        "--profile=testing",
        "--log=normal",
        "--exit-codes=normalized",
        f"--time-limit={_seconds(policy.wall_time_s)}",
        f"--cpu-time={_seconds(policy.cpu_time_s)}",
        f"--memory-limit={policy.mem_bytes}",
        f"--processes={policy.pids_max}",
        f"--file-descriptors={policy.nofile}",
        f"--output-limit={policy.output_bytes}",
        "--env=PYTHONHASHSEED=0",
        "--env=PYTHONDONTWRITEBYTECODE=1",
        "--env=PYTHONPATH",
        "--seccomp=" + ("strict" if _flag(_SECCOMP_FLAG) else "default"),
    ]
    if not policy.enforce_network:
        options.append("--allow-network=all")
    if policy.allow_partial:
        options.append("--allow-partial=all")
    elif _flag(_SECCOMP_FLAG):
        # An opt-in by the environment is held as far as the host can, and the ledger says how far.
        options.append("--allow-partial=syscalls")
    options += _visible.options(paths, os.getcwd())
    config = os.environ.get("COVERAGE_PROCESS_START")
    if config:
        options.append("--env=COVERAGE_PROCESS_START")
        if os.path.isfile(config):
            options.append("--allow-read=" + os.path.abspath(config))
    if coverage:
        options += ["--allow-write=" + coverage, f"--env=COVERAGE_FILE={coverage}/data"]
    return options


def _run(command: list[str], paths: Sequence[str], policy: SandboxPolicy, coverage: str | None) -> dict[str, Any]:
    """The report of confine on command, with the streams in it."""
    run = with_us([str(find_binary()), *_arguments(paths, policy, coverage), "--", *command])
    try:
        done = subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=policy.wall_time_s + _PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise ConfineError("confine did not end after its time limit") from None
    if not done.stdout:
        # Nothing was started: what was asked for is wrong, or can't be had.
        raise ConfineError(done.stderr.decode("utf-8", "replace").strip() or f"confine ended with {done.returncode} and no report")
    report = json.loads(done.stdout)
    if not isinstance(report, dict):
        raise ConfineError("confine's report is not an object")
    return report


def _result(report: dict[str, Any], command: list[str]) -> SandboxResultV2:
    # Which number a process has is not the same each time.
    status, reason = report["status"], re.sub(r" \(pid \d+\)", "", report["reason"])
    # What ended the run is in status; that not everything was held must not get lost behind it.
    if status != "INTERNAL_ERROR" and any(line["enabled"] and not line["effective"] for line in report["enforced"].values()):
        reason = "PARTIAL_ENFORCEMENT"
    if setup := report.get("setup_error"):
        hint = setup.get("hint")
        reason = f"{reason}; hint: {hint}" if hint and hint not in reason else reason
    return {
        "version": VERSION,
        "status": status,
        "rc": report["rc"],
        "reason": reason,
        "stdout": _text(report, "stdout"),
        "stderr": _text(report, "stderr"),
        "duration_ms": report["duration_ms"],
        "cmd": report.get("cmd") or command,
        "traceId": report["trace_id"],
        "enforced": _ledger(report),
    }


def _text(report: dict[str, Any], stream: str) -> str:
    text: str = report.get(stream) or ""
    if report.get("encoding", {}).get(stream) == "base64":
        import base64

        text = base64.b64decode(text).decode("utf-8", "replace")
    return text


def _ledger(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every capability with every field, also those that confine leaves out where they are empty."""
    lines = {name: _line(**line) for name, line in sorted(report.get("enforced", {}).items())}
    lines["restricted_launch"] = _line(
        requested="1" if _flag(_RESTRICTED_FLAG) else "none",
        enabled=_flag(_RESTRICTED_FLAG),
        # A restricted token is Windows's; what takes its place elsewhere stands under "privileges".
        details="a restricted token, on Windows",
        fallback_reason="platform_not_supported" if _flag(_RESTRICTED_FLAG) else "",
    )
    for name in report.get("limits_hit", []):
        lines.setdefault(name, _line())["hit"] = True
    for violation in report.get("violations", []):
        name = {"syscall": "syscalls", "network": "network"}.get(violation.get("kind"), "filesystem")
        denied = {key: violation[key] for key in ("what", "count", "rule") if key in violation}
        lines.setdefault(name, _line()).setdefault("denied", []).append(denied)
    return lines


def _line(**given: Any) -> dict[str, Any]:
    return {
        "requested": "none",
        "applied": False,
        "details": "",
        "enabled": False,
        "effective": False,
        "mechanism": "none",
        "fallback_reason": "",
        "policy_kind": "",
        "version": "",
        **given,
    }


def _internal_error(reason: str, command: list[str]) -> SandboxResultV2:
    return {
        "version": VERSION,
        "status": "INTERNAL_ERROR",
        "rc": 1,
        "reason": reason,
        "stdout": "",
        "stderr": "",
        "duration_ms": 0,
        "cmd": command,
        "traceId": _trace_id(),
        "enforced": {},
    }


def _trace_id() -> str:
    """As confine has it: that of the caller's TRACEPARENT, or else a new one."""
    parts = os.environ.get("TRACEPARENT", "").split("-")
    if len(parts) >= 4 and len(parts[1]) == 32 and set(parts[1]) <= set("0123456789abcdef") and set(parts[1]) != {"0"}:
        return parts[1]
    return secrets.token_hex(16)


@contextlib.contextmanager
def _coverage_directory() -> Iterator[str | None]:
    """A directory for what coverage measures inside, whose files go beside the caller's data file in the end.

    None unless COVERAGE_PROCESS_START asks for coverage of processes. The files' names end as coverage's parallel ones do, so that
    "coverage combine" takes them.
    """
    config = os.environ.get("COVERAGE_PROCESS_START")
    if not config:
        yield None
        return
    directory = tempfile.mkdtemp(prefix="confine-coverage-")
    try:
        yield directory
        _keep_coverage(directory, _data_file(config))
    finally:
        with contextlib.suppress(RecursionError):  # directories in directories are the tests' doing
            shutil.rmtree(directory, ignore_errors=True)


def _data_file(config: str) -> str:
    """Where coverage, so configured, would have its data: below the current directory, unless it says otherwise."""
    named: Any = os.environ.get("COVERAGE_FILE")
    if not named:
        try:
            import coverage

            named = coverage.Coverage(config_file=config).get_option("run:data_file")
        except Exception:  # it reads a file of the caller's, and nothing was measured if it can't
            named = None
    return os.path.abspath(named if isinstance(named, str) else ".coverage")


def _keep_coverage(directory: str, data_file: str) -> None:
    """Copy what tests have left in directory: regular files alone, and no more than there may be."""
    left = _COVERAGE_BYTES
    for number, entry in enumerate(sorted(os.scandir(directory), key=lambda entry: entry.name)):
        if number >= _COVERAGE_FILES or not (entry.name == "data" or entry.name.startswith("data.")):
            continue
        try:
            # Links are the tests' own, and a FIFO would wait for a writer.
            source = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            info = os.fstat(source)
            if not stat.S_ISREG(info.st_mode) or info.st_size > left:
                continue
            with open(source, "rb", closefd=False) as file:
                data = file.read(left)
        finally:
            os.close(source)
        left -= len(data)
        with open(f"{data_file}.confine.{secrets.token_hex(8)}", "xb") as target:
            target.write(data)
