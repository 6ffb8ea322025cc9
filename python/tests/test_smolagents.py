"""The executor of smolagents: real agents with a model that says what it is told to, and code that wants more than it may."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need, runs, until

need("linux", "python:smolagents")

import numpy as np
import PIL.Image
from smolagents import CodeAgent, Model, Tool, tool
from smolagents.agent_types import AgentImage, AgentText
from smolagents.local_python_executor import InterpreterError
from smolagents.models import ChatMessage, MessageRole

import confine
from confine.errors import PolicyError
from confine.providers.smolagents import ConfineExecutor


@pytest.fixture
def executor() -> Iterator[ConfineExecutor]:
    with ConfineExecutor("standard", time_limit=10) as executor:
        yield executor


def open_sandboxes() -> int:
    with confine.Client() as client:
        return len(client.sandboxes(state="running"))


class Script(Model):  # type: ignore[misc]
    """A model that says these pieces of code, one after another."""

    def __init__(self, *codes: str):
        super().__init__(model_id="script")
        self.codes = list(codes)
        self.seen: list[str] = []

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        self.seen.append(messages[-1].content[0]["text"])
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: so be it\n<code>\n{self.codes.pop(0)}\n</code>")


# Agents.


@tool
def price(what: str) -> float:
    """Says what something costs.

    Args:
        what: the thing
    """
    return {"apple": 0.5, "pear": 0.75}[what]


class Counter(Tool):  # type: ignore[misc]
    """A tool with a state, which has no source that could be sent anywhere."""

    name = "count"
    description = "Counts its calls."
    inputs: dict[str, Any] = {}  # noqa: RUF012
    output_type = "integer"

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.pid = 0

    def forward(self) -> int:
        self.calls += 1
        self.pid = os.getpid()
        return self.calls


def test_an_agent_works_with_state_tools_and_variables(executor: ConfineExecutor) -> None:
    counter = Counter()
    model = Script(
        "total = sum(price(f) for f in basket)\nprint('so far', total)",
        "total += count() + count()\nnonsense",
        "final_answer({'total': total, 'parts': (1, 2), 'pid': __import__('os').getpid()})",
    )
    with CodeAgent(tools=[price, counter], model=model, executor=executor, verbosity_level=0) as agent:
        answer = agent.run("How much?", additional_args={"basket": ["apple", "pear"]})
    assert answer["total"] == 4.25
    assert answer["parts"] == (1, 2)
    assert (counter.calls, counter.pid) == (2, os.getpid())
    assert answer["pid"] != os.getpid()
    assert "so far 1.25" in model.seen[1]
    assert "NameError: name 'nonsense' is not defined" in model.seen[2]
    assert executor._inside is None  # the agent has cleaned up


def test_an_agent_may_have_agents(executor: ConfineExecutor) -> None:
    with ConfineExecutor() as other:
        helper = CodeAgent(
            tools=[], model=Script("final_answer(6 * 7)"), executor=other, name="helper", description="helps", verbosity_level=0
        )
        model = Script("final_answer(helper('please help'))")
        agent = CodeAgent(tools=[], managed_agents=[helper], model=model, executor=executor, verbosity_level=0)
        assert "42" in agent.run("?")


def test_a_picture_is_an_answer() -> None:
    with ConfineExecutor(imports=["PIL.Image"]) as executor:
        agent = CodeAgent(
            tools=[],
            model=Script("import PIL.Image\nfinal_answer(sketch.convert('RGB').resize((3, 2)))"),
            executor=executor,
            verbosity_level=0,
        )
        answer = agent.run("draw", additional_args={"sketch": PIL.Image.new("L", (2, 2), 255)})
        assert isinstance(answer, AgentImage)
        assert answer.to_raw().getpixel((0, 0)) == (255, 255, 255)
        with pytest.raises(InterpreterError, match="a picture of 9000x9000 is too large"):
            executor("import PIL.Image; PIL.Image.new('1', (9000, 9000))")


# Values, output, errors.


def test_values_go_in_and_come_out() -> None:
    with ConfineExecutor(imports=["numpy"]) as executor:
        executor.send_variables({"a": np.arange(3), "b": b"\0\xff", "t": AgentText("words"), "s": {1, 2}})
        assert executor("import numpy\n(a + 1).tolist(), b, t, type(t).__name__, s").output == (
            [1, 2, 3],
            b"\0\xff",
            "words",
            "str",
            {1, 2},
        )
        assert (executor("a * 2").output == np.arange(3) * 2).all()
        assert executor("x = 1").output is None
        assert executor("object").output == "<class 'object'>"
        with pytest.raises(TypeError, match=r"the variable 'f' can't be sent to a sandbox: .*function"):
            executor.send_variables({"f": lambda: 1})


def test_output_is_that_of_every_process_and_is_bounded(executor: ConfineExecutor) -> None:
    said = executor("import os, sys\nprint('one')\nsys.stderr.write('two\\n')\n_ = os.system('echo three')\nos.system('echo four')")
    assert (said.logs, said.output) == ("one\ntwo\nthree\nfour\n", 0)
    long = executor("print('begin'); print('x' * 10_000_000); print('end')").logs
    assert len(long) < 51_000
    assert long.startswith("begin\n")
    assert "[TRUNCATED]" in long
    assert long.endswith("end\n")
    assert executor("1").logs == ""


def test_errors_are_told_as_python_tells_them(executor: ConfineExecutor) -> None:
    with pytest.raises(InterpreterError, match=r'File "<agent>", line 2, in <module>\n    1/0\n(.*\n)?ZeroDivisionError: division by zero'):
        executor("print('before')\n1/0")
    assert executor.state["_print_outputs"] == "before\n"
    with pytest.raises(InterpreterError, match="SyntaxError"):
        executor("def (")
    with pytest.raises(InterpreterError, match=r"the value can't be carried: ValueError: it takes 20000\d\d\d bytes"):
        executor("big = 'x' * 20_000_000\nbig")
    assert executor("len(big)").output == 20_000_000
    with pytest.raises(InterpreterError, match="SystemExit"):
        executor("exit(3)")
    assert executor("1").output == 1


def test_tools_are_called_here_with_data_only(executor: ConfineExecutor) -> None:
    seen: list[Any] = []

    def note(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return lambda: None if args == ("bad",) else args

    executor.send_tools({"note": note, "fails": lambda: 1 / 0, "image": lambda: AgentImage(PIL.Image.new("L", (1, 1)))})
    for code, why in {
        "note('bad')": "CodecError: a value of type function",
        "note(object())": "CodecError: a value of type object",
        "fails()": "fails: ZeroDivisionError: division by zero",
    }.items():
        with pytest.raises(InterpreterError, match=why):
            executor(code)
    assert seen == [(("bad",), {})]
    assert executor(
        "from threading import Thread\nt = Thread(target=lambda: price_list.append(1))\nprice_list = []\nt.start(); t.join()\nprice_list"
    ).output == [1]
    with pytest.raises(ValueError, match="whose name is 'no name'"):
        executor.send_tools({"no name": note})


def test_an_answer_is_final_whatever_the_code_catches(executor: ConfineExecutor) -> None:
    executor.send_tools({"final_answer": lambda answer: f"<{answer}>"})
    answer = executor("try:\n    final_answer('it')\nexcept BaseException:\n    pass\nprint('after')")
    assert (answer.output, answer.is_final_answer) == ("<it>", True)
    assert not executor("1").is_final_answer


def test_an_executor_does_one_thing_at_a_time(executor: ConfineExecutor) -> None:
    executor.send_tools({"again": lambda: executor("1"), "more": lambda: executor.send_variables({"x": 1})})
    for code in ("again()", "more()"):
        with pytest.raises(InterpreterError, match="needs an executor of its own"):
            executor(code)
    # Whoever gives up may end it from elsewhere.
    threading.Timer(0.5, executor.cleanup).start()
    with pytest.raises(InterpreterError, match="the sandbox is no more"):
        executor("while True: pass")
    assert executor("1").output == 1


def test_code_that_forks_or_closes_everything_gets_one_answer(executor: ConfineExecutor) -> None:
    assert (
        executor("import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('x')\n'parent' if child else 'child'").output
        == "parent"
    )
    assert executor("os.close(2); 5").output == 5
    with ConfineExecutor({"allow_read": "/usr/share"}) as other:
        assert other("1").output == 1
    with pytest.raises(TypeError, match="a policy is a mapping"):
        ConfineExecutor(5)  # type: ignore[arg-type]


# Limits.


def test_code_that_takes_too_long_is_stopped_and_what_it_made_stays(executor: ConfineExecutor) -> None:
    executor._time_limit = 0.5
    began = time.monotonic()
    with pytest.raises(InterpreterError, match="TimeoutError: the time limit"):
        executor("x = 5\nwhile True: pass")
    assert time.monotonic() - began < 1.5
    assert executor("x").output == 5
    # A tool's time is not the code's.
    executor.send_tools({"slow": lambda: time.sleep(1) or "slept"})
    assert executor("slow()").output == "slept"


# The code writes what it likes to whatever it finds open.
FORGED = """
import os
for fd in range(3, 9):
    try: os.write(fd, {})
    except OSError: pass
while True: pass
"""
HOSTILE = {
    "the time limit": "import signal; signal.setitimer(signal.ITIMER_REAL, 0)\nwhile True: pass",
    "exited": "import os; os._exit(0)",
    "memory limit of 134217728 bytes": "x = bytearray(10**9)",
    "killed by SIGKILL": "import os; os.kill(os.getpid(), 9)",
    "the value takes .* bytes": FORGED.format("b'\\xff' * 64"),
    "more than 100 tools": "while True: echo(1)",
    "not a message": FORGED.format("(12).to_bytes(8, 'big') + (8).to_bytes(4, 'big') + b'[       '"),
}


@pytest.mark.parametrize("why", HOSTILE)
def test_code_that_breaks_its_interpreter_gets_another(why: str) -> None:
    before = open_sandboxes()
    with ConfineExecutor({"memory_limit": "128M"}, time_limit=1, max_value=16 << 20) as executor:
        executor.send_variables({"v": [1]})
        executor.send_tools({"echo": lambda x: x})
        began = time.monotonic()
        with pytest.raises(InterpreterError, match=why if why != "not a message" else "not a packet|not a message|cut"):
            executor("print('seen')\n" + HOSTILE[why])
        assert time.monotonic() - began < 6
        assert executor.state["_print_outputs"].startswith("seen\n")
        assert executor("echo(v + [2])").output == [1, 2]
        assert open_sandboxes() == before + 1
    assert open_sandboxes() == before


def test_nothing_that_comes_out_is_unpickled(executor: ConfineExecutor, tmp_path: Path) -> None:
    evil = f"class Evil:\n    def __reduce__(self):\n        return open, ({str(tmp_path / 'evil')!r}, 'w')\nEvil()"
    assert "Evil object" in executor(evil).output
    forged = (
        "import json, os, pickle, struct\n"
        "data = pickle.dumps(eval('open'))\n"
        'text = json.dumps({"v": {"value": {"$": "pickle", "b": 0}}, "b": [len(data)]}).encode()\n'
        "packet = struct.pack('>I', len(text)) + text + data\n" + FORGED.format("len(packet).to_bytes(8, 'big') + packet")
    )
    executor._time_limit = 1
    with pytest.raises(InterpreterError, match="a pickle, which nobody asked for"):
        executor(forged)
    assert not (tmp_path / "evil").exists()


def test_the_code_sees_nothing_of_the_host(executor: ConfineExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    (tmp_path / "secret").write_text("s3cret")
    look = f"import os, socket\nfound = [os.environ.get('SECRET'), os.path.exists({str(tmp_path / 'secret')!r})]\n"
    connect = "try:\n    socket.create_connection(('1.1.1.1', 53), 2)\n    found.append('network')\nexcept OSError: pass\nfound"
    assert executor(look + connect).output == [None, False]


# Before anything starts, and in the end.


def test_what_can_not_be_done_fails_before_the_agent_starts() -> None:
    before = open_sandboxes()
    with pytest.raises(PolicyError, match="nonsense"):
        ConfineExecutor({"nonsense": 1})
    with pytest.raises(ImportError, match=r"not what the code is to import: no_such_module: ModuleNotFoundError"):
        ConfineExecutor(imports=["json", "no_such_module"])
    with pytest.raises(RuntimeError, match=r"no interpreter started in the sandbox: command not found"):
        ConfineExecutor(python="/no/such/python")
    with pytest.raises(RuntimeError, match=r"no interpreter started"):
        ConfineExecutor(python="true")
    with pytest.raises(TypeError, match="unexpected keyword"):
        ConfineExecutor(nonsense=1)
    assert open_sandboxes() == before


def test_one_that_is_forgotten_leaves_nothing() -> None:
    before = open_sandboxes()
    executor = ConfineExecutor()
    assert open_sandboxes() == before + 1
    del executor
    assert open_sandboxes() == before
    executor = ConfineExecutor()
    executor.cleanup()
    executor.cleanup()
    assert executor("1").output == 1
    executor.cleanup()
    assert open_sandboxes() == before


KILLED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what starts in the background
from confine.providers.smolagents import ConfineExecutor
executor = ConfineExecutor()
print("begun", flush=True)
executor("import os; os.system('sleep 987143')")
"""


@pytest.mark.parametrize("number", [2, 9])
def test_a_program_that_is_killed_leaves_nothing(number: int) -> None:
    program = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert program.stdout and program.stdout.readline() == b"begun\n"
        assert until(lambda: runs("sleep 987143"), 20)
        program.send_signal(number)
        program.communicate(timeout=20)
    finally:
        program.kill()
        program.communicate()
    assert until(lambda: not runs("sleep 987143"))
