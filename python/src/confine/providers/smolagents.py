"""Runs the code of a smolagents CodeAgent in a sandbox:

    from smolagents import CodeAgent
    from confine.providers.smolagents import ConfineExecutor

    with ConfineExecutor("strict", imports=["numpy"]) as executor:
        CodeAgent(tools=[…], model=…, executor=executor).run("…")

The code runs in an interpreter inside, whose variables stay from step to step. Tools, and agents that are managed, stay on the host: what
the code calls is asked for, with its arguments as data, and what comes back is data again. So any tool works, whatever it was
made of, with the host's network and secrets, which the code never sees; and what the code may do with a tool is the
tool's to say. Nothing that comes out of the sandbox is unpickled, and its size is bounded.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

try:
    import PIL.Image
    from smolagents.agent_types import AgentType
    from smolagents.local_python_executor import DEFAULT_MAX_LEN_OUTPUT, CodeOutput, InterpreterError, PythonExecutor
except ImportError as e:
    raise ImportError(f"confine.providers.smolagents needs the package smolagents, 1.26 or later: {e}", name=e.name) from e

from .. import _wire
from .._sync.process import Process
from .._sync.sandbox import Sandbox
from .._wire import Duration, Policy
from ..errors import ConfineError
from ..runners import codec

_GRACE = 2.0  # seconds: the interpreter holds the time limit, and the host, that much later
_START = 60.0  # seconds for it to import what it is told to
_PIXELS = 50_000_000


class ConfineExecutor(PythonExecutor):
    """A Python executor of smolagents: one sandbox, which is opened at once, and one interpreter in it.

    policy is a profile's name or options by their names; further keywords are those of confine.Sandbox. python is the interpreter:
    this one unless said, whose packages the policy then shows. imports are modules that the code is to find: one that is missing is
    an error here, not in the middle of a run. time_limit holds for each piece of code, without the time of the tools that it calls,
    max_calls at most. max_output is of what is printed, in characters, and max_value of each value, in bytes.
    """

    def __init__(
        self,
        policy: Policy = None,
        *,
        python: str | None = None,
        imports: Sequence[str] = (),
        time_limit: float = 30.0,
        max_calls: int = 100,
        max_output: int = DEFAULT_MAX_LEN_OUTPUT,
        max_value: int = 16 << 20,
        lifetime: Duration = "24h",
        **words: Any,
    ):
        self._python = python or os.path.abspath(sys.executable)
        self._words = {**words, "policy": _policy(policy, None if python else sys.executable), "lifetime": lifetime}
        self._imports, self._time_limit = list(imports), float(time_limit)
        self._max_calls, self._max_output, self._max_value = max_calls, max_output, max_value
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._tools: dict[str, Callable[..., Any]] = {}
        self._inside: _Interpreter | None = None
        #: Where an agent looks for what was printed before an error.
        self.state: dict[str, Any] = {"_print_outputs": ""}
        self._begin()

    # What smolagents calls.

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Variables of the code's. One that can't be carried is a TypeError."""
        with self._alone():
            for name, value in variables.items():
                try:
                    codec.dumps(_plain(value))
                except codec.CodecError as e:
                    raise TypeError(f"the variable {name!r} can't be sent to a sandbox: {e}") from None
            values = {name: _plain(value) for name, value in variables.items()}
            self._values.update(values)
            if values:
                self._ask({"values": values})

    def send_tools(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        """Tools, which stay here: the code has functions of their names."""
        with self._alone():
            for name in tools:
                if not name.isidentifier():
                    raise ValueError(f"code can't call a tool whose name is {name!r}")
            self._tools.update(tools)
            self._ask({"tools": list(tools)})

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs code. InterpreterError is what went wrong with it; what it printed is in the logs, or in state."""
        with self._alone():
            self.state["_print_outputs"] = ""
            inside = self._begin()
            mark = f"\0{secrets.token_hex(16)}\0"
            try:
                inside.printed, inside.mark = bytearray(), mark.encode()
                answer = self._ask({"code": code_action, "seconds": self._time_limit, "mark": mark}, self._time_limit)
            finally:
                logs = self.state["_print_outputs"] = inside.logs()
            if "error" in answer:
                raise InterpreterError(_short(answer["error"], self._max_output))
            if isinstance(final := answer.get("final"), dict):
                return CodeOutput(self._call("final_answer", final), logs, True)
            return CodeOutput(_result(answer.get("value")), logs, False)

    def cleanup(self) -> None:
        """Ends the sandbox. The next piece of code would begin in a new one."""
        inside, self._inside = self._inside, None
        if inside is not None:
            inside.close()

    def __enter__(self) -> ConfineExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    # The interpreter.

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time: a tool that waited for the code that has called it would wait forever."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this executor runs something already: an agent that another one calls needs an executor of its own")
        try:
            yield
        finally:
            self._lock.release()

    def _begin(self) -> _Interpreter:
        """The interpreter; a new one, with what was sent, when there is none."""
        if self._inside is None:
            self._inside = _Interpreter(self._python, self._imports, self._words, self._max_output, self._max_value)
            for message in ({"values": self._values}, {"tools": list(self._tools)}):
                if any(message.values()):
                    self._ask(message)
        return self._inside

    def _ask(self, message: dict[str, Any], seconds: float = _START) -> dict[str, Any]:
        """What it answers, after the tools that it wants called. An interpreter that is late or speaks nonsense is thrown away."""
        inside = self._begin()
        try:
            deadline = time.monotonic() + seconds + _GRACE
            inside.send(message)
            for _ in range(self._max_calls + 1):
                answer = inside.receive(deadline)
                if not isinstance(name := answer.get("call"), str):
                    inside.finish()
                    return answer
                began = time.monotonic()
                try:
                    reply = {"value": _plain(self._call(name, answer))}
                    codec.dumps(reply)
                except Exception as e:
                    reply = {"error": f"{name}: {type(e).__name__}: {e}"}
                inside.send(reply)
                deadline += time.monotonic() - began
            raise InterpreterError(f"the code has called more than {self._max_calls} tools")
        except BaseException as e:
            why = inside.why(e)
            self.cleanup()
            if isinstance(e, (ConfineError, codec.CodecError, TimeoutError)):
                raise InterpreterError(f"the sandbox is no more, and the variables of the code with it: {why or e}") from e
            raise

    def _call(self, name: str, doc: dict[str, Any]) -> Any:
        tool, args, kwargs = self._tools.get(name), doc.get("args"), doc.get("kwargs")
        if tool is None or not isinstance(args, list) or not isinstance(kwargs, dict):
            raise InterpreterError(f"there is no tool {name[:100]!r} that could be called so")
        return tool(*map(_result, args), **{str(k): _result(v) for k, v in kwargs.items()})


class _Interpreter:
    """A sandbox, and the interpreter in it: _worker.py."""

    def __init__(self, python: str, imports: list[str], words: dict[str, Any], max_output: int, max_value: int):
        self.box = Sandbox(**words)
        parts: list[Process | Sandbox] = [self.box]
        self.close = weakref.finalize(self, _end, parts)
        try:
            worker = resources.files(__package__).joinpath("_worker.py").read_text(encoding="utf-8")
            self.process: Process = self.box.start([python, "-I", "-B", "-X", "utf8", "-c", worker], stdin=True)
            parts.insert(0, self.process)
            self.data, self.printed, self.mark = bytearray(), bytearray(), b""
            self.max_output, self.max_value = max_output, max_value
            source = resources.files(codec.__package__).joinpath("codec.py").read_text(encoding="utf-8")
            setup = json.dumps({"codec": source, "imports": imports, "most": max_value - 8}).encode()
            self.write(setup)
            missing = self.receive(time.monotonic() + _START).get("missing")
            if missing:
                raise ImportError("the sandbox has not what the code is to import: " + "; ".join(map(str, missing)))
        except (ConfineError, codec.CodecError, TimeoutError) as e:
            why = self.why(e) if hasattr(self, "process") else ""
            said = self.logs()[-1000:] if why else ""
            self.close()
            raise RuntimeError(f"no interpreter started in the sandbox: {why or e}\n{said}".rstrip()) from e
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes) -> None:
        self.process.write(len(data).to_bytes(8, "big") + data)

    def send(self, message: dict[str, Any]) -> None:
        self.write(codec.dumps(message))

    def receive(self, deadline: float) -> dict[str, Any]:
        """The next message. While the process runs a frame comes every second, so that the deadline holds."""
        while (end := 8 + int.from_bytes(self.data[:8], "big")) > len(self.data) or len(self.data) < 8:
            if len(self.data) >= 8 and end > self.max_value:
                raise codec.CodecError(f"the value takes {end} bytes, and {self.max_value} are taken")
            self.frame(deadline)
        message = codec.loads(bytes(self.data[8:end]))
        del self.data[:end]
        if not isinstance(message, dict):
            raise codec.CodecError("not a message")
        return message

    def frame(self, deadline: float) -> None:
        frame = next(self.process, None)
        if frame is None or frame.type == "exit":
            raise TimeoutError("the interpreter has ended")
        if frame.type == "stdout":
            self.data += frame.data
            if len(self.data) > self.max_value + (1 << 20):
                raise codec.CodecError("there is more than was asked for")
        elif frame.type == "stderr":
            self.printed += frame.data
            # The end of it is kept, too: what went wrong is there.
            if (more := len(self.printed) - 4 * self.max_output) > 0:
                del self.printed[self.max_output : self.max_output + more]
        if time.monotonic() > deadline:
            raise TimeoutError("the time limit of the code is reached")

    def finish(self) -> None:
        """Waits for what was printed before the answer, which comes another way."""
        deadline = time.monotonic() + _GRACE
        with contextlib.suppress(TimeoutError):
            while self.mark and self.mark not in self.printed:
                self.frame(deadline)

    def logs(self) -> str:
        printed = bytes(self.printed)
        if self.mark and self.mark in printed:
            printed = printed[: printed.index(self.mark)]
        return _short(printed.decode("utf-8", "replace"), self.max_output)

    def why(self, error: BaseException) -> str:
        """What ended it, if it has ended; what it printed last comes with that."""
        if not isinstance(error, TimeoutError):
            with contextlib.suppress(TimeoutError, ConfineError, codec.CodecError):
                deadline = time.monotonic() + _GRACE / 4
                while True:
                    self.frame(deadline)
        return self.process.result.reason if self.process.result else ""


def _end(parts: list[Process | Sandbox]) -> None:
    for part in parts:
        with contextlib.suppress(ConfineError):
            part.close()


def _policy(policy: Policy, python: str | None) -> dict[str, Any]:
    """The policy, which shows this interpreter and its packages."""
    options = dict(_wire.policy(policy) or {})
    if python is not None:
        shown = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix)} | {os.path.abspath(sys.prefix)}
        places = sorted(p for p in shown if p not in ("/", "/usr"))
        given = options.get("allow_read", [])
        options["allow_read"] = [*([given] if isinstance(given, str) else given), *places]
    # What the code prints is bounded here, and its values come the same way.
    return {"output_limit": "none", **options}


def _plain(value: Any) -> Any:
    """What an agent's own types hold: text, a picture, sound."""
    return value.to_raw() if isinstance(value, AgentType) else value


def _result(value: Any) -> Any:
    """A value that came out: a picture as Pillow has it, and of what can't be carried its repr()."""
    if isinstance(value, codec.Picture):
        picture = PIL.Image.open(io.BytesIO(value.data), formats=["PNG"])
        if picture.width * picture.height > _PIXELS:
            raise InterpreterError(f"a picture of {picture.width}x{picture.height} is too large")
        return picture
    return value.repr if isinstance(value, codec.Opaque) else value


def _short(text: Any, most: int) -> str:
    text = str(text)
    return text if len(text) <= most else f"{text[: most // 2]}\n[TRUNCATED]\n{text[len(text) - most // 2 :]}"
