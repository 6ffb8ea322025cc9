"""What a test in a sandbox can do to the pytest outside: say that it passed, and no more."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest

from confine.pytest_plugin import _coverage, _policy, _reports, _sandbox
from conftest import need
from test_plugin import PLUGIN, Run, outcomes, run  # noqa: F401 # a fixture

pytest_plugins = ["pytester"]

# How a test finds the pipe to the pytest outside.
FIND = """
import gc, json, os, time
def worker():
    return next(x for x in gc.get_objects() if type(x).__name__ == "Worker")
def say(**message): worker().answer(**message)
def write(data): os.write(worker()._answers, data)
def report(when, outcome="passed", **more):
    return {"$report_type": "TestReport", "nodeid": "x::y", "location": ["x", 1, "y"], "keywords": {}, "outcome": outcome,
            "longrepr": None, "when": when, "user_properties": [], "sections": [], "duration": 0, "start": 0, "stop": 0, **more}
def test_before(): pass
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("write(b'{\\n')", "BROKEN"),
        ("write(b'[]\\n')", "BROKEN"),
        ("write(b'[' * 200000 + b'\\n')", "BROKEN"),
        ("write(b'\\xff\\n')", "BROKEN"),
        ("say(what=1)", "BROKEN"),
        ("say(done=True)", "BROKEN"),
        ("say(report=report('setup')); say(done=True)", "BROKEN"),
        ("say(report=report('call', outcome='excellent'))", "BROKEN"),
        ("say(report=report('call', outcome='failed', longrepr={'reprcrash': 3}))", "BROKEN"),
        ("[say(report=report('call', sections=[['x', 'y' * 10**7]])) for _ in range(40)]", "BROKEN"),
        ("[write(b'x' * 10**6) for _ in range(40)]", "BROKEN"),
        ("[say(report=report('call')) for _ in range(2)]", "BROKEN"),
        ("[say(report=report('setup', outcome='failed')) for _ in range(2)]", "BROKEN"),
        ("[say(report=report('setup')) for _ in range(20000)]", "BROKEN|TIMEOUT"),
        ("[say(report=report('call', outcome='rerun')) for _ in range(20000)]", "BROKEN|TIMEOUT"),
        ("os.close(worker()._answers); time.sleep(60)", "INTERNAL_ERROR|TIMEOUT"),
        ("import ctypes; ctypes.string_at(0)", "KILLED_SIGNAL"),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", "TIMEOUT"),
    ],
)
def test_what_a_hostile_test_says(pytester: pytest.Pytester, run: Run, code: str, message: str) -> None:  # noqa: F811
    need("linux")
    pytester.makepyfile(FIND + f"def test_hostile():\n    {code}\ndef test_after(): pass\n")
    begun = time.monotonic()
    result = run("--confine=session", "-o", "confine_time_limit=5s")
    counts = outcomes(result)
    counts.pop("rerun", None)  # these count for nothing
    assert counts == {"failed": 1, "passed": 2}
    result.stdout.re_match_lines([f"FAILED .*test_hostile - ({message}): .*"])
    assert time.monotonic() - begun < 60


def test_reports_name_no_other_test(pytester: pytest.Pytester, run: Run) -> None:  # noqa: F811
    need("linux")
    pytester.makepyfile(
        FIND
        + "def test_hostile():\n"
        + "    for when in ('setup', 'call', 'teardown'):\n"
        + "        say(report=report(when, nodeid='forged.py::test_it', location=['forged.py', 1, 'forged'],\n"
        + "            keywords={'forged': 1}, toterminal=1, _to_json=2, node=3))\n"
        + "    say(done=True)\n    time.sleep(60)\n"
        + "def test_after(): assert 0\n"
    )
    result = run("--confine=session", "-rA", "--junitxml=out.xml", "-o", "confine_time_limit=5s")
    text = result.stdout.str() + (pytester.path / "out.xml").read_text()
    assert "forged" not in text
    # It ended its own test early. The next one is not heard of meanwhile, and is not passed for that.
    assert outcomes(result)["failed"] == 1
    assert "PASSED test_reports_name_no_other_test.py::test_after" not in text


@pytest.mark.parametrize(
    ("code", "failed"),
    [
        ("pytest.exit('\\x1b[2J\\nok', returncode=0)", 2),
        ("say(interrupted='Exit', reason='\\x1b[2J\\nok', code=0); time.sleep(60)", 2),
        ("say(interrupted='\\x1b[2J', reason=[[]], code='0'); time.sleep(60)", 2),
        ("request.session.shouldstop = 'enough'", 1),
        ("request.session.shouldfail = 'enough'", 1),
        ("[say(report=report(when)) for when in ('setup', 'call', 'teardown')]; say(done=True, stop='enough'); time.sleep(60)", 1),
        ("say(report=report('call', duration=10**400)); time.sleep(60)", 2),
        ("say(report=report('call', user_properties=[['n', 10**400]])); time.sleep(60)", 2),
        ("say(report=report('call', duration=1e300)); time.sleep(60)", 2),
    ],
)
def test_no_sandbox_ends_the_session(pytester: pytest.Pytester, run: Run, code: str, failed: int) -> None:  # noqa: F811
    need("linux", "python:xdist")
    pytester.makepyfile(
        "import pytest\n" + FIND + f"def test_fails(): assert 0\ndef test_hostile(request):\n    {code}\ndef test_after(): pass\n"
    )
    result = run("--confine", "-o", "confine_time_limit=10s", *["-n1"] * ("pytest.exit" in code))
    assert result.ret == 1
    counts = outcomes(result)
    assert (counts["failed"], counts["failed"] + counts["passed"]) == (failed, 4)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert "\x1b[2J" not in result.stdout.str()
    if "Exit" in code or "exit" in code:
        assert r"FAILED: pytest.exit: \x1b[2J\nok" in result.stdout.lines


def test_a_worker_that_reads_nothing_holds_nobody_up(pytester: pytest.Pytester) -> None:
    code = "import time\nprint('{\"ready\": true}', flush=True)\ntime.sleep(60)\n"
    box = _sandbox.Sandbox([sys.executable, "-c", code, "{events}"], str(pytester.path))
    try:
        assert box.receive(time.monotonic() + 20) == {"ready": True}
        with pytest.raises(_sandbox.Gone):
            box.send({"run": "x" * 1_000_000})
        begun = time.monotonic()
        with pytest.raises(_sandbox.Expired):
            box.receive(begun + 0.2)
        assert time.monotonic() - begun < 5
    finally:
        box.end(0.2)
    box.end(1)
    with pytest.raises(_sandbox.Gone):
        box.receive(None)


@pytest.fixture
def item(request: pytest.FixtureRequest) -> pytest.Item:
    return request.node  # type: ignore[no-any-return]


def real(item: pytest.Item) -> dict[str, Any]:
    """A report of a failure as it comes, in full."""

    def inner(x: int) -> None:
        raise ValueError(f"inner {x}")

    def outer() -> None:
        try:
            inner(1)
        except ValueError as error:
            raise KeyError("outer") from error

    call = pytest.CallInfo.from_call(outer, "call")
    report = pytest.TestReport.from_item_and_call(item, call)
    report.sections.append(("Captured stdout call", "text"))
    report.user_properties.append(("key", 3))
    data: dict[str, Any] = json.loads(json.dumps(item.config.hook.pytest_report_to_serializable(config=item.config, report=report)))
    return data


def test_a_report_is_rebuilt_whole(item: pytest.Item) -> None:
    data = real(item)
    report = _reports.rebuilt(item, json.loads(json.dumps(data)))
    assert report.longreprtext.count("Error") >= 2
    assert "inner 1" in report.longreprtext
    assert report.sections == [("Captured stdout call", "text")]
    assert report.user_properties == [("key", 3)]
    again = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
    assert json.loads(json.dumps(again))["longrepr"] == data["longrepr"]


VALUES: list[Any] = [None, 1, -1.5, float("nan"), True, "text", "\ud800", [], [[]], [1, 2], [["a"]], {}, {"a": 1}]


def test_no_value_anywhere_gets_past_that_pytest_stumbles_over(item: pytest.Item) -> None:
    """Each place of a report takes each value; what is accepted can be shown, and written."""
    data = real(item)

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        found = [path] if path else []
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in entries:
            found += places(inner, (*path, key))
        return found

    accepted = refused = 0
    for path in places(data):
        for value in VALUES:
            copy = json.loads(json.dumps(data))
            at = copy
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                report = _reports.rebuilt(item, copy)
            except _sandbox.Broken:
                refused += 1
                continue
            accepted += 1
            assert report.nodeid == item.nodeid
            assert report.longreprtext.encode() or report.longrepr is None or not report.longreprtext
            json.dumps(item.config.hook.pytest_report_to_serializable(config=item.config, report=report))
            item.config.hook.pytest_report_teststatus(report=report, config=item.config)
            for name, content in report.sections:
                assert (name + content).encode() is not None
    assert accepted > 100
    assert refused > 500


def test_sections_and_skips_and_subtests(item: pytest.Item) -> None:
    base = {"when": "call", "outcome": "skipped"}
    assert _reports.rebuilt(item, {**base, "longrepr": ["file", 3, "why"]}).longrepr == ("file", 3, "why")
    for longrepr in (["file", 3], ["file", "3", "why"], 3, {"reprtraceback": {"style": "odd"}}):
        with pytest.raises(_sandbox.Broken):
            _reports.rebuilt(item, {**base, "longrepr": longrepr})
    assert _reports.rebuilt(item, {**base, "wasxfail": "why"}).wasxfail == "why"
    many = [["name", "text"]] * 10_001
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, {**base, "sections": many})
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, {**base, "_report_type": "SubTestReport"})
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, "text")


def test_what_a_whole_test_is(item: pytest.Item) -> None:
    def reports(*pairs: tuple[str, str]) -> list[pytest.TestReport]:
        return [_reports.rebuilt(item, {"when": when, "outcome": outcome}) for when, outcome in pairs]

    passed = [("setup", "passed"), ("call", "passed"), ("teardown", "passed")]
    assert _reports.complete(reports(*passed))
    assert _reports.complete(reports(("setup", "failed"), ("teardown", "passed")))
    assert _reports.complete(reports(*passed[:1], ("call", "rerun"), *passed[2:], *passed))
    for less in (passed[:2], passed[1:], passed[::2], [("setup", "passed"), ("call", "rerun"), ("teardown", "passed")]):
        assert not _reports.complete(reports(*less))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"file": 3, "context": "", "arcs": False, "places": [1]},
        {"file": "f", "context": "", "arcs": 0, "places": [1]},
        {"file": "f", "context": "", "arcs": False, "places": 1},
        {"file": "f", "context": "", "arcs": False, "places": ["1"]},
        {"file": "f", "context": "", "arcs": False, "places": [True]},
        {"file": "f", "context": "", "arcs": False, "places": [2**60]},
        {"file": "f", "context": "", "arcs": True, "places": [1]},
        {"file": "f", "context": "", "arcs": True, "places": [[1]]},
        {"file": "f", "context": "", "arcs": True, "places": [[1, 2]] * 2_000_001},
    ],
)
def test_coverage_that_is_none(message: dict[str, Any]) -> None:
    with pytest.raises(_sandbox.Broken):
        _coverage.Gathered().add(message)


def test_coverage_of_two_kinds() -> None:
    gathered = _coverage.Gathered()
    gathered.add({"file": "f", "context": "", "arcs": True, "places": [[-1, 1], [1, 2]], "tracer": "some.tracer"})
    with pytest.raises(_sandbox.Broken):
        gathered.add({"file": "f", "context": "", "arcs": False, "places": [1]})


@pytest.mark.parametrize(("word", "seconds"), [("10s", 10), ("1.5m", 90), ("100ms", 0.1), (3, 3), (0.5, 0.5), ("none", None), ("2h", 7200)])
def test_times(word: object, seconds: float | None) -> None:
    assert _policy._seconds(word, "here") == seconds


assert PLUGIN is not None
