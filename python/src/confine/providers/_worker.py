"""Runs the code of a smolagents agent, inside the sandbox: its text is what the interpreter there is started with.

Standard input and output are for the host alone: packets of codec.py, whose text comes first. What the code prints goes
to standard error. Only the standard library is imported. Nothing here is a wall: the code can do what this file can.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types
from typing import Any

CODE = "<agent>"


class FinalAnswer(BaseException):
    """Ends the code that has called final_answer."""


class Worker:
    """One interpreter, whose variables stay from one piece of code to the next."""

    def __init__(self, codec: Any, source: int, answers: int, most: int) -> None:
        self.codec, self.source, self.answers, self.most = codec, source, answers, most
        self.lock = threading.Lock()
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main
        self.final: dict[str, Any] | None = None

    def read(self) -> dict[str, Any]:
        packet = read_exactly(self.source, int.from_bytes(read_exactly(self.source, 8), "big"))
        message: dict[str, Any] = self.codec.loads(packet, inside=True)
        return message

    def send(self, message: dict[str, Any], opaque: bool = False) -> None:
        packet = self.codec.dumps(message, opaque=opaque)
        if len(packet) > self.most:
            raise ValueError(f"it takes {len(packet)} bytes, and {self.most} are carried")
        view = memoryview(len(packet).to_bytes(8, "big") + packet)
        while view:
            view = view[os.write(self.answers, view) :]

    def tool(self, name: str) -> Any:
        """A function that the host calls."""

        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "final_answer":
                self.final = {"args": list(args), "kwargs": kwargs}
                raise FinalAnswer
            with self.lock:
                left, _ = signal.setitimer(signal.ITIMER_REAL, 0)  # the tool's time is the host's
                try:
                    self.send({"call": name, "args": list(args), "kwargs": kwargs})
                    reply = self.read()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, left)
            if "error" in reply:
                raise RuntimeError(reply["error"])
            return reply["value"]

        call.__name__ = call.__qualname__ = name
        return call

    def run(self, code: str) -> Any:
        """The value of the last expression."""
        tree = ast.parse(code, CODE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        linecache.cache[CODE] = (len(code), None, code.splitlines(True), CODE)
        exec(compile(tree, CODE, "exec", dont_inherit=True), vars(self.main))
        if isinstance(last, ast.Expr):
            return eval(compile(ast.Expression(last.value), CODE, "eval", dont_inherit=True), vars(self.main))
        return None

    def answer(self, code: str, seconds: float) -> dict[str, Any]:
        self.final, me = None, os.getpid()
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            value = self.run(code)
            signal.setitimer(signal.ITIMER_REAL, 0)
            answer = {"value": value}
        except FinalAnswer:
            answer = {}
        except BaseException as e:
            shown = traceback.TracebackException(type(e), e, e.__traceback__)
            shown.stack[:] = [frame for frame in shown.stack if frame.filename == CODE]
            answer = {"error": "".join(shown.format())}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        flush()
        if os.getpid() != me:  # the code has forked, and only one answers
            os._exit(0)
        return answer if self.final is None else {"final": self.final}

    def serve(self) -> None:
        while True:
            message = self.read()
            if "values" in message:
                vars(self.main).update(message["values"])
                self.send({"value": None})
            elif "tools" in message:
                vars(self.main).update({name: self.tool(name) for name in message["tools"]})
                self.send({"value": None})
            else:
                try:
                    answer = self.answer(message["code"], message["seconds"])
                    os.write(2, message["mark"].encode())
                except TimeoutError as e:  # it was as good as done
                    answer = {"error": f"TimeoutError: {e}"}
                except OSError:  # the code has closed it
                    pass
                try:
                    self.send(answer, opaque=True)
                except Exception as e:
                    self.send({"error": f"the value can't be carried: {type(e).__name__}: {e}"})


def read_exactly(fd: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def late(*_: object) -> None:
    raise TimeoutError("the time limit of this code is reached")


def main() -> None:
    """Takes standard input and output for the host alone."""
    source, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    setup = json.loads(read_exactly(source, int.from_bytes(read_exactly(source, 8), "big")))
    codec = types.ModuleType("_confine_codec")
    sys.modules[codec.__name__] = codec
    exec(compile(setup["codec"], "codec.py", "exec"), vars(codec))
    sys.argv[:] = [""]
    sys.path.insert(0, os.getcwd())
    signal.signal(signal.SIGALRM, late)
    worker = Worker(codec, source, answers, setup["most"])
    missing = []
    for name in setup["imports"]:
        try:
            __import__(name)
        except Exception as e:
            missing.append(f"{name}: {type(e).__name__}: {e}")
    worker.send({"missing": missing, "python": sys.version.split()[0]})
    worker.serve()


if __name__ == "__main__":
    main()
