"""One suite for all runners: what every program may rely on, whichever it gets. What differs is in docs/PYTHON.md, and tested here."""

# ruff: noqa: E501 - programs are shown in one line

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from confine.runners import ContextError, RunnerClosed, SandboxConfig, SandboxedRunner, SandboxResult
from conftest import at_once
from runner_cases import KINDS, runner

ISOLATED = ("subprocess", "vm", "podman")
MODULES = ("math", "json", "time", "sys", "os", "threading", "json.decoder", "dataclasses")


def config(kind: str) -> SandboxConfig:
    """An emulated machine takes its time for what is not about time, too."""
    return SandboxConfig(timeout_seconds=30 if kind == "vm" else 1, max_memory_mb=64, allowed_modules=MODULES)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def box(kind: str) -> Iterator[SandboxedRunner]:
    with runner(kind, config(kind)) as made:
        yield made


@pytest.fixture(scope="module")
def brief(kind: str, box: SandboxedRunner) -> Iterator[tuple[SandboxedRunner, int]]:
    """A runner, and how many seconds code may take in it."""
    if kind != "vm":
        yield box, 1
        return
    with runner(kind, SandboxConfig(timeout_seconds=5, max_memory_mb=64, allowed_modules=MODULES)) as made:
        yield made, 5


def test_result_has_the_documents_fields(box: SandboxedRunner) -> None:
    result = box.execute("a + b", {"a": 1, "b": 2})
    assert isinstance(result, SandboxResult)
    assert (result.success, result.result, result.stdout, result.stderr, result.error) == (True, 3, "", "", None)
    assert result.execution_time_ms > 0
    assert result.memory_used_mb is None or result.memory_used_mb >= 0


VALUES = [
    ("6 * 7", 42),
    ("x = 1\nx + 1", 2),
    ("result = 5", 5),
    ("result = 5\nresult + 1", 6),
    ("result = 5\nNone", None),
    ("x = 1", None),
    ("", None),
    ("# nothing", None),
    ("'docstring'", "docstring"),
    ("def f(): return [1, (2, 3), {4}]\nf()", [1, (2, 3), {4}]),
    ("if __name__ == '__main__':\n    result = 'main'", "main"),
    ("from __future__ import annotations\ndef f(x: missing): pass\nf.__annotations__['x']", "missing"),
    ("[i for i in range(3) if i]", [1, 2]),
    ("import sys\nsys.exit()", None),
    ("x: int = 3\nlambda_ = lambda: x\nlambda_()", 3),
    ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(3).x", 3),
    ("class A: pass\nA.__module__", "__main__"),
]


def test_values(box: SandboxedRunner, kind: str) -> None:
    # A container for each takes its time: all of them run the same worker.
    for code, value in VALUES[::6] if kind == "podman" else VALUES:
        result = box.execute(code, {})
        assert result.error is None, (code, result.stderr)
        assert (result.result, type(result.result)) == (value, type(value)), code


def test_result_that_was_given_and_not_assigned_is_none(box: SandboxedRunner) -> None:
    assert box.execute("x = result + 1", {"result": 7}).result is None
    assert box.execute("result = result + 1", {"result": 7}).result == 8


ERRORS = [
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("raise ValueError", "ValueError"),
    ("nonsense", "NameError: name 'nonsense' is not defined"),
    ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E: <str failed>"),
    ("class E(BaseException): pass\nraise E('x')", "E: x"),
]


def test_errors(box: SandboxedRunner, kind: str) -> None:
    for code, error in ERRORS[::4] if kind == "podman" else ERRORS:
        result = box.execute(code, {})
        assert (result.success, result.result, result.error) == (False, None, error)


def test_syntax_error_is_a_result(box: SandboxedRunner, kind: str) -> None:
    for code in ("1 +", "x = (", "return 1", "\0", "'\ud800'")[:: 3 if kind == "podman" else 1]:
        result = box.execute(code, {})
        assert not result.success, code
        assert result.error


def test_traceback_shows_the_code_and_nothing_of_the_runner(box: SandboxedRunner) -> None:
    result = box.execute("def f():\n    return 1 / 0\n\nf()", {})
    assert 'File "<sandbox>", line 4, in <module>' in result.stderr
    assert "return 1 / 0" in result.stderr
    assert "_worker" not in result.stderr
    assert result.stderr.count("File ") == 2


def test_streams_are_told_apart(box: SandboxedRunner) -> None:
    result = box.execute("import sys\nprint('out', '\\u00e9')\nprint('err', file=sys.stderr)\nsys.stdout.write('no newline')\n1", {})
    assert (result.stdout, result.stderr, result.result) == ("out \u00e9\nno newline", "err\n", 1)


def test_output_before_an_error_is_kept(box: SandboxedRunner) -> None:
    result = box.execute("print('before')\n1 / 0", {})
    assert result.stdout == "before\n"


def test_large_output_is_cut_and_marked(box: SandboxedRunner) -> None:
    result = box.execute("print('x' * 3_000_000)\n7", {})
    assert result.result == 7
    assert result.stdout.endswith("\n[TRUNCATED]\n")
    assert len(result.stdout) == (1 << 20) + len("\n[TRUNCATED]\n")


def test_modules_of_the_list(box: SandboxedRunner) -> None:
    assert box.execute("import math\nmath.floor(1.5)", {}).result == 1
    assert box.execute("import json.decoder\njson.decoder.__name__", {}).result == "json.decoder"
    assert box.execute("from json import dumps, decoder\ndumps(1)", {}).result == "1"


def test_modules_that_are_not_on_the_list(box: SandboxedRunner, kind: str) -> None:
    codes = ("import socket", "from socket import socket", "__import__('socket')", "import mathx", "import http.client")
    for code in codes[:: 3 if kind == "podman" else 1]:
        result = box.execute(code, {})
        assert result.error is not None, code
        assert result.error.startswith("ImportError: import of ")


def test_libraries_import_what_they_need(box: SandboxedRunner) -> None:
    # The function is the library's: its imports are its own.
    assert box.execute("import os\nos.get_exec_path({'PATH': 'x'})", {}).result == ["x"]


def test_variables_do_not_pass_to_the_next_execution(box: SandboxedRunner) -> None:
    assert box.execute("kept = 1\nimport math\nmath.pi", {}).result == math.pi
    assert box.execute("kept", {}).error == "NameError: name 'kept' is not defined"


def test_time_limit(brief: tuple[SandboxedRunner, int]) -> None:
    box, limit = brief
    result = box.execute("print('before')\nwhile True: pass", {})
    assert (result.success, result.error) == (False, f"TimeoutError: the code ran longer than {limit} s")
    assert 1000 * limit <= result.execution_time_ms < 2000 * limit
    assert result.stdout == "before\n"


def test_time_limit_of_code_that_catches_everything(brief: tuple[SandboxedRunner, int]) -> None:
    box, limit = brief
    code = f"import time\nend = time.time() + {limit} + 0.02\nwhile time.time() < end:\n    try:\n        time.sleep(0.01)\n    except BaseException:\n        pass\nwhile True: time.sleep(0.01)"
    result = box.execute(code, {})
    assert result.error == f"TimeoutError: the code ran longer than {limit} s"


def test_memory_limit(box: SandboxedRunner) -> None:
    result = box.execute("x = bytearray(200 << 20)", {})
    assert result.error == "MemoryError"
    assert box.execute("len(bytearray(20 << 20))", {}).result == 20 << 20


def test_recursion(box: SandboxedRunner) -> None:
    result = box.execute("def f(): f()\nf()", {})
    assert result.error is not None
    assert result.error.startswith("RecursionError")


@pytest.mark.parametrize("bad", [None, 1, b"1+1"])
def test_code_of_a_wrong_type(box: SandboxedRunner, bad: object) -> None:
    with pytest.raises(TypeError):
        box.execute(bad, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [1, "x", [("a", 1)], {1: 2}])
def test_context_of_a_wrong_type(box: SandboxedRunner, bad: object) -> None:
    with pytest.raises(TypeError):
        box.execute("1", bad)  # type: ignore[arg-type]


def test_threads_may_share_a_runner(box: SandboxedRunner) -> None:
    assert at_once(4, lambda n: box.execute("import time\ntime.sleep(0.05)\nn * 2", {"n": n}).result) == [0, 2, 4, 6]


def test_cleanup_is_idempotent_and_final(kind: str) -> None:
    made = runner(kind, config(kind))
    assert made.execute("1", {}).result == 1
    made.cleanup()
    made.cleanup()
    with pytest.raises(RunnerClosed):
        made.execute("1", {})


def test_metrics_count(kind: str) -> None:
    with runner(kind, SandboxConfig(timeout_seconds=0.3, max_memory_mb=64, allowed_modules=())) as made:
        for code in ("1", "1/0", "while 1: pass", "bytearray(200 << 20)"):
            made.execute(code, {})
        metrics = made.metrics
    assert metrics.executions == 4
    assert metrics.outcomes == {"ok": 1, "error": 1, "timeout": 1, "memory": 1}
    assert metrics.execution_time_ms["max"] >= 300
    assert set(metrics.execution_time_ms) == {"p50", "p99", "max"}


# What they can't do alike.


@pytest.mark.parametrize("escape", ["().__class__.__base__.__subclasses__()", "print.__self__.__import__('socket')"])
def test_module_list_is_no_wall_anywhere(box: SandboxedRunner, kind: str, escape: str) -> None:
    """An escape from the list gets out of it. In the sandbox there is nothing to reach with that."""
    if "subclasses" in escape:
        code = f"[c for c in {escape} if c.__name__ == '_wrap_close'][0].__init__.__globals__['getpid']()"
    else:
        code = f"s = {escape}\ns.create_connection(('192.0.2.1', 80), 2)"
    result = box.execute(code, {})
    if "subclasses" in escape:
        import os

        assert (result.result == os.getpid()) == (kind not in ISOLATED)
    elif kind in ISOLATED:
        assert result.error is not None
        assert "unreachable" in result.error


def test_who_reaches_the_caller(kind: str, box: SandboxedRunner, tmp_path: object) -> None:
    secret = tmp_path / "secret"  # type: ignore[operator]
    secret.write_text("open")
    result = box.execute("with open(path) as f: result = f.read()", {"path": str(secret)})
    assert (result.result == "open") == (kind not in ISOLATED)
    if kind in ISOLATED:
        assert result.error is not None
        assert result.error.startswith("FileNotFoundError")


def test_what_is_no_data(kind: str, box: SandboxedRunner) -> None:
    """In process, objects go in and come out as they are; elsewhere only data does."""
    thing = object()
    if kind not in ISOLATED:
        assert box.execute("thing", {"thing": thing}).result is thing
        return
    with pytest.raises(ContextError, match=r"context\['thing'\]: a value of type object has no form as data"):
        box.execute("thing", {"thing": thing})
    result = box.execute("def f(): pass\n[f]", {})
    assert result.success
    assert result.result[0].type == "function"


def test_crash(kind: str, box: SandboxedRunner) -> None:
    if kind not in ISOLATED:
        pytest.skip("it would be this process's")
    result = box.execute("import os\nprint('before')\nos._exit(3)", {})
    assert result.error == "Crash: the interpreter ended with exit code 3 before there was a result"
    assert result.stdout == "before\n"
    result = box.execute("import os\nos.kill(os.getpid(), 11)", {})
    assert result.error == "Crash: the interpreter was killed by SIGSEGV"


def test_ledger(kind: str, box: SandboxedRunner) -> None:
    """Each says what it enforces; those that enforce nothing say nothing."""
    ledger = box.enforced
    if kind not in ISOLATED:
        assert ledger == {}
        return
    assert ledger["memory"]["effective"] is True
    assert ledger["network"]["mechanism"] == ("podman" if kind == "podman" else "network_namespace")


def test_memory_is_measured(kind: str, box: SandboxedRunner) -> None:
    if kind not in ISOLATED:
        pytest.skip("the peak of this whole process, which may have been higher before")
    small = box.execute("1", {}).memory_used_mb
    large = box.execute("x = bytearray(30 << 20)\n1", {}).memory_used_mb
    assert small is not None
    assert large is not None
    assert small < 10
    assert 29 <= large - small < 40
