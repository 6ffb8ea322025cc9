"""What a test in a sandbox can do to the pytest outside: say that it passed, and no more."""

from __future__ import annotations

import json
import os
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from confine.pytest_plugin import _coverage, _host, _policy, _reports, _sandbox
from conftest import PLUGIN, Run, need, outcomes

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
        ("say(warning=3)", "BROKEN"),
        ("write(b'{\"report\":' + b'9' * 100000 + b'}\\n')", "BROKEN"),
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
def test_what_a_hostile_test_says(pytester: pytest.Pytester, run: Run, code: str, message: str) -> None:
    pytester.makepyfile(FIND + f"def test_hostile():\n    {code}\ndef test_after(): pass\n")
    begun = time.monotonic()
    result = run("--confine=session", "-o", "confine_time_limit=5s")
    counts = outcomes(result)
    counts.pop("rerun", None)  # these count for nothing
    assert counts == {"failed": 1, "passed": 2}
    result.stdout.re_match_lines([f"FAILED .*test_hostile - ({message}): .*"])
    assert time.monotonic() - begun < 60


def test_reports_name_no_other_test(pytester: pytest.Pytester, run: Run) -> None:
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
def test_no_sandbox_ends_the_session(pytester: pytest.Pytester, run: Run, code: str, failed: int) -> None:
    need("python:xdist")
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
    with pytest.raises(_sandbox.Gone):
        box.send({})


def test_warnings_show_no_files(pytester: pytest.Pytester, run: Run) -> None:
    secret = pytester.path / "secret"
    secret.write_text("hunter2\n")
    os.mkfifo(pytester.path / "fifo")
    pytester.makepyfile(
        "import warnings\n" + FIND + "def test_hostile():\n"
        f"    say(warning='for\\x1b[2Jged', file={str(secret)!r}, line=1, category=['builtins', 'UserWarning'])\n"
        f"    say(warning='forged', file={str(pytester.path / 'fifo')!r} + '\\x1b[2J', line=1, category=[[], {{}}])\n"
        f"    say(warning='forged', file={str(pytester.path / 'fifo')!r}, line=10**9, category=['pytest', 'Item'])\n"
        f"    say(warning='forged', file=__file__, line=-1, category=['pytest', 'PytestWarning'])\n"
        "    warnings.warn('careful')  # where it is\n"
    )
    result = run("--confine", "-W", "default")
    assert outcomes(result) == {"passed": 2, "warnings": 5}
    text = result.stdout.str()
    assert "hunter2" not in text
    assert "\x1b[2J" not in text
    result.stdout.fnmatch_lines_random(
        [r"*secret:1: UserWarning: for\x1b[[]2Jged", r"*fifo\x1b[[]2J:1: UserWarning: forged", "*PytestWarning: forged", "*# where it is"]
    )


def test_warnings_have_an_end(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "_WARNINGS", 3)
    pytester.makepyfile(FIND + "def test_it():\n    for n in range(5): say(warning=f'{n}' + 'x' * 5000, file='', line=n)\n")
    result = run("--confine", "-W", "default")
    assert outcomes(result) == {"passed": 2, "warnings": 4}
    result.stdout.fnmatch_lines(["*confine: 2 warnings of tests are not shown"])
    assert "x" * 3000 not in result.stdout.str()


def test_words_from_inside_are_made_visible(pytester: pytest.Pytester, run: Run) -> None:
    for code in (
        "say(missing='\\x1b[2J'); time.sleep(60)",
        "say(internal='\\x1b[2J'); time.sleep(60)",
        "os.write(worker()._stderr, b'\\x1b[2J'); os._exit(0)",
    ):
        pytester.makepyfile(FIND + f"def test_hostile():\n    {code}\n")
        result = run("--confine", "-k", "hostile")
        assert result.ret == 1
        assert "\x1b[2J" not in result.stdout.str(), code
        assert r"\x1b[2J" in result.stdout.str(), code
    assert _host._told({"kind": "network", "what": "a\u202eb\n", "rule": "r", "hint": "\x1b"}) == r"network a\u202eb\n: r (\x1b)"


def test_properties_and_the_xml_file(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        "import pytest\n" + FIND + "def test_hostile(record_property):\n"
        "    record_property('\\0\\x1b<&\\ud800', '\\0\\x1b<&\\ud800\\ufffe')\n"
        "    for name in ('confine_status', 'confine_reason', 'confine_denied'): record_property(name, 'OK')\n"
        "    print('\\0\\x1b\\ufffe]]>')\n    pytest.fail('\\0\\x1b\\ufffe<')\n"
        "def test_fails(): pytest.fail('\\0\\x1b', pytrace=False)\n"
        "def test_skips(): pytest.skip('\\0\\x1b')\n"
        "def test_xfails(): pytest.xfail('\\0\\x1b')\n"
        "def test_properties(record_property):\n"
        "    for value in ([1], {2: 3}, 4, 2.5, float('nan'), 10**400, None, True): record_property('of', value)\n"
    )
    result = run("--confine", "--junitxml=out.xml", "-o", "junit_logging=all", "-ra")
    assert outcomes(result) == {"failed": 2, "passed": 2, "skipped": 1, "xfailed": 1}
    summary = result.stdout.str().rpartition("short test summary")[2]
    assert "\x1b" not in summary
    assert summary.count(r"\x1b") >= 3
    found = [(entry.get("name"), entry.get("value")) for entry in ElementTree.parse(pytester.path / "out.xml").iter("property")]
    assert found[0] == (r"\x00\x1b<&\ud800", r"#x00#x1B<&\ud800#xFFFE")
    values = ["[1]", "{2: 3}", "4", "2.5", "nan", "1" + "0" * 400, "None", "True"]
    assert found[1:] == [("of", value) for value in values]


def test_what_all_tests_say_has_an_end(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "_SAID", 2**19)
    pytester.makepyfile(
        FIND + "def test_loud(): print('~' * 2**20)\n"
        "def test_louder(): print('~' * 2**20); assert 0\n"
        "def test_hostile():\n    for _ in range(9): say(report=report('setup', sections=[['x', '~' * 2**15]]))\n"
    )
    result = run("--confine")
    assert outcomes(result) == {"failed": 2, "passed": 2}
    result.stdout.fnmatch_lines(["FAILED *test_louder - assert 0", "FAILED *test_hostile - BROKEN: *"])
    assert result.stdout.str().count("~") < 2**13


def test_a_flood_at_the_end_of_a_test_is_its_failure(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:

    def flooded(box: object) -> None:
        raise _sandbox.Broken("a flood")

    monkeypatch.setattr(_sandbox.Sandbox, "drain", flooded)
    pytester.makepyfile("def test_it(): pass")
    result = run("--confine")
    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["BROKEN: *(a flood)"])


def test_sandboxes_that_do_not_end_cost_seconds_in_all(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_host, "_LEAVE_S", 0.2, raising=False)
    # Whoever has told all that it has to isn't waited for: of the minute nothing is spent.
    pytester.makepyfile(
        "import atexit, pytest, time\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n): atexit.register(time.sleep, 99)\n"
    )
    begun = time.monotonic()
    assert outcomes(run("--confine"))["passed"] == 6
    assert time.monotonic() - begun < 20
    monkeypatch.setattr(_host, "_FINISH_S", 4.0)
    monkeypatch.setenv("OUTSIDE", "1")
    pytester.makeconftest("import os, time\ndef pytest_sessionfinish(): 'OUTSIDE' in os.environ or time.sleep(99)\n")
    begun = time.monotonic()
    assert outcomes(run("--confine"))["passed"] == 6  # what is lost of their coverage, if it is measured, is a warning
    assert time.monotonic() - begun < 20


def test_a_module_whose_sandboxes_are_not_ready_costs_one_wait(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_host, "_START_S", 3.0)
    monkeypatch.setenv("OUTSIDE", "1")
    pytester.makepyfile(
        "import os, pytest, time\nif 'OUTSIDE' not in os.environ: time.sleep(99)\n"
        "@pytest.mark.parametrize('n', range(6))\ndef test_it(n): pass"
    )
    begun = time.monotonic()
    assert outcomes(run("--confine")) == {"errors": 6}
    assert time.monotonic() - begun < 12


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
    said = [["Captured\x1b[2J\n", "\x1b[1mtext"], ["Denied by confine", "nothing"]]
    report = _reports.rebuilt(item, {**base, "longrepr": ["file", 3, "why"], "sections": said})
    assert report.sections == [("Captured\\x1b[2J\\n", "\x1b[1mtext")]
    many = [["name", "text"]] * 10_001
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, {**base, "sections": many})
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, {**base, "_report_type": "SubTestReport"})
    with pytest.raises(_sandbox.Broken):
        _reports.rebuilt(item, "text")
    # Without these pytest's summaries, and junit.xml, end the session.
    for outcome, longrepr in (("failed", None), ("skipped", None), ("skipped", "why")):
        with pytest.raises(_sandbox.Broken):
            _reports.rebuilt(item, {"when": "call", "outcome": outcome, "longrepr": longrepr})


def test_what_a_whole_test_is(item: pytest.Item) -> None:
    def reports(*pairs: tuple[str, str]) -> list[pytest.TestReport]:
        return [_reports.rebuilt(item, {"when": when, "outcome": outcome, "longrepr": "why"}) for when, outcome in pairs]

    passed = [("setup", "passed"), ("call", "passed"), ("teardown", "passed")]
    assert _reports.complete(reports(*passed))
    assert _reports.complete(reports(("setup", "failed"), ("teardown", "passed")))
    assert _reports.complete(reports(*passed[:1], ("call", "rerun"), *passed[2:], *passed))
    for less in (passed[:2], passed[1:], passed[::2], [("setup", "passed"), ("call", "rerun"), ("teardown", "passed")]):
        assert not _reports.complete(reports(*less))


class Measuring:
    """A coverage that measures lines, or arcs, of the files below a directory."""

    def __init__(self, below: Path, *, branch: bool = False):
        self.below = below
        self.options = {"run:branch": branch}
        self.config = self._inorout = self
        self.plugins = ["templates"]
        self.context = None
        self.added: list[Any] = []

    def get_option(self, name: str) -> Any:
        return self.options.get(name)

    def check_include_omit_etc(self, path: str, frame: Any) -> str | None:
        return None if path.startswith(f"{self.below}/") else "elsewhere"

    def get_data(self) -> Any:
        return self

    def set_context(self, context: str | None) -> None:
        self.added.append(context)

    def add_lines(self, files: dict[str, set[int]]) -> None:
        self.added.append(files)

    add_arcs = add_file_tracers = add_lines


@pytest.fixture
def measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measuring:
    """What measures here measures files in tmp_path / "mine"."""
    for name in ("mine/file.py", "mine/page.html", "other/file.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("line\n" * 10)
    monkeypatch.chdir(tmp_path / "mine")
    found = Measuring(tmp_path / "mine")
    monkeypatch.setattr(_coverage, "_current", lambda: found)
    return found


@pytest.mark.parametrize(
    "changed",
    [
        {"file": None},
        {"file": 3},
        {"file": "x" * 5000},
        {"file": "\ud800"},
        {"file": "file.py\0"},
        {"context": "of nobody"},
        {"arcs": 0},
        {"arcs": True, "places": [[1, 2]]},
        {"places": 1},
        {"places": ["1"]},
        {"places": [True]},
        {"places": [[1, 2]]},
    ],
)
def test_coverage_that_is_none(measuring: Measuring, changed: dict[str, Any]) -> None:
    with pytest.raises(_sandbox.Broken):
        _coverage.Gathered(contexts=False).add({"file": "file.py", "context": "", "arcs": False, "places": [1], **changed})
    measuring.options["run:branch"] = True
    for places in ([1], [[1]], [[1, 2, 3]], [["1", 2]]):
        with pytest.raises(_sandbox.Broken):
            _coverage.Gathered(contexts=False).add({"file": "file.py", "context": "", "arcs": True, "places": places})


def test_coverage_is_of_what_is_measured_here(measuring: Measuring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = _coverage.Gathered(contexts=True)

    def add(file: str, places: list[Any], context: str = "", tracer: str = "") -> None:
        gathered.add({"file": file, "context": context, "arcs": False, "places": places, "tracer": tracer})

    add("file.py", [1, 2, 10**6, -1], tracer="templates.Tracer")
    add("file.py", [2, 3], context="c")
    add("page.html", [5], tracer="templates.Tracer")
    add(str(tmp_path / "mine/page.html"), [5], tracer="forged.Tracer")
    for elsewhere in ("missing.py", "/etc/passwd", "../other/file.py", str(tmp_path / "other/file.py"), "."):
        add(elsewhere, [1])
    assert gathered.merge() == ""
    page = str(tmp_path / "mine/page.html")
    lines = {"file.py": {1, 2}, "page.html": {5}, page: {5}}
    assert measuring.added == ["", lines, "c", {"file.py": {2, 3}}, {"page.html": "templates.Tracer"}, None]
    assert gathered.merge() == ""
    # There is an end to it, of which what comes again is no part.
    monkeypatch.setattr(_coverage, "_PLACES", 12)
    for _ in range(3):
        add("file.py", list(range(1, 11)))
    with pytest.raises(_sandbox.Broken):
        add("page.html", list(range(1, 11)))
    monkeypatch.setattr(_coverage, "_FILES", 8)  # as many as were asked about
    with pytest.raises(_sandbox.Broken):
        add("one more", [1])


def test_coverage_that_cannot_be_added_is_told(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = _coverage.Gathered(contexts=False)
    gathered.add({"file": "file.py", "context": "", "arcs": False, "places": [1]})

    def fails(files: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(measuring, "add_lines", fails)
    assert gathered.merge() == "ValueError: no"
    measuring._inorout = None  # type: ignore[assignment] # as of a version that has none
    with pytest.raises(_sandbox.Broken, match="can't be asked"):
        gathered.add({"file": "page.html", "context": "", "arcs": False, "places": [1]})


COVERAGE = """
def forge(**message): say(coverage={"context": "", "arcs": False, "tracer": None, **message})
def test_hostile():
    atexit.register(forge, file=os.path.abspath("other.py"), places=[1, 2])
    atexit.register(forge, file="/etc/passwd", places=[1])
    atexit.register(forge, file=os.path.abspath("mod.py"), places=[5, 2**23])
    MORE
"""


def test_coverage_that_is_made_up(pytester: pytest.Pytester) -> None:
    need("linux", "python:pytest_cov")
    pytester.makepyfile(mod="def hit():\n    return 1\n\ndef missed():\n    return 2\n", other="def hit():\n    return 1\n")
    code = "import atexit, mod\n" + FIND + COVERAGE
    pytester.makepyfile(test_it=code.replace("MORE", "mod.hit()"))
    arguments = [*PLUGIN, "--confine=session", "--cov=mod", "--cov-report=json", "-rw"]
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == 0
    (name, measured), *more = json.loads((pytester.path / "coverage.json").read_text())["files"].items()
    assert not more
    assert name == "mod.py"
    assert measured["executed_lines"] == [1, 2, 4, 5]
    assert (pytester.path / ".coverage").stat().st_size < 200_000
    # Of another kind, it is none, and that is said.
    pytester.makepyfile(test_it=code.replace("MORE", "atexit.register(forge, file='mod.py', arcs=True, places=[[1, 2]])"))
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*PytestWarning: confine: coverage of 1 sandbox(es) is not counted*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


@pytest.mark.parametrize(("word", "seconds"), [("10s", 10), ("1.5m", 90), ("100ms", 0.1), (3, 3), (0.5, 0.5), ("none", None), ("2h", 7200)])
def test_times(word: object, seconds: float | None) -> None:
    assert _policy._seconds(word, "here") == seconds


assert PLUGIN is not None
