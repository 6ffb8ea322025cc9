"""The sandboxes of Inspect: its own checks of sandboxes, and evaluations whose model says what it is told to."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need, runs, until

need("linux", "python:inspect_ai")

import anyio
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import bash, bash_session
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandbox,
)
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

import confine
import confine._server
from confine.errors import BinaryNotFound, PolicyError
from confine.providers.inspect_ai import ConfineConfig, ConfineSandboxEnvironment

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("default")]  # what Inspect warns of is its own affair

# What isn't claimed: there is one user in a sandbox, and nobody makes another.
UNCLAIMED = {"test_exec_as_user": "there is one user"}


@pytest.fixture(autouse=True)
def _their_streams() -> Iterator[None]:
    """What Inspect leaves open goes while its warnings are ignored."""
    yield
    gc.collect()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[SandboxEnvironment]:
    if reason := UNCLAIMED.get(request.node.originalname):
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    async for environment in opened(None):
        yield environment


async def opened(config: Any) -> AsyncIterator[ConfineSandboxEnvironment]:
    environments = await ConfineSandboxEnvironment.sample_init("task", config, {})
    try:
        yield environments["default"].as_type(ConfineSandboxEnvironment)
    finally:
        await ConfineSandboxEnvironment.sample_cleanup("task", config, environments, False)


def test_all_of_their_checks_are_run() -> None:
    ours = {name for name in globals() if name.startswith("test_")}
    from inspect_ai.util._sandbox import self_check

    assert set(self_check.__all__) <= ours
    assert len(self_check.__all__) >= 44
    assert set(UNCLAIMED) < set(self_check.__all__)


# One sandbox.


async def test_a_sandbox_that_has_ended_is_unavailable_and_says_why() -> None:
    async for box in opened(ConfineConfig(policy={"memory_limit": "64M"})):
        ended = await box.exec(["python3", "-c", "x = bytearray(10**9)"])
        assert (ended.success, ended.returncode) == (False, 137)
        assert "MEM_LIMIT: memory limit of 67108864 bytes" in ended.stderr
        for call in (box.exec(["true"]), box.read_file("x"), box.write_file("x", "y")):
            with pytest.raises(SandboxUnavailableError, match="memory limit of 67108864 bytes"):
                await call


async def test_time_limits_are_those_of_the_command_and_of_the_policy() -> None:
    async for box in opened(ConfineConfig(policy={"time_limit": "1s"})):
        with pytest.raises(TimeoutError) as late:
            await box.exec(["sh", "-c", "echo begun; sleep 60"], timeout=600)
        assert getattr(late.value, "truncated_output", None) == "begun\n"
        assert (await box.exec(["true"], timeout=600)).success


async def test_output_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.util._sandbox.limits import override_max_exec_output_size

    async for box in opened("strict"):
        big = await box.exec(["head", "-c", str(9 << 20), "/dev/zero"])  # more than the profile's, and than a Result keeps
        assert len(big.stdout) == 9 << 20
        with override_max_exec_output_size(1000):
            with pytest.raises(OutputLimitExceededError) as error:
                await box.exec(["sh", "-c", "yes 1 | head -c 100000; echo why >&2"])
            assert (error.value.truncated_output or "").startswith("1\n" * 500)
            assert "why" in (error.value.truncated_output or "")
    async for box in opened(ConfineConfig(policy={"output_limit": 1000})):
        with pytest.raises(OutputLimitExceededError):
            await box.exec(["head", "-c", "2000", "/dev/zero"])


async def test_users_who_are_not_there_are_refused() -> None:
    async for box in opened(None):
        me = (await box.exec(["id", "-un"])).stdout.strip()
        for user in (me, (await box.exec(["id", "-u"])).stdout.strip()):
            assert (await box.exec(["id", "-un"], user=user)).stdout.strip() == me
        for user in ("nonexistent", "4711", ""):
            with pytest.raises(SandboxUserUnsupportedError, match=f"one user in this sandbox, {me}"):
                await box.exec(["true"], user=user)


async def test_what_can_not_be_done_with_a_file_is_the_error_of_the_language() -> None:
    async for box in opened(None):
        await box.write_file("dir/file", b"")
        with pytest.raises(FileNotFoundError, match="dir/none"):
            await box.read_file("dir/none")
        with pytest.raises(IsADirectoryError, match="dir"):
            await box.write_file("dir", "x")
        with pytest.raises(PermissionError, match="/etc/new"):
            await box.write_file("/etc/new", "x")
        with pytest.raises(OSError, match="not a regular file"):
            await box.read_file("/dev/zero", text=False)
        assert await box.read_file("dir/../dir/./file") == ""
        with pytest.raises(PermissionError, match="can't be executed"):
            await box.exec(["./dir"])
        missing = await box.exec(["nonexistent"])
        assert (missing.returncode, "command not found" in missing.stderr) == (127, True)


async def test_a_long_input_leaves_no_file() -> None:
    async for box in opened(None):
        result = await box.exec(["sh", "-c", 'wc -c; ls -A /tmp; echo "$1" $X', "-", "a b"], input=b"x" * (5 << 20), env={"X": "y"})
        assert result.stdout == f"{5 << 20}\na b y\n"


async def test_a_command_that_is_cancelled_ends() -> None:
    async for box in opened(None):
        with anyio.move_on_after(0.5) as scope:
            await box.exec(["sleep", "987131"])
        assert scope.cancelled_caught
        assert until(lambda: not runs("sleep 987131"), 5)
        assert (await box.exec(["echo", "on"])).stdout == "on\n"


async def test_a_sample_that_is_cancelled_while_it_opens_leaves_nothing() -> None:
    async with confine.AsyncClient() as client:
        before = len(await client.sandboxes(state="running"))
        for delay in (0, 0.001, 0.01, 0.03):
            with anyio.move_on_after(delay) as scope:
                environments = await ConfineSandboxEnvironment.sample_init("task", None, {})
                await ConfineSandboxEnvironment.sample_cleanup("task", None, environments, True)
                await anyio.sleep_forever()
            assert scope.cancelled_caught
        with pytest.raises(PolicyError):
            await ConfineSandboxEnvironment.sample_init("task", ConfineConfig(more={"second": {"memory_limit": "nonsense"}}), {})
        assert len(await client.sandboxes(state="running")) == before


async def test_a_server_that_dies_makes_sandboxes_unavailable_and_the_next_has_another() -> None:
    async for box in opened(None):
        waits = asyncio.ensure_future(box.exec(["sleep", "987139"], timeout=600))
        await asyncio.sleep(0.3)
        server = confine._server._server
        assert server
        server.process.kill()
        for call in (waits, box.exec(["true"]), box.read_file("x"), box.write_file("x", "y")):
            with pytest.raises(SandboxUnavailableError, match="server"):
                await call
        assert until(lambda: not runs("sleep 987139"), 5)
    async for box in opened(None):
        assert (await box.exec(["true"])).success


async def test_a_configuration_is_checked() -> None:
    with pytest.raises(TypeError, match="ConfineConfig or the name of a profile, not SandboxEnvironmentSpec"):
        await ConfineSandboxEnvironment.task_init("task", SandboxEnvironmentSpec("confine"))
    with pytest.raises(ValueError, match="default"):
        await ConfineSandboxEnvironment.task_init("task", ConfineConfig(more={"default": None}))
    with pytest.raises(ValueError, match="nonsense"):
        ConfineConfig.model_validate({"nonsense": 1})
    config = ConfineConfig(policy={"memory_limit": "1G"}, env={"A": "b"})
    assert ConfineSandboxEnvironment.config_deserialize(config.model_dump()) == config


def test_trio_is_refused_before_anything_starts() -> None:
    # Without an event loop of asyncio's, which is what it looks like under trio.
    step = ConfineSandboxEnvironment.task_init("task", None)
    with pytest.raises(RuntimeError, match="needs asyncio"):
        step.send(None)


async def test_clean_up_ends_what_is_left_on_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONFINE_URL", raising=False)
    await ConfineSandboxEnvironment.cli_cleanup(None)
    assert "Nothing to clean up" in capsys.readouterr().out
    url = f"unix:{tmp_path}/s"
    server = subprocess.Popen(
        [confine.find_binary(), "serve", "--until-eof", "--listen", url], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        monkeypatch.setenv("CONFINE_URL", url)
        for _ in range(500):
            if (tmp_path / "s").exists():
                break
            await asyncio.sleep(0.01)
        async with confine.AsyncClient() as client:
            other = await client.sandbox()
            left = [(await ConfineSandboxEnvironment.sample_init("task", None, {}))["default"] for _ in range(3)]
            ids = [environment.as_type(ConfineSandboxEnvironment).sandbox.id for environment in left]
            await ConfineSandboxEnvironment.cli_cleanup(ids[0])
            assert {doc["id"] for doc in await client.sandboxes(state="running")} == {*ids[1:], other.id}
            await ConfineSandboxEnvironment.cli_cleanup(None)
            assert [doc["id"] for doc in await client.sandboxes(state="running")] == [other.id]
        await ConfineSandboxEnvironment.sample_cleanup("task", None, {str(i): e for i, e in enumerate(left)}, False)
    finally:
        server.communicate(timeout=20)


# Evaluations.


def says(*outputs: str | tuple[str, dict[str, Any]]) -> Any:
    """A model that says this, or calls these tools."""
    name = "mockllm/model"
    told = [ModelOutput.from_content(name, o) if isinstance(o, str) else ModelOutput.for_tool_call(name, *o) for o in outputs]
    model = get_model(name, custom_outputs=told)

    async def count(text: str) -> int:  # theirs is downloaded
        return len(text)

    model.api.count_text_tokens = count  # type: ignore[method-assign]
    return model


def evaluate(tmp_path: Path, task: Task, model: Any = None, **words: Any) -> EvalLog:
    return eval(task, model=model or says("done"), display="none", log_dir=str(tmp_path), **words)[0]


def does(action: Callable[[], Any]) -> Solver:
    """A solver that has something done in the sandbox."""

    @solver
    def made() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output = ModelOutput.from_content("mockllm/model", str(await action()))
            return state

        return solve

    return made()


def test_a_model_calls_tools(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="?", target="6", files={"data/numbers.txt": "1 2 3"}, setup="tr ' ' '+' <data/numbers.txt >sum.txt")],
        solver=[use_tools(bash(timeout=10)), generate()],
        scorer=includes(),
        sandbox="confine",
    )
    log = evaluate(tmp_path, task, says(("bash", {"command": "echo $(($(cat sum.txt)))"}), "it is 6"))
    assert log.status == "success", log.error
    assert log.samples
    assert [(m.text, m.error) for m in log.samples[0].messages if m.role == "tool"] == [("6\n", None)]
    assert log.results and log.results.scores[0].metrics["accuracy"].value == 1


def test_tools_of_inspect_that_are_put_inside_work(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="?")],
        solver=[use_tools(bash_session()), generate()],
        sandbox=SandboxEnvironmentSpec("confine", ConfineConfig(policy={"memory_limit": "1G", "processes": 128})),
    )
    steps = [("bash_session", {"action": "type_submit", "input": line}) for line in ("cd /usr && x=5", "echo $PWD-$((x + 1))")]
    log = evaluate(tmp_path, task, says(*steps, "done"))
    assert log.status == "success", log.error
    assert log.samples
    assert "/usr-6" in [m.text for m in log.samples[0].messages if m.role == "tool"][-1]


def test_samples_have_sandboxes_of_their_own_and_several_by_name(tmp_path: Path) -> None:
    async def action() -> str:
        await sandbox().write_file("mine", "x")
        assert not (await sandbox("other").exec(["cat", "mine"])).success
        return (await sandbox("other").exec(["sh", "-c", "echo $WHO; ulimit -n"])).stdout + (await sandbox().exec(["ls"])).stdout

    config = ConfineConfig(policy="standard", more={"other": {"file_descriptors": 77}}, env={"WHO": "me"})
    task = Task(
        dataset=[Sample(input=str(i), target="me\n77\nmine") for i in range(4)],
        solver=does(action),
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("confine", config),
    )
    log = evaluate(tmp_path, task)
    assert log.status == "success", log.error
    assert log.results and log.results.scores[0].metrics["accuracy"].value == 1


def test_nothing_begins_when_the_policy_can_not_be_held(tmp_path: Path) -> None:
    begun = []

    async def action() -> None:
        begun.append(1)

    for config in (ConfineConfig(policy={"memory_limit": "much"}), "no-such-profile", ConfineConfig(policy={"require": ["no-such-thing"]})):
        task = Task(dataset=[Sample(input="?"), Sample(input="!")], solver=does(action), sandbox=SandboxEnvironmentSpec("confine", config))
        with pytest.raises(PolicyError):
            evaluate(tmp_path, task)
    assert not begun


async def test_without_the_program_nothing_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(confine._server, "_server", None)
    monkeypatch.delenv("CONFINE_URL", raising=False)
    monkeypatch.setenv("CONFINE_BINARY", str(tmp_path / "none"))
    with pytest.raises(BinaryNotFound):
        await ConfineSandboxEnvironment.task_init("task", None)


def test_a_sample_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    async def action() -> None:
        await sandbox().exec(["sh", "-c", "setsid sleep 987133 & exec sleep 987133"])

    log = evaluate(tmp_path, Task(dataset=[Sample(input="?")], solver=does(action), sandbox="confine", time_limit=2))
    assert log.samples and log.samples[0].limit and log.samples[0].limit.type == "time"
    assert until(lambda: not runs("sleep 987133"), 5)
    with confine.Client() as client:
        assert not client.sandboxes(state="running", labels={"made-by": "inspect_ai"})


EVALUATION = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what starts in the background
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

@solver
def waits():
    async def solve(state, generate):
        print("begun", flush=True)
        await sandbox().exec(["sleep", "987137"])
        return state
    return solve

eval(Task(dataset=[Sample(input="?")], solver=waits(), sandbox="confine"), model="mockllm/model", display="none", log_dir=LOGS)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_evaluation_that_is_killed_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    # By the entry point, as installed: the evaluation imports nothing of confine's.
    info = tmp_path / "confine-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: confine\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[inspect_ai]\nconfine = confine.providers.inspect_ai\n")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}
    script = f"LOGS = {str(tmp_path)!r}{EVALUATION}"
    evaluation = subprocess.Popen(
        [sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert evaluation.stdout
        assert evaluation.stdout.readline() == b"begun\n", evaluation.communicate()[1].decode()
        assert until(lambda: runs("sleep 987137"), 60)
        evaluation.send_signal(number)
        evaluation.communicate(timeout=30)
    finally:
        evaluation.kill()
        evaluation.communicate()
    assert until(lambda: not runs("sleep 987137"), 5)
