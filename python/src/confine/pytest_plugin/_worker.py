"""The interpreter in a sandbox: it collects, and then runs the tests that it is asked for, one by one.

It is the same pytest as outside, with the same arguments, ini file, conftest files and plugins, but for the terminal: what plugins
write of the whole session lands in an overlay that is thrown away.

It is run as a file: a plugin that is imported before pytest looks for plugins gets a warning, which some have made an error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

# Of texts, and of a message: more is not taken outside.
_TEXT = 2**20
_LINE = 8 * 2**20
# Numbers beyond are told as text.
_GREATEST = 2**53
_WARNINGS = 1000
_WARNING = 2000


class Worker:
    """The plugin inside, which takes the place of pytest's own loop."""

    def __init__(self, told: dict[str, Any], requests: BinaryIO, answers: int, stderr: int):
        self._told = told
        self._requests = requests
        self._answers = answers
        self._stderr = stderr
        self._cover = _measure(told["coverage"]) if told["coverage"] else None
        self._output = 0
        self._warnings = 0
        self._errors: list[str] = []

    def answer(self, **message: Any) -> None:
        self._write(_encoded(message))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._answers, data) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Before plugins configure themselves: what is not for here."""
        from confine.pytest_plugin import INSIDE

        self._config = config
        config.stash[INSIDE] = True
        config.pluginmanager.unregister(name="terminal")
        # Which tests run, and what is made of the results, is decided outside.
        options: dict[str, Any] = {
            "keyword": "",
            "markexpr": "",
            "deselect": None,
            "lf": False,
            "failedfirst": False,
            "newfirst": False,
            "stepwise": False,
            "stepwise_skip": False,
            "maxfail": 0,
            "exitfirst": False,
            "xmlpath": None,
            "pastebin": None,
            "basetemp": None,
            "numprocesses": None,
            "dist": "no",
            "tx": [],
            "looponfail": False,
        }
        for name, value in options.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> bool:
        session.perform_collect(self._told["paths"])
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors.append(report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            items.setdefault(item.nodeid, []).append(item)
        self.answer(ready=True)
        for line in self._requests:
            request = json.loads(line)
            wanted, nextitem = (_find(items, request[key]) for key in ("run", "next"))
            if wanted is None:
                self.answer(missing="\n".join(self._errors)[-_TEXT:])
                continue
            self._output = request["output"]
            with self._limited(request["time_limit"]):
                wanted.config.hook.pytest_runtest_protocol(item=wanted, nextitem=nextitem)
            self.answer(done=True)
        return True

    @contextlib.contextmanager
    def _limited(self, time_limit: float | None) -> Iterator[None]:
        """While a test runs: who looks on outside is heard of, and a time limit tells where it found the test.

        Nothing comes by the standard input now but its end, when the pytest outside is no more. A signal tells of it, whose default
        is to end the process, also where this hangs in C and no thread of Python's would get its turn.
        """
        flags = fcntl.fcntl(self._requests, fcntl.F_GETFL)
        fcntl.fcntl(self._requests, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(self._requests, fcntl.F_SETFL, flags | os.O_ASYNC)
        if time_limit is not None:
            faulthandler.dump_traceback_later(time_limit, file=self._stderr)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            fcntl.fcntl(self._requests, fcntl.F_SETFL, flags)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # whatever tests have put there
                    stream.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        data["user_properties"] = [(str(name), _plain(value)) for name, value in report.user_properties]
        if "_subtest.context" in data:
            kwargs = data["_subtest.context"]["kwargs"]
            data["_subtest.context"]["kwargs"] = {str(name): _plain(value) for name, value in kwargs.items()}
        most = self._output
        while True:
            data["sections"] = [(name, _cut(text, most)) for name, text in report.sections]
            line = _encoded({"report": data})
            if len(line) <= _LINE or not most:
                return self._write(line)
            most //= 8

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self.answer(interrupted=excinfo.typename, reason=_cut(str(excinfo.value)))

    def pytest_internalerror(self, excrepr: Any) -> None:
        self.answer(internal=_cut(str(excrepr)))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        self._warnings += 1
        if when == "runtest" and self._warnings <= _WARNINGS:
            self.answer(
                warning=_cut(str(warning_message.message), _WARNING),
                category=[warning_message.category.__module__, warning_message.category.__name__],
                file=warning_message.filename,
                line=warning_message.lineno,
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._context(item, "setup")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._context(item, "run")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._context(item, "teardown")

    def _context(self, item: pytest.Item, when: str) -> None:
        """What pytest-cov does for --cov-context=test."""
        if self._cover and item.config.getoption("cov_context", None) == "test":
            self._cover.switch_context(f"{item.nodeid}|{when}")

    def pytest_unconfigure(self) -> None:
        if self._cover:
            for message in _measured(self._cover):
                self.answer(coverage=message)
        self.answer(bye=True)


def _find(items: dict[str, list[pytest.Item]], wanted: list[Any] | None) -> pytest.Item | None:
    """The item of an ID; where several have the same, the one at that place."""
    if wanted is None:
        return None
    nodeid, place = wanted
    found = items.get(nodeid, [])
    return found[place] if place < len(found) else None


def _measure(told: dict[str, Any]) -> Any:
    """Measure as _coverage.settings() has told."""
    import coverage

    cover = coverage.Coverage(data_file=None, config_file=False)
    for name, value in told.items():
        cover.set_option(name, value)
    cover.start()
    return cover


def _measured(cover: Any) -> Iterator[dict[str, Any]]:
    """What was measured, a message for each file and context."""
    cover.stop()
    data = cover.get_data()
    for context in data.measured_contexts():
        data.set_query_context(context)
        for file in data.measured_files():
            places = data.arcs(file) if data.has_arcs() else data.lines(file)
            if places:
                yield {"file": file, "context": context, "arcs": data.has_arcs(), "places": places, "tracer": data.file_tracer(file)}


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, default=str).encode() + b"\n"


def _plain(value: Any) -> Any:
    """A property as it is told outside: what is no simple value there is text."""
    if isinstance(value, (int, float)):
        return value if abs(value) <= _GREATEST else str(value)
    return value if value is None or isinstance(value, str) else str(value)


def _cut(text: str, most: int = _TEXT) -> str:
    return text if len(text) <= most else text[:most] + "\n[TRUNCATED]\n"


def main() -> None:
    """Talk over what are the standard streams now, and give tests others."""
    descriptor, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        # With -s somebody looks on.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr] # of an interpreter that just started
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    with open(descriptor, "rb") as requests:
        told = json.loads(requests.readline())
        sys.argv = told["argv"]
        pytest.main(told["args"], plugins=[Worker(told, requests, answers, os.dup(2))])
