"""The side of the plugin that is outside: it gives each test to a sandbox, and pytest the reports that come back."""

from __future__ import annotations

import builtins
import codecs
import contextlib
import json
import linecache
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from .. import _visible
from .._binary import find_binary
from ..errors import ConfineError
from . import START_PATH, _coverage, _policy, _reports
from ._sandbox import Broken, Expired, Gone, Sandbox

# Until a sandbox has imported and collected.
_START_S = 120.0
# Until one that is done has told what it measured: each may take so long, and of what they take beyond there is so much in all.
_LEAVE_S = 1.0
_FINISH_S = 60.0
# Between the time limit, when a sandbox tells where its test is, and its end; and from then until it is killed.
_GRACE_S = 0.3
_END_S = 2.0
_REPORTS = 10_000
# Characters of each captured stream.
_OUTPUT = 2**20
# Bytes that all tests may have to say, which pytest keeps until its end; and what each still may when these are spent.
_SAID = 512 * 2**20
_SAID_LEAST = 2**18
_OUTPUT_LEAST = 2**12
# Of all tests.
_WARNINGS = 10_000
_PROPERTIES = 100
# Characters of what a test says as it leaves, of a warning, of the name of a file, of several lines.
_REASON = 1000
_WARNING = 2100
_NAME = 4096
_TEXT = 2**20

# What the interpreter in a sandbox is started with: its path is that of the one here.
_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_worker.py")
_BOOT = """
import importlib.util, json, sys
sys.path[:] = json.loads(sys.argv[2])
spec = importlib.util.spec_from_file_location("confine.pytest_plugin._worker", sys.argv[1])
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
worker.main()
"""


@dataclass(frozen=True)
class _Place:
    """Which sandbox a test belongs to: tests with equal places share one."""

    scope: str
    options: tuple[str, ...]
    paths: tuple[str, ...]


class _Failure(Exception):
    """A test came to no end of its own: a headline, and what there is to say."""

    def __init__(self, status: str, reason: str, text: str = "", *, outside: bool = False):
        super().__init__(f"{status}: {reason}")
        self.status, self.reason, self.text = status, reason, text
        #: It has to do with the sandbox, and not with the test: an error of the setup.
        self.outside = outside


class Host:
    """The plugin that is registered under --confine."""

    def __init__(self, config: pytest.Config, scope: str):
        self._config = config
        self._scope = scope
        try:
            self._binary = str(find_binary())
        except ConfineError as error:
            raise pytest.UsageError(f"--confine: {error}") from error
        workerinput = getattr(config, "workerinput", None)
        told = (workerinput or {}).get("confine", {})
        # Under xdist the arguments are the controller's: those of its workers are not the ones that were given.
        self._arguments: list[str] = told.get("arguments", [str(word) for word in config.invocation_params.args])
        self._directory: str = told.get("directory", str(config.invocation_params.dir))
        # Who runs tests beside others gets its own share of them, and can't tell which comes after the next.
        self._ahead = 1 if workerinput or scope != "test" else min(os.cpu_count() or 1, 4)
        self._current: tuple[_Place, Sandbox] | None = None
        self._waiting: list[tuple[_Place, Sandbox]] = []
        self._done: list[Sandbox] = []
        self._unfit: dict[_Place, _Failure] = {}
        self._gathered = _coverage.Gathered(contexts=config.getoption("cov_context", None) is not None)
        self._lost = 0
        self._patience = _FINISH_S
        self._said = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._warned = 0
        self._policies: dict[pytest.Item, _policy.Policy | None] = {}
        self._index: dict[pytest.Item, int] = {}
        self._nth: dict[pytest.Item, int] = {}
        self._paths: tuple[str, ...] = ()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Of xdist, in its controller: what its workers have to know."""
        node.workerinput["confine"] = {"arguments": self._arguments, "directory": self._directory}

    def pytest_report_header(self) -> str:
        what = {"test": "each test", "module": "each module", "session": "the session"}[self._scope]
        return f"confine: {what} in a sandbox of its own"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self._policies = {item: _policy.of_item(item) for item in items}

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        self._index = {item: index for index, item in enumerate(session.items)}
        seen: Counter[str] = Counter()
        for item in session.items:
            self._nth[item] = seen[item.nodeid]
            seen[item.nodeid] += 1
        self._paths = tuple(dict.fromkeys(self._path(item) for item in session.items))
        try:
            yield
            # Before pytest-cov makes its report, which it does after the innermost loop.
            self._close(kill=False)
            if lost := self._gathered.merge():
                self._tell(f"coverage of what ran in sandboxes is not counted: {lost}")
            if self._lost:
                self._tell(f"coverage of {self._lost} sandbox(es) is not counted, or in part: they did not tell it, or too late")
            if self._warned > _WARNINGS:
                self._tell(f"{self._warned - _WARNINGS} warnings of tests are not shown")
        finally:
            self._close(kill=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if self._place(item) is None:
            from _pytest.runner import runtestprotocol

            # What is set up here is torn down with it: whether another test runs here, nobody knows.
            runtestprotocol(item, nextitem=None)
        else:
            for report in self._run(item, nextitem):
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _path(self, item: pytest.Item) -> str:
        return os.path.join(self._config.rootpath, item.nodeid.split("::")[0])

    def _policy(self, item: pytest.Item) -> _policy.Policy | None:
        if item not in self._policies:
            self._policies[item] = _policy.of_item(item)
        return self._policies[item]

    def _place(self, item: pytest.Item) -> _Place | None:
        policy = self._policy(item)
        if policy is None:
            return None
        paths = self._paths if self._scope == "session" else (self._path(item),)
        return _Place(item.nodeid if self._scope == "test" else "", policy.options, paths)

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        """Have item run in its sandbox; what its reports are."""
        place, policy = self._place(item), self._policy(item)
        if place is None or policy is None:
            raise RuntimeError("a test of the outside")
        follows = nextitem if self._scope != "test" and nextitem is not None and self._place(nextitem) == place else None
        reports: list[pytest.TestReport] = []
        begun = time.monotonic()
        box: Sandbox | None = None
        try:
            box = self._sandbox(place)
            box.denials.clear()
            with contextlib.suppress(Gone):  # which is found out by listening, too, with what it said before
                spent = self._said > _SAID
                request = {
                    "run": self._named(item),
                    "next": follows and self._named(follows),
                    "time_limit": policy.time_limit,
                    "output": _OUTPUT_LEAST if spent else _OUTPUT,
                }
                box.send(request, *[_SAID_LEAST] * spent)
            self._prepare(item, nextitem, place)
            try:
                self._listen(box, item, reports, policy.time_limit)
            finally:
                self._said += box.taken
        except _Failure as failure:
            self._failed(box, item, reports, failure, begun)
            return reports
        except pytest.fail.Exception as error:
            # A time limit of another plugin's, which counts here, too.
            self._failed(box, item, reports, _Failure("TIMEOUT", str(error)), begun)
            return reports
        except BaseException:
            self._forget(box)
            if box:
                box.end(0)
            raise
        self._annotate(reports, box, [])
        if follows is None:
            self._forget(box)
            self._done.append(box)
            while len(self._done) > self._ahead:
                self._finish(self._done.pop(0))
        return reports

    def _named(self, item: pytest.Item) -> list[Any]:
        """How the interpreter inside calls it: several can have one ID."""
        return [_inner(item), self._nth.get(item, 0)]

    def _listen(self, box: Sandbox, item: pytest.Item, reports: list[pytest.TestReport], time_limit: float | None) -> None:
        """Until the sandbox says that the test is done."""
        deadline = None if time_limit is None else time.monotonic() + time_limit + _GRACE_S
        try:
            while True:
                message = box.receive(deadline)
                if "report" in message:
                    report = _reports.rebuilt(item, message["report"])
                    if len(reports) >= _REPORTS or _reports.twice(reports, report):
                        raise Broken("more reports than a test has")
                    reports.append(report)
                elif "warning" in message:
                    self._warn(message, item)
                elif "missing" in message:
                    text = "\n\n".join(filter(None, [self._hidden(), _said(message["missing"])]))
                    raise _Failure("NOT_FOUND", "the test is not there when it is collected in the sandbox", text, outside=True)
                elif "interrupted" in message:
                    raise _Failure("FAILED", _interruption(message))
                elif "internal" in message:
                    raise _Failure("FAILED", "pytest had an internal error in the sandbox", _said(message["internal"]))
                elif "done" in message:
                    if not _reports.complete(reports):
                        raise Broken("no end of a test")
                    box.drain()
                    return
                elif "bye" not in message and "coverage" not in message:
                    raise Broken("no such message")
        except Expired:
            raise _Failure("TIMEOUT", f"time limit of {time_limit:g} s reached") from None
        except Broken as error:
            raise _Failure("BROKEN", f"what came out of the sandbox is not what pytest says ({error})") from None
        except Gone:
            raise _Failure("", "") from None

    def _failed(self, box: Sandbox | None, item: pytest.Item, reports: list[pytest.TestReport], failure: _Failure, begun: float) -> None:
        """Make the reports of a test that its sandbox did not live to report."""
        sections, status, reason = [], failure.status, failure.reason
        if box is not None:
            self._forget(box)
            box.end(_END_S)
            if not status:
                status, reason = _cause(box)
            output = _FRAME.sub("", _words(box)).strip()
            if output:
                sections.append((_reports.OUTPUT, output))
        if status == "BROKEN":
            reports.clear()  # nor is what came before
        # Of a test with subtests, these have reports of their own.
        whole = [report for report in reports if not hasattr(report, "context")]
        when = (
            "teardown"
            if any(report.when == "call" and not _reports.rerun(report) for report in whole)
            else "setup"
            if failure.outside
            else "call"
        )
        # What a report of ours replaces is not counted twice.
        reports[:] = [report for report in reports if hasattr(report, "context") or _PHASE[report.when or ""] < _PHASE[when]]
        text = f"{status}: {reason}" + (f"\n\n{failure.text}" if failure.text else "")
        report = _reports.failed(item, when, f"{status}: {reason}", text, time.monotonic() - begun)
        report.user_properties += [("confine_status", status), ("confine_reason", reason)]
        reports.append(report)
        if when != "teardown":
            reports.append(_reports.passed_teardown(item))
        self._annotate(reports, box, sections)

    def _annotate(self, reports: list[pytest.TestReport], box: Sandbox | None, sections: list[tuple[str, str]]) -> None:
        """Tell in reports what confine has denied meanwhile."""
        denials = []
        if box is not None:
            denials, box.denials = [_told(denial) for denial in box.denials], []
        if denials:
            sections = [(_reports.DENIED, "\n".join(denials)), *sections]
        if not sections and not any(report.user_properties for report in reports):
            return
        properties = [entry for report in reports for entry in report.user_properties if entry[0] in ("confine_status", "confine_reason")]
        properties = list(dict.fromkeys(properties)) + [("confine_denied", denial) for denial in denials[:_PROPERTIES]]
        last = [report for report in reports if not _reports.rerun(report)]
        shown = next((report for report in last if report.failed), next((report for report in last if report.when == "call"), last[0]))
        shown.sections += sections
        for report in last:
            # junit.xml has the properties of a test from its last report.
            if report is shown or report.when == "teardown":
                report.user_properties += [entry for entry in properties if entry not in report.user_properties]

    def _warn(self, message: dict[str, Any], item: pytest.Item) -> None:
        """A warning of a test, for the summary."""
        text, file, line, kind = (message.get(key) for key in ("warning", "file", "line", "category"))
        if not (isinstance(text, str) and isinstance(file, str) and type(line) is int):
            raise Broken("no warning")
        self._warned += 1
        if self._warned > _WARNINGS:
            return
        category: Any = _CATEGORIES.get(tuple(kind), UserWarning) if isinstance(kind, list) and _are_texts(kind) else UserWarning
        file = file[:_NAME]
        # pytest would show that line of that file, whatever it is: of the test's own it may be.
        source = linecache.getline(file, line).strip() if file == str(item.path) else ""
        self._record(_made(category, _said(text[:_WARNING])), _reports.visible(file), line, source, item.nodeid)

    def _tell(self, text: str) -> None:
        """A warning of ours."""
        self._record(pytest.PytestWarning(f"confine: {text}"), __file__, 0, "", "")

    def _record(self, warning: Warning, file: str, line: int, source: str, nodeid: str) -> None:
        told = warnings.WarningMessage(message=warning, category=type(warning), filename=file, lineno=line, line=source)
        arguments = {"warning_message": told, "when": "runtest", "nodeid": nodeid, "location": None}
        self._config.hook.pytest_warning_recorded.call_historic(kwargs=arguments)

    def _sandbox(self, place: _Place) -> Sandbox:
        """The sandbox of place, ready for a test."""
        if self._current and self._current[0] != place:
            self._finish(self._current[1])
            self._current = None
        if self._current is None:
            found = next((pair for pair in self._waiting if pair[0] == place), None)
            if found:
                self._waiting.remove(found)
            unfit = self._unfit.get(place) or self._unfit.get(replace(place, scope=""))
            if unfit:
                if found:
                    found[1].end(0)
                raise unfit
            try:
                box = found[1] if found else self._start(place)
                self._ready(box)
            except _Failure as failure:
                # As it is for the other tests of the place, and for nobody to wait for again with each test of a module.
                self._unfit[replace(place, scope="") if failure.status == "TIMEOUT" else place] = failure
                raise
            self._current = place, box
        return self._current[1]

    def _start(self, place: _Place) -> Sandbox:
        options = [
            "--log=quiet",
            "--events={events}",
            # Of a test the time is counted here, and what it writes, too: a sandbox waits, and its tests may be many.
            "--time-limit=none",
            "--output-limit=none",
            "--tty=never",
            *(f"--env={name}" for name in sorted(os.environ) if name.startswith("PYTEST_") and name not in _OWN),
            *_visible.options([str(self._config.rootpath), *self._paths], self._directory),
            *place.options,
        ]
        flags = ["-O"] * sys.flags.optimize + [f"-W{option}" for option in sys.warnoptions] + ["-Xdev"] * sys.flags.dev_mode
        path = [os.path.join(self._directory, entry) for entry in self._config.stash[START_PATH]]
        command = [self._binary, *options, "--", sys.executable, *flags, "-c", _BOOT, _WORKER, json.dumps(path)]
        live = self._config.getoption("capture", "") in ("no", "tee-sys")
        try:
            box = Sandbox(command, self._directory, self._show if live else None)
        except (OSError, subprocess.SubprocessError) as error:
            raise _Failure("INTERNAL_ERROR", str(error), outside=True) from error
        arguments = [*self._arguments]
        if self._config.pluginmanager.hasplugin("pytest_cov"):
            arguments.append("--no-cov")
        hello = {
            "args": arguments,
            "argv": sys.argv,
            "paths": place.paths,
            "coverage": _coverage.settings(),
        }
        with contextlib.suppress(Gone):  # then it has ended, which is told when it is asked for something
            box.send(hello)
        return box

    def _ready(self, box: Sandbox) -> None:
        """Wait until box has collected; one that can't is ended."""
        try:
            self._greeted(box)
        except BaseException:
            box.end(_END_S)
            raise

    def _greeted(self, box: Sandbox) -> None:
        try:
            message = box.receive(time.monotonic() + _START_S)
        except Expired:
            raise _Failure("TIMEOUT", f"the sandbox was not ready within {_START_S:g} s", outside=True) from None
        except Broken as error:
            raise _Failure("BROKEN", f"what came out of the sandbox is not what pytest says ({error})", outside=True) from None
        except Gone:
            box.end(_END_S)
            status, reason = _cause(box)
            raise _Failure(status, f"the sandbox came to no test: {reason}", _words(box), outside=True) from None
        if "ready" not in message:
            said = _said(message.get("internal", message.get("reason")))
            text = "\n\n".join(filter(None, [self._hidden(), said]))
            raise _Failure("FAILED", "pytest came to no test in the sandbox", text, outside=True)

    def _hidden(self) -> str:
        return _visible.hidden([str(self._config.rootpath)], self._directory)

    def _prepare(self, item: pytest.Item, nextitem: pytest.Item | None, place: _Place) -> None:
        """Start the sandboxes that will be needed next, while this one works."""
        if nextitem is None:
            return
        items = item.session.items
        index = self._index.get(item)
        known = index is not None and index + 1 < len(items) and items[index + 1] is nextitem
        following = items[index + 1 :] if known and index is not None else [nextitem]
        wanted: list[_Place] = []
        for other in following:
            if len(wanted) >= self._ahead:
                break
            at = self._place(other)
            if at is not None and at != place and at not in wanted:
                wanted.append(at)
        have = [waiting for waiting, _ in self._waiting]
        for at in wanted:
            if at not in have and len(self._waiting) < self._ahead:
                with contextlib.suppress(_Failure):  # it is tried again when its turn comes
                    self._waiting.append((at, self._start(at)))

    def _show(self, data: bytes) -> None:
        sys.stdout.write(self._decoder.decode(data))
        sys.stdout.flush()

    def _forget(self, box: Sandbox | None) -> None:
        if self._current and self._current[1] is box:
            self._current = None

    def _finish(self, box: Sandbox) -> None:
        """Let a sandbox tell what it has measured, and end."""
        begun = time.monotonic()
        deadline = begun + _LEAVE_S + self._patience
        told = False
        try:
            box.leave()
            while True:
                message = box.receive(deadline)
                if not told and "bye" in message:
                    told, deadline = True, min(deadline, time.monotonic() + _LEAVE_S)
                if isinstance(message.get("coverage"), dict):
                    self._gathered.add(message["coverage"])
        except (Gone, Expired):
            pass
        except Broken:
            told = False
        finally:
            box.end(_END_S)
            self._patience -= min(self._patience, max(0.0, time.monotonic() - begun - _LEAVE_S))
        self._lost += not told and _coverage.settings() is not None

    def _close(self, *, kill: bool) -> None:
        done, self._done = self._done, []
        waiting, self._waiting = self._waiting, []
        current, self._current = self._current, None
        for _, box in waiting:
            box.end(0)
        for box in [*done, *([current[1]] if current else [])]:
            if kill:
                box.end(0)
            else:
                self._finish(box)


# Warnings that a test can have, by module and name.
_CATEGORIES = {
    (module.__name__, name): found
    for module in (builtins, pytest)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, Warning)
}
# Of faulthandler: what every test stands on.
_FRAME = re.compile(r'^  File "(?:<string>"|.*/(?:_pytest|pluggy|confine/pytest_plugin)/).*\n', re.MULTILINE)
_PHASE = {"setup": 0, "call": 1, "teardown": 2}
# Variables that pytest sets itself, or that are about places which tests don't see.
_OWN = ("PYTEST_CURRENT_TEST", "PYTEST_DEBUG_TEMPROOT", "PYTEST_VERSION")


def _inner(item: pytest.Item) -> str:
    """The ID without what xdist's --dist=loadgroup adds to it."""
    if item.config.getoption("loadgroup", False) and item.get_closest_marker("xdist_group"):
        return item.nodeid.rpartition("@")[0] or item.nodeid
    return item.nodeid


def _said(value: Any) -> str:
    """Lines of text that a sandbox says."""
    return _reports.visible(value[:_TEXT], "\n\t") if isinstance(value, str) else ""


def _words(box: Sandbox) -> str:
    """The end of what was written in a sandbox."""
    return _said(box.tail.decode("utf-8", "replace"))


def _interruption(message: dict[str, Any]) -> str:
    """What would have ended the session, were it not that of a sandbox: here it is the failure of a test."""
    kind, reason = (
        _reports.visible(text[:_REASON]) if isinstance(text := message.get(key), str) else "" for key in ("interrupted", "reason")
    )
    kind = {"Exit": "pytest.exit", "": "interrupted"}.get(kind, kind)
    return f"{kind}: {reason}" if reason else kind


def _cause(box: Sandbox) -> tuple[str, str]:
    """How a sandbox ended that nobody ended here."""
    report = box.report
    if not report:
        words = _words(box).strip().splitlines()
        return "INTERNAL_ERROR", words[0] if words else "the sandbox ended without a report"
    status, reason = str(report.get("status")), str(report.get("reason"))
    if status in ("OK", "FAILED", "SANDBOX_DENIED"):
        return "EXITED", f"the test ended its interpreter with exit code {report.get('exit_code')}"
    hint = (report.get("setup_error") or {}).get("hint")
    return status, _reports.visible(f"{reason}; hint: {hint}" if hint else reason)


def _told(denial: dict[str, Any]) -> str:
    text = f"{denial.get('kind')} {denial.get('what')}: {denial.get('rule')}"
    return _reports.visible(f"{text} ({denial['hint']})" if denial.get("hint") else text)


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _made(category: Any, text: str) -> Warning:
    try:
        return category(text)  # type: ignore[no-any-return] # a class of warnings
    except TypeError:
        return UserWarning(text)
