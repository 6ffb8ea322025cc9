"""Interpreters that wait: who gets which, what becomes of those that fail, and that none is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from confine.runners import ContextError, Picture, RunnerClosed, RunnerUnavailable, SandboxConfig, SubprocessRunner
from confine.runners import subprocess as module
from conftest import at_once, executable, need, until
from runner_cases import MARK, SYSTEM_PYTHON, leftovers

CONFIG = SandboxConfig(timeout_seconds=5, max_memory_mb=64, allowed_modules=("*",))
PID = "import os\n(os.stat('/proc/self/ns/pid').st_ino, open('/proc/1/stat').read().split()[21])"


@pytest.fixture(autouse=True)
def _linux() -> None:
    need("linux")


def parked(runner: SubprocessRunner) -> int:
    return len(runner._pool.parked)


def test_one_is_ready_before_it_is_asked_for() -> None:
    with SubprocessRunner(CONFIG) as runner:
        assert until(lambda: parked(runner) == 1)
        assert runner.execute("1", {}).result == 1
        assert until(lambda: parked(runner) == 1)
        assert runner.metrics.sandboxes_started == 2
        assert runner.metrics.waiting_time_ms["max"] < 100


def test_executions_at_once_have_a_sandbox_each() -> None:
    with SubprocessRunner(CONFIG) as runner:
        assert len(set(at_once(4, lambda _: runner.execute("import time\ntime.sleep(1)\n" + PID, {}).result))) == 4


def test_there_are_never_more_than_may_be() -> None:
    with SubprocessRunner(CONFIG, max_sandboxes=3) as runner:
        assert at_once(20, lambda _: runner.execute("import time\ntime.sleep(0.1)\n6 * 7", {}).result) == [42] * 20
        assert runner.metrics.sandboxes_started <= 3
        for _ in range(5):  # those that fail make room
            assert runner.execute("import os\nos._exit(1)", {}).error
        assert runner.execute("6 * 7", {}).result == 42
        assert 0 < runner._pool.live <= 3


@pytest.mark.parametrize("warm", [0, 1])
def test_whoever_finds_all_at_work_waits_only_so_long(warm: int) -> None:
    config = SandboxConfig(timeout_seconds=4, allowed_modules=("*",))
    with SubprocessRunner(config, max_sandboxes=1, warm=warm) as runner:
        assert runner.execute("1", {}).result == 1
        used = time.process_time()
        errors = at_once(3, lambda _: runner.execute("import time\ntime.sleep(2.8)", {}).error)
        assert [e for e in errors if e] == ["TimeoutError: no sandbox was free within 4 s: all 1 are at work"]
        assert runner.metrics.outcomes == {"ok": 3, "timeout": 1}
        assert time.process_time() - used < 1  # they sleep
        assert runner.metrics.sandboxes_started == 1


def test_what_nobody_needs_any_more_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confine.runners._pool.IDLE_TIME", 0.4)
    before = leftovers()
    with SubprocessRunner(CONFIG, max_sandboxes=4) as runner:
        at_once(4, lambda _: runner.execute("import time\ntime.sleep(1)", {}))
        assert until(lambda: runner._pool.live == 1)
        one = len(leftovers() - before)
        assert until(lambda: len(leftovers() - before) <= one)
        assert runner.execute("6 * 7", {}).result == 42
    assert not leftovers() - before


def test_how_many_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.default_sandboxes() >= 4
    monkeypatch.setenv("CONFINE_RUNNER_SANDBOXES", "2")
    with SubprocessRunner(CONFIG) as runner:
        assert runner.max_sandboxes == 2
    for text in ("0", "-1", "x", "", "9" * 5000):
        monkeypatch.setenv("CONFINE_RUNNER_SANDBOXES", text)
        with pytest.raises(ValueError, match="CONFINE_RUNNER_SANDBOXES"):
            SubprocessRunner(CONFIG)
    for most, warm in ((0, 0), (1, 2)):
        with pytest.raises(ValueError, match="max_sandboxes is 1 or more"):
            SubprocessRunner(CONFIG, max_sandboxes=most, warm=warm)


def test_an_interrupt_while_one_gets_clean_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with SubprocessRunner(CONFIG, max_sandboxes=1, warm=0) as runner:
        assert runner.execute("1", {}).result == 1

        def interrupted(_: object) -> bool:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("confine.runners._pool.Interpreter.ready", interrupted)
            with pytest.raises(KeyboardInterrupt):
                runner.execute("1", {})
        assert runner.execute("6 * 7", {}).result == 42


def test_another_takes_the_place_of_one_that_failed() -> None:
    with SubprocessRunner(CONFIG) as runner:
        first = runner.execute(PID, {}).result
        assert until(lambda: parked(runner) == 1)
        assert runner.execute("import os\nos._exit(1)", {}).error
        began = time.monotonic()
        assert runner.execute(PID, {}).result != first
        assert time.monotonic() - began < 0.5
        assert runner.metrics.sandboxes_thrown_away == 1


def test_one_that_died_while_it_waited_is_replaced() -> None:
    with SubprocessRunner(CONFIG) as runner:
        runner.execute("1", {})
        assert until(lambda: parked(runner) == 1)
        for one in [*runner._pool.idle, *runner._pool.parked]:
            one.process.kill()
            one.process.wait()
        assert runner.execute("6 * 7", {}).result == 42


def test_one_that_never_gets_clean_is_replaced() -> None:
    before = leftovers()
    with SubprocessRunner(CONFIG, warm=0) as runner:
        assert runner.execute("1", {}).result == 1
        (one,) = runner._pool.idle
        assert one.ready()
        one.cleaning = True  # as if it had not said so yet, and then never does
        began = time.monotonic()
        assert runner.execute("6 * 7", {}).result == 42
        assert time.monotonic() - began < 8
        assert runner.metrics.sandboxes_thrown_away == 1
    assert not leftovers() - before


def test_one_that_is_old_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with SubprocessRunner(CONFIG) as runner:
        first = runner.execute(PID, {}).result
        for one in [*runner._pool.idle, *runner._pool.parked]:
            one.started -= 1000
        assert runner.execute(PID, {}).result != first


def test_a_variable_that_cannot_go_costs_no_sandbox() -> None:
    with SubprocessRunner(CONFIG) as runner:
        with pytest.raises(ContextError):
            runner.execute("1", {"x": object()})
        assert runner.execute("1", {}).result == 1
        assert runner.metrics.sandboxes_thrown_away == 0


def test_interrupt_throws_the_sandbox_away() -> None:
    with SubprocessRunner(SandboxConfig(timeout_seconds=30, allowed_modules=("*",))) as runner:
        runner.execute("1", {})
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            runner.execute("import time\ntime.sleep(20)", {})
        timer.join()
        assert runner.execute("6 * 7", {}).result == 42
        assert runner.metrics.sandboxes_thrown_away == 1


def test_cleanup_ends_an_execution_of_another_thread() -> None:
    runner = SubprocessRunner(SandboxConfig(timeout_seconds=30, allowed_modules=("*",)))
    before = leftovers()
    runner.execute("1", {})
    results = []
    thread = threading.Thread(target=lambda: results.append(runner.execute("import time\ntime.sleep(20)", {})))
    thread.start()
    assert until(lambda: not runner._pool.idle)
    time.sleep(0.5)
    runner.cleanup()
    thread.join(5)
    assert not thread.is_alive()
    assert results[0].error.startswith("Crash: the sandbox was killed")
    assert not leftovers() - before


def test_cleanup_while_one_is_starting() -> None:
    before = leftovers()
    for wait in (0, 0.005, 0.02, 0.05):
        runner = SubprocessRunner(CONFIG)
        time.sleep(wait)
        began = time.monotonic()
        runner.cleanup()
        assert time.monotonic() - began < 5
        with pytest.raises(RunnerClosed):
            runner.execute("1", {})
    assert not leftovers() - before


def test_a_runner_that_is_forgotten_leaves_nothing() -> None:
    before = leftovers()
    runner = SubprocessRunner(CONFIG)
    runner.execute("1", {})
    assert leftovers() - before
    del runner
    gc.collect()
    assert until(lambda: not leftovers() - before)


def test_cleanup_ends_what_was_stopped_or_has_a_session_of_its_own() -> None:
    before = leftovers()
    with SubprocessRunner(SandboxConfig(timeout_seconds=0.5, allowed_modules=("*",))) as runner:
        for code in ("os.kill(os.getppid(), 19)", "os.kill(-1, 19)", "[os.setsid(), os.fork()] if os.fork() == 0 else 0"):
            runner.execute(f"import os, time\n{code}\ntime.sleep(9)", {})
        assert leftovers() - before
    assert not leftovers() - before


PROGRAM = """
import os, sys, threading, time
from confine.runners import SandboxConfig, SubprocessRunner, _pool
_pool.ARGUMENTS[-1] += os.environ["MARK"]
runner = SubprocessRunner(SandboxConfig(timeout_seconds=30, allowed_modules=("*",)))
assert runner.execute("1", {}).result == 1
"""


def program(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(text)], env={**os.environ, "MARK": MARK}, stdout=subprocess.PIPE, text=True
    )


def test_an_interpreter_that_ends_leaves_nothing() -> None:
    before = leftovers()
    with program("print('end', flush=True)") as process:
        assert process.communicate(timeout=20)[0] == "end\n"
    assert process.returncode == 0
    assert until(lambda: not leftovers() - before)


@pytest.mark.parametrize("busy", [False, True])
def test_an_interpreter_that_is_killed_leaves_nothing(busy: bool) -> None:
    before = leftovers()
    with program(
        f"""
        if {busy}:
            threading.Thread(target=lambda: runner.execute("while 1: pass", {{}}), daemon=True).start()
        time.sleep(0.5)
        print('ready', flush=True)
        time.sleep(60)
        """
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert leftovers() - before
        process.kill()
    assert until(lambda: not leftovers() - before)


def test_a_fork_has_sandboxes_of_its_own_and_holds_none_of_its_parents() -> None:
    """The parent is killed while its fork goes on: what was the parent's ends all the same."""
    before = leftovers()
    with program(
        """
        place = "import os\\n(os.stat('/proc/self/ns/pid').st_ino, open('/proc/1/stat').read().split()[21])"
        mine = runner.execute(place, {}).result
        child = os.fork()
        if child == 0:
            theirs = runner.execute(place, {}).result
            runner.cleanup()
            print(mine != theirs, flush=True)
            time.sleep(3)
            os._exit(0)
        assert runner.execute(place, {}).result == mine
        time.sleep(60)
        """
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.kill()
        assert until(lambda: not leftovers() - before, 2)


def test_a_binary_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = executable(tmp_path / "confine", "#!/bin/sh\necho broken >&2\nexit 1\n")
    monkeypatch.setattr(module, "_binary", lambda: fake)
    with SubprocessRunner(CONFIG) as runner, pytest.raises(RunnerUnavailable, match="broken"):
        runner.execute("1", {})
    monkeypatch.setattr(module, "_binary", lambda: str(tmp_path / "nothing"))
    with SubprocessRunner(CONFIG) as runner, pytest.raises(RunnerUnavailable):
        runner.execute("1", {})


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "hello",
        "\\0\\0\\0\\2\\0\\0\\0\\0\\0\\0\\0\\0{}",
        "\\0\\0\\0\\2\\0\\0\\0\\0\\0\\0\\0\\0[]",
        "\\377\\377\\377\\377\\0\\0\\0\\0\\0\\0\\0\\0",
        "\\0\\0\\0\\2\\377\\0\\0\\0\\0\\0\\0\\0{}",
        "\\0\\0\\0\\2\\0\\0\\0\\0\\0\\0\\0\\0{{",
    ],
)
def test_a_worker_that_says_something_else(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = executable(
        tmp_path / "confine",
        f"#!/bin/sh\n[ \"$1\" != explain ] || {{ echo '{{\"enforced\": {{}}}}'; exit; }}\nprintf '{answer}'\nexec cat >/dev/null\n",
    )
    monkeypatch.setattr(module, "_binary", lambda: fake)
    monkeypatch.setattr("confine.runners._pool.START_TIME", 0.5)
    with SubprocessRunner(CONFIG, warm=0) as runner, pytest.raises(RunnerUnavailable, match="no interpreter started"):
        runner.execute("1", {})


LYING = """#!{python}
import json, struct, sys
if sys.argv[1] == "explain":
    print(json.dumps({{"enforced": {{}}}}))
    sys.exit()
def take(n): return sys.stdin.buffer.read(n)
def say(header, rest=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    sys.stdout.buffer.write(struct.pack(">IQ", len(text), len(rest)) + text + rest)
    sys.stdout.buffer.flush()
take(int.from_bytes(take(4), "big"))
say({{"hello": 1}})
head = take(12)
take(int.from_bytes(head[:4], "big") + int.from_bytes(head[4:], "big"))
good = {{"end": "answer", "code": 0, "memory_kb": 0, "dropped": [0, 0], "parts": [0, 0, 0]}}
def packet(value):
    text = json.dumps({{"v": value, "b": []}}).encode()
    return struct.pack(">I", len(text)) + text
{lie}
take(1)
"""


@pytest.mark.parametrize(
    "lie",
    [
        "say({})",
        "say([])",
        "say({**good, 'parts': None})",
        "say({**good, 'parts': [0, 0]})",
        "say({**good, 'parts': [-1, 0, 1]})",
        "say({**good, 'parts': [1, 0, 0]})",
        "say({**good, 'parts': [0, 0, 2**70]})",
        "say({**good, 'parts': [float('inf'), 0, 0]})",
        "say({**good, 'parts': [float('nan'), 0, 0]})",
        "say({**good, 'dropped': 7})",
        "say({**good, 'dropped': [1, 2, 3]})",
        "say({**good, 'dropped': [{}, []]})",
        "say({**good, 'code': 'x'})",
        "say({**good, 'code': None})",
        "say({**good, 'code': 1e308, 'end': 'signal'})",
        "say({**good, 'code': -1e308, 'end': 'exit'})",
        "say({**good, 'memory_kb': -1})",
        "say({**good, 'memory_kb': 1e308})",
        "say({**good, 'end': ['timeout']})",
        "say({**good, 'end': 'x' * 60_000})",
        "say(b'{\"code\":' + b'9' * 60_000 + b'}')",
        "say(b'[' * 60_000)",
        "say(b'\\xff')",
        "say(b' ' * 70_000)",
        "say({**good, 'parts': [0, 0, 9]}, b'123456789')",
        "say({**good, 'parts': [0, 0, len(packet(7))]}, packet(7))",
        "say({**good, 'parts': [0, 0, len(packet([]))]}, packet([]))",
        "say({**good, 'parts': [0, 0, len(packet({'error': {}, 'value': 1}))]}, packet({'error': {}, 'value': 1}))",
        "sys.stdout.buffer.write(b'\\0\\0\\0\\2' + b'\\xff' * 8 + b'{}'); sys.stdout.flush()",
        "sys.exit()",
    ],
)
def test_a_worker_that_lies_about_a_job(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = executable(tmp_path / "confine", LYING.format(python=sys.executable, lie=lie))
    monkeypatch.setattr(module, "_binary", lambda: fake)
    with SubprocessRunner(CONFIG, warm=0) as runner:
        result = runner.execute("1", {})
        assert not result.success
        assert str(result.error).startswith("Crash: ")
        assert len(str(result.error)) < 1000
        assert runner.metrics.sandboxes_thrown_away == 1


def test_an_option_that_is_none() -> None:
    with SubprocessRunner(CONFIG, allow_partial=("nonsense",)) as runner, pytest.raises(RunnerUnavailable, match="nonsense"):
        runner.execute("1", {})
    for options in ({"warm": -1}, {"output_limit": -1}, {"result_limit": -1}):
        with pytest.raises(ValueError, match="0 or more"):
            SubprocessRunner(CONFIG, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        SubprocessRunner("standard")  # type: ignore[arg-type]


def test_an_interpreter_that_is_all_below_usr() -> None:
    """As distributions have it: there is nothing to show besides /usr."""
    need(f"program:{SYSTEM_PYTHON}")
    program = (
        "import sys\nassert sys.prefix == '/usr' and sys.version_info >= (3, 10)\nprint('started', flush=True)\n"
        "from confine.runners import create_runner\nwith create_runner() as r: print(r.execute('a + b', {'a': 1, 'b': 2}))"
    )
    found = subprocess.run([SYSTEM_PYTHON, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    if "started" not in found.stdout:
        pytest.skip(f"{SYSTEM_PYTHON} is another one")
    assert "success=True, result=3" in found.stdout, found.stderr


def test_the_callers_variables_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("CONFINE_ALLOW_NETWORK", "all"),
        ("CONFINE_MEMORY_LIMIT", "none"),
        ("PYTHONSTARTUP", "/nothing"),
        ("SECRET", "x"),
        ("PYTHONPATH", "/nothing"),
    ):
        monkeypatch.setenv(name, value)
    with SubprocessRunner(CONFIG) as runner:
        inside = runner.execute("import os\ndict(os.environ)", {}).result
        assert not {"SECRET", "PYTHONPATH", "PYTHONSTARTUP", "CONFINE_ALLOW_NETWORK"} & set(inside)
        assert runner.enforced["network"]["requested"] == "none"
        assert runner.enforced["memory"]["requested"] == f"{64 + module.OVERHEAD_MB}M"


def test_a_directory_of_data_can_be_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("1,2\n")
    assert os.access(tmp_path, os.W_OK)
    with SubprocessRunner(CONFIG, data_dir=tmp_path) as runner:
        read = "import os\nopen(os.path.join(d, 'table.csv')).read()"
        assert runner.execute(read, {"d": str(tmp_path)}).result == "1,2\n"
        write = "import os\nopen(os.path.join(d, 'new'), 'w')"
        assert str(runner.execute(write, {"d": str(tmp_path)}).error).startswith("OSError: [Errno 30]")
    with pytest.raises(FileNotFoundError):
        SubprocessRunner(CONFIG, data_dir=tmp_path / "missing")


def test_a_result_that_is_too_large() -> None:
    with SubprocessRunner(CONFIG, result_limit=1000) as runner:
        assert str(runner.execute("bytes(2000)", {}).error).startswith("ResultTooLarge: the result takes 2")
        assert runner.execute("bytes(100)", {}).result == bytes(100)


def test_a_result_of_too_many_values() -> None:
    with SubprocessRunner(SandboxConfig(timeout_seconds=30, max_memory_mb=1024, allowed_modules=())) as runner:
        assert (
            runner.execute("[0] * 3_100_000", {}).error
            == "ResultError: the result can't be carried: there are more than 3000000 values in it"
        )


def test_unsafe_pickle() -> None:
    with SubprocessRunner(CONFIG, unsafe_pickle=True) as runner:
        assert runner.execute("x", {"x": int}).result is int
        assert runner.execute("len", {}).result is len


def test_large_variables_go_in_and_come_out() -> None:
    data = os.urandom(20 << 20)
    config = SandboxConfig(timeout_seconds=20, max_memory_mb=128, allowed_modules=())
    with SubprocessRunner(config) as runner:
        result = runner.execute("x[::-1]", {"x": data})
        assert result.error is None
        assert result.result == data[::-1]
        assert runner.execute("len(x)", {"x": bytes(200 << 20)}).error == "MemoryError: the variables take more than the memory limit"


def test_frames_arrays_and_pictures() -> None:
    need("python:pandas", "python:numpy", "python:PIL")
    import numpy as np
    import pandas as pd
    from PIL import Image

    config = SandboxConfig(timeout_seconds=20, max_memory_mb=512, allowed_modules=("pandas", "numpy", "PIL"))
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    with SubprocessRunner(config) as runner:
        result = runner.execute("print(type(df).__name__)\ndf[df.a > 1]", {"df": frame})
        assert result.error is None
        assert result.stdout == "DataFrame\n"
        pd.testing.assert_frame_equal(result.result, frame[frame.a > 1])
        assert runner.execute("df.a.mean()", {"df": frame}).result == 2.0
        assert runner.execute("df.a.max()", {"df": frame}).result == np.int64(3)
        np.testing.assert_array_equal(runner.execute("x * 2", {"x": np.arange(3)}).result, np.arange(3) * 2)
        pd.testing.assert_series_equal(runner.execute("df.groupby('b').a.sum()", {"df": frame}).result, frame.groupby("b").a.sum())
        picture = runner.execute("image.resize((4, 4))", {"image": Image.new("L", (2, 2))}).result
        assert isinstance(picture, Picture)
        assert runner.execute("image.size", {"image": picture}).result == (2, 2) or runner.execute(
            "image.size", {"image": picture}
        ).result == (4, 4)
        numbers = {runner.execute("import numpy\nnumpy.random.random()", {}).result for _ in range(3)}
        assert len(numbers) == 3


def test_figures_come_out_as_pictures() -> None:
    need("python:matplotlib", "python:pandas")
    config = SandboxConfig(timeout_seconds=30, max_memory_mb=512, allowed_modules=("matplotlib", "pandas"))
    with SubprocessRunner(config) as runner:
        code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig"
        result = runner.execute(code, {})
        assert result.error is None
        assert isinstance(result.result, Picture)
        for code in ("pd.Series([1, 2]).plot()", "pd.DataFrame({'a': [1, 2], 'b': [2, 1]}).plot(subplots=True)"):
            result = runner.execute(f"import pandas as pd\n{code}", {})
            assert result.error is None
            assert isinstance(result.result, Picture)


def test_a_module_that_is_not_installed_is_an_error_of_the_code_that_wants_it() -> None:
    with SubprocessRunner(SandboxConfig(allowed_modules=("nothing_of_this_name", "math"))) as runner:
        assert runner.execute("import math\nmath.floor(1.5)", {}).result == 1
        error = runner.execute("import nothing_of_this_name", {}).error
        assert error == "ModuleNotFoundError: No module named 'nothing_of_this_name'"
