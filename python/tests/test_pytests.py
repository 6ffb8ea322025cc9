"""run_pytests and run_pytests_v2: the acceptance criteria of ADR-0001 and ADR-0002."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import confine
from confine import pytests
from confine.pytests import SandboxPolicy, SandboxResultV2, run_pytests, run_pytests_v2
from conftest import at_once, executable, need

FIELDS = {"version", "status", "rc", "reason", "stdout", "stderr", "duration_ms", "cmd", "traceId", "enforced"}
LINE = {"requested", "applied", "details", "enabled", "effective", "mechanism", "fallback_reason", "policy_kind", "version"}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("linux")
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("VLTAIR_", "COVERAGE_", "COV_CORE_", "PYTEST_ADDOPTS", "TRACEPARENT")):
            monkeypatch.delenv(name)


def run(code: str, **policy: Any) -> SandboxResultV2:
    Path("test_it.py").write_text(code)
    return run_pytests_v2(["test_it.py"], SandboxPolicy(**policy))


def body(line: str) -> str:
    return f"def test_it():\n    {line}\n"


def test_defaults_are_those_of_the_document() -> None:
    assert SandboxPolicy() == SandboxPolicy(30, 20, 512 * 2**20, 32, 512, 2**20, False, False)
    assert confine.SandboxPolicy is SandboxPolicy
    assert confine.run_pytests is run_pytests
    assert confine.run_pytests_v2 is run_pytests_v2
    assert confine.SandboxResultV2 is SandboxResultV2


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("wall_time_s", 0, ValueError),
        ("wall_time_s", float("inf"), ValueError),
        ("wall_time_s", float("nan"), ValueError),
        ("cpu_time_s", -1, ValueError),
        ("mem_bytes", 1.5, TypeError),
        ("mem_bytes", "512M", TypeError),
        ("pids_max", True, TypeError),
        ("nofile", None, TypeError),
        ("output_bytes", 0, ValueError),
        ("enforce_network", 1, TypeError),
        ("allow_partial", "yes", TypeError),
    ],
)
def test_a_policy_that_is_none_is_refused(field: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        SandboxPolicy(**{field: value})  # type: ignore[arg-type]
    policy = SandboxPolicy()
    setattr(policy, field, value)
    with pytest.raises(error, match=field):
        run_pytests_v2([], policy)


def test_an_unknown_field_and_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError):
        SandboxPolicy(wall_time=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="policy"):
        run_pytests_v2([], {"wall_time_s": 3})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="list of paths"):
        run_pytests_v2("tests")
    with pytest.raises(TypeError):
        run_pytests_v2([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="null"):
        run_pytests_v2(["a\0b"])


def test_a_suite_that_passes() -> None:
    result = run(body("pass"))
    assert set(result) == FIELDS
    assert (result["version"], result["status"], result["rc"], result["reason"]) == (2, "OK", 0, "exited 0")
    assert "1 passed" in result["stdout"]
    assert result["stderr"] == ""
    assert result["cmd"][:3] == [sys.executable, "-m", "pytest"]
    assert len(result["traceId"]) == 32
    assert result["duration_ms"] > 0
    for name in ("wall_time", "cpu_time", "memory", "tasks", "file_descriptors", "output", "network", "filesystem", "syscalls"):
        assert set(result["enforced"][name]) >= LINE
    for name, wanted in (("wall_time", "30s"), ("cpu_time", "20s"), ("memory", "512M"), ("tasks", "32"), ("output", "1M")):
        line = result["enforced"][name]
        assert (line["requested"], line["applied"], line["effective"]) == (wanted, True, True)
    assert json.loads(json.dumps(result)) == result


def test_a_suite_that_fails_has_the_code_of_pytest() -> None:
    assert [run(body("assert 0"))[key] for key in ("status", "rc")] == ["FAILED", 1]  # type: ignore[literal-required]
    assert run("")["rc"] == 5
    assert run_pytests_v2(["missing.py"])["rc"] == 4


@pytest.mark.parametrize(
    ("line", "policy", "status", "rc"),
    [
        ("import time; time.sleep(60)", {"wall_time_s": 6}, "TIMEOUT", 124),
        ("while True: pass", {"cpu_time_s": 1}, "CPU_LIMIT", 152),
        ("[bytearray(2**20) for _ in range(2000)]", {"mem_bytes": 100 * 2**20}, "MEM_LIMIT", 137),
        ("import os; os.kill(os.getpid(), 15)", {}, "KILLED_TERM", 143),
        ("import os; os.kill(os.getpid(), 9)", {}, "KILLED_KILL", 137),
    ],
)
def test_what_ends_a_run_has_its_status_and_code(line: str, policy: dict[str, Any], status: str, rc: int) -> None:
    first, second = (run(body(line), **policy) for _ in range(2))
    assert (first["status"], first["rc"]) == (status, rc)
    assert "collected 1 item" in first["stdout"]
    # Two runs are the same, but for how long they took, what they are called, and the sockets of the host that the ledger tells of.
    for result in (first, second):
        result.update(duration_ms=0, traceId="")
        del result["enforced"]["filesystem"]["details"]
    assert [line for line in first["enforced"].items() if line not in second["enforced"].items()] == []
    assert first == second


def test_more_processes_than_there_may_be() -> None:
    many = "import threading, time\n    for _ in range(40): threading.Thread(target=time.sleep, args=(0.2,)).start()"
    enough = run(body(many), pids_max=100)
    assert enough["status"] == "OK"
    assert "hit" not in enough["enforced"]["tasks"]
    result = run(body(many), pids_max=32)
    assert (result["status"], result["rc"]) == ("FAILED", 1)
    assert "can't start new thread" in result["stdout"]
    assert result["enforced"]["tasks"]["hit"] is True


def test_more_files_than_there_may_be() -> None:
    # pytest needs some to say what went wrong.
    many = "import os\n    try: [os.open('/dev/null', 0) for _ in range(100)]\n    finally: os.closerange(40, 200)"
    assert run(body(many), nofile=512)["status"] == "OK"
    assert "Too many open files" in run(body(many), nofile=64)["stdout"]


def at_the_end(code: str) -> None:
    """Write past what pytest captures."""
    Path("conftest.py").write_text(f"import os\ndef pytest_unconfigure():\n    {code}\n")


def test_output_is_cut_and_says_so() -> None:
    at_the_end("for _ in range(30): os.write(1, b'~' * 100000); os.write(2, b'^' * 100000)")
    result = run(body("pass"), output_bytes=2**20)
    assert result["status"] == "OK"
    for stream in ("stdout", "stderr"):
        text: str = result[stream]  # type: ignore[literal-required]
        assert text.endswith(("~\n[TRUNCATED]\n", "^\n[TRUNCATED]\n"))
        assert len(text) == 2**20 + len("\n[TRUNCATED]\n")


def test_output_that_is_no_text() -> None:
    at_the_end("os.write(1, b'\\xff\\n')")
    assert "\ufffd" in run(body("pass"))["stdout"]


def test_the_environment_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["given", os.environ.get("PYTHONPATH", "")]))
    Path("given").mkdir()
    Path("given/found.py").write_text("")
    code = """
import os, found
def test_it():
    assert os.environ["PYTHONHASHSEED"] == "0" and os.environ["PYTHONDONTWRITEBYTECODE"] == "1"
    assert "SECRET_TOKEN" not in os.environ
    assert os.environ["PYTHONPATH"].startswith("given")
"""
    result = run(code)
    assert result["status"] == "OK", result["stdout"]


def test_what_tests_write_is_gone() -> None:
    result = run(body("open('made', 'w').close(); open('test_it.py', 'w').close()"))
    assert result["status"] == "OK"
    assert not Path("made").exists()
    assert Path("test_it.py").read_text()


def test_paths_elsewhere_node_ids_and_dashes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "helper.py").write_text("X = 1\n")
    (other / "test_far.py").write_text("from helper import X\ndef test_a(): open('w', 'w').close()\ndef test_b(): assert 0\n")
    assert run_pytests_v2([f"{other}/test_far.py::test_a"])["status"] == "OK"
    assert run_pytests_v2([str(other)])["rc"] == 1
    assert sorted(path.name for path in other.iterdir()) == ["helper.py", "test_far.py"]
    # A path is no option of pytest's.
    assert run_pytests_v2(["--version"])["rc"] == 4
    (tmp_path / "arguments").write_text("--version\n")
    assert run_pytests_v2([f"@{tmp_path / 'arguments'}"])["rc"] == 4


def test_a_current_directory_that_is_too_broad_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    (tmp_path / "project/test_it.py").write_text(body("pass"))
    why = "the current directory .* is too broad: start in the directory of a project, or give absolute paths"
    for paths in ["project"], []:
        result = run_pytests_v2(paths)
        assert result["status"] == "FAILED"
        assert re.fullmatch(f"exited {result['rc']}; {why}", result["reason"])
        assert re.search(why, run_pytests(paths, 30)[1])
    assert run_pytests_v2([str(tmp_path / "project")])["status"] == "OK"
    assert run_pytests_v2(["."])["status"] == "OK"
    assert run_pytests_v2([".", "missing"])["reason"] == "exited 4"


def test_the_network_is_the_callers_unless_it_is_enforced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = body(f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).close()")
        free, held = run(connect), run(connect, enforce_network=True)
    assert (free["status"], free["enforced"]["network"]["enabled"]) == ("OK", False)
    assert (held["status"], held["rc"]) == ("FAILED", 1)
    assert held["enforced"]["network"]["effective"]


def test_a_denied_call_is_a_status_and_told() -> None:
    result = run("import ctypes\ndef test_it():\n    assert ctypes.CDLL(None).unshare(0x10000000) == 0\n")
    assert (result["status"], result["rc"]) == ("SANDBOX_DENIED", 1)
    denied = result["enforced"]["syscalls"]["denied"]
    assert denied[0]["what"].startswith("unshare(")
    assert denied[0]["count"] == 1


def test_flags_of_the_second_document(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(body("pass"))["enforced"]
    assert plain["syscalls"]["policy_kind"] == "default"
    assert (plain["restricted_launch"]["enabled"], plain["restricted_launch"]["fallback_reason"]) == (False, "")
    monkeypatch.setenv("VLTAIR_SANDBOX_ENABLE_SECCOMP", "1")
    monkeypatch.setenv("VLTAIR_SANDBOX_ENABLE_RESTRICTED_LAUNCH", "1")
    result = run(body("pass"))
    assert result["status"] == "OK"
    line = result["enforced"]["syscalls"]
    assert (line["policy_kind"], line["enabled"], line["effective"]) == ("strict", True, True)
    assert line["version"].startswith("strict/")
    launch = result["enforced"]["restricted_launch"]
    assert (launch["enabled"], launch["effective"], launch["fallback_reason"]) == (True, False, "platform_not_supported")
    # The shim, too: what it is told shows in what the program is told.
    told: list[list[str]] = []
    real = subprocess.run

    def seen(command: Any, **options: Any) -> Any:
        told.append(command)
        return real(command, **options)

    monkeypatch.setattr(subprocess, "run", seen)
    assert run_pytests(["test_it.py"], 30)[0] == 0
    assert "--seccomp=strict" in told[-1]


REPORT: dict[str, Any] = {
    "version": 1, "status": "OK", "rc": 0, "reason": "PARTIAL_ENFORCEMENT", "cause": "exit", "stdout": "", "stderr": "",
    "encoding": {"stdout": "utf-8", "stderr": "utf-8"}, "duration_ms": 3, "trace_id": "1" * 32, "cmd": ["x"],
    "enforced": {"memory": {"requested": "512M", "enabled": True, "applied": True, "effective": False,
                            "mechanism": "none", "details": "why", "fallback_reason": "linux_x"}},
}  # fmt: skip


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any] | str, stderr: str = "", code: int = 0) -> Path:
    """A program that stands in for confine on a host that this one is not; what it was told is in a file."""
    told = tmp_path / "told"
    out = report if isinstance(report, str) else json.dumps(report)
    text = (
        f"#!{sys.executable}\nimport sys\nopen({str(told)!r}, 'w').write('\\n'.join(sys.argv))\n"
        f"sys.stdout.write({out!r})\nsys.stderr.write({stderr!r})\nsys.exit({code})\n"
    )
    path = executable(tmp_path / "fake", text)
    monkeypatch.setattr(pytests, "find_binary", lambda: path)
    return told


@pytest.mark.parametrize("status", ["OK", "FAILED", "TIMEOUT"])
def test_what_holds_in_part_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    told = fake(tmp_path, monkeypatch, {**REPORT, "status": status, "reason": "whatever"})
    result = run_pytests_v2([], SandboxPolicy(allow_partial=True))
    assert (result["status"], result["reason"]) == (status, "PARTIAL_ENFORCEMENT")
    assert result["enforced"]["memory"]["details"] == "why"
    assert result["enforced"]["memory"]["fallback_reason"] == "linux_x"
    assert "--allow-partial=all" in told.read_text()
    run_pytests_v2([], SandboxPolicy())
    assert "--allow-partial" not in told.read_text()
    # An opt-in falls back by itself.
    monkeypatch.setenv("VLTAIR_SANDBOX_ENABLE_SECCOMP", "1")
    run_pytests_v2([], SandboxPolicy())
    assert "--allow-partial=syscalls" in told.read_text()


def test_what_cannot_be_held_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = {"step": "plan", "hint": "--allow-partial memory"}
    fake(tmp_path, monkeypatch, {**REPORT, "status": "INTERNAL_ERROR", "rc": 1, "reason": "memory can't be held", "setup_error": setup})
    result = run_pytests_v2([])
    assert (result["status"], result["rc"]) == ("INTERNAL_ERROR", 1)
    assert result["reason"] == "memory can't be held; hint: --allow-partial memory"


def test_a_sandbox_that_fails_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "", "[confine] no such option\n", 125)
    result = run_pytests_v2([])
    assert (result["status"], result["rc"], result["reason"]) == ("INTERNAL_ERROR", 1, "[confine] no such option")
    assert set(result) == FIELDS
    rc, output = run_pytests([], 3)
    assert (rc, output) == (1, "[INTERNAL_ERROR] [confine] no such option\n")
    for nonsense in ("{", "[]"):
        fake(tmp_path, monkeypatch, nonsense)
        assert run_pytests_v2([])["status"] == "INTERNAL_ERROR"
    monkeypatch.setattr(pytests, "find_binary", lambda: str(tmp_path / "missing"))
    monkeypatch.setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    result = run_pytests_v2([])
    assert result["status"] == "INTERNAL_ERROR"
    assert result["traceId"] == "0af7651916cd43dd8448eb211c80319c"


def test_a_program_that_does_not_end_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, REPORT)
    (tmp_path / "fake").write_text("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(pytests, "_PATIENCE_S", 0.1)
    assert "did not end" in run_pytests_v2([], SandboxPolicy(wall_time_s=0.1))["reason"]


def test_the_trace_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert run(body("pass"))["traceId"] == "0af7651916cd43dd8448eb211c80319c"


def test_the_shim_keeps_its_form() -> None:
    Path("test_it.py").write_text(body("print('said'); assert 0"))
    rc, output = run_pytests(["test_it.py"], 30)
    assert rc == 1
    assert "said" in output
    Path("test_it.py").write_text(body("import time; time.sleep(60)"))
    rc, output = run_pytests(["test_it.py"], 1)
    assert rc == 124
    assert output.endswith("[TIMEOUT] wall-clock limit of 1s reached\n")


def test_many_at_once() -> None:
    Path("test_it.py").write_text(body("pass"))
    assert at_once(4, lambda _: run_pytests(["test_it.py"], 60)[0]) == [0] * 4


def test_coverage_of_processes_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("python:coverage")
    (tmp_path / ".coveragerc").write_text("[run]\nparallel = true\n")
    (tmp_path / "mod.py").write_text("def hit():\n    return 1\n\ndef missed():\n    return 2\n")
    code = "import subprocess, sys\ndef test_it():\n    subprocess.run([sys.executable, '-c', 'import mod; mod.hit()'], check=True)\n"
    monkeypatch.setenv("COVERAGE_PROCESS_START", str(tmp_path / ".coveragerc"))
    # What starts coverage in every process: what pip installs for it may be another interpreter's.
    (tmp_path / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert run(code)["status"] == "OK"
    found = sorted(path.name for path in tmp_path.glob(".coverage.confine.*"))
    assert len(found) >= 2
    coverage = pytest.importorskip("coverage")
    combined = coverage.Coverage(config_file=str(tmp_path / ".coveragerc"), data_file=str(tmp_path / ".coverage"))
    combined.combine()
    data = combined.get_data()
    assert 2 in data.lines(str(tmp_path / "mod.py"))
    assert 5 not in data.lines(str(tmp_path / "mod.py"))
    assert data.lines(str(tmp_path / "test_it.py"))
    data.close()


def test_what_looks_like_coverage_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rc").write_text("[run]\n")
    (tmp_path / "secret").write_text("s3cret")
    monkeypatch.setenv("COVERAGE_PROCESS_START", str(tmp_path / "rc"))
    monkeypatch.setenv("COVERAGE_FILE", str(tmp_path / "out" / "cov"))
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(pytests, "_COVERAGE_BYTES", 1000)
    code = f"""
import os
place = os.path.dirname(os.environ["COVERAGE_FILE"])
def test_it():
    os.symlink({str(tmp_path / "secret")!r}, place + "/data.link")
    os.mkfifo(place + "/data.fifo")
    os.mkdir(place + "/data.directory")
    open(place + "/data.large", "w").write("x" * 1001)
    open(place + "/other", "w").write("other")
    open(place + "/data.good", "w").write("good")
"""
    result = run(code)
    assert result["status"] == "OK", result["stdout"]
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["good"]


def descendants(pid: int) -> dict[int, tuple[list[str], str]]:
    """The processes below pid: the arguments of each, and its state."""
    found: dict[int, tuple[list[str], str]] = {}
    todo = [str(pid)]
    while todo:
        for children in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            try:
                for child in children.read_text().split():
                    arguments = Path(f"/proc/{child}/cmdline").read_text().split("\0")
                    found[int(child)] = (arguments, Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0])
                    todo.append(child)
            except OSError:  # it has ended meanwhile
                continue
    return found


@pytest.mark.parametrize("code", ["__import__('time').sleep(100)", "__import__('os').kill(0, 19)"])
def test_nothing_goes_on_when_the_caller_is_killed(code: str) -> None:
    Path("test_it.py").write_text(body(code))
    caller = subprocess.Popen([sys.executable, "-c", "import confine; confine.run_pytests(['test_it.py'], 60)"])
    below: dict[int, tuple[list[str], str]] = {}
    while not any(arguments[1:3] == ["-m", "pytest"] and (state == "T" or "kill" not in code) for arguments, state in below.values()):
        assert caller.poll() is None
        try:
            below = descendants(caller.pid)
        except OSError:  # of glob's
            continue
    watched = [os.pidfd_open(pid) for pid, (arguments, _) in below.items() if "pytest" in arguments]
    try:
        caller.kill()
        caller.wait()
        for descriptor in watched:
            assert select.select([descriptor], [], [], 10)[0], "it goes on"
    finally:
        for descriptor in watched:
            os.close(descriptor)
