"""The pytest plugin, by pytester: what users see of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conftest import PLUGIN, Run, need, outcomes, until

pytest_plugins = ["pytester"]

SCOPES = ("test", "module", "session")


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    need("linux")
    monkeypatch.setenv("COLUMNS", "200")
    for name in list(os.environ):
        if name.startswith(("PYTEST_", "COV_CORE_", "COVERAGE_")):
            monkeypatch.delenv(name)


EVERYTHING = """
import os, sys, unittest, warnings, pytest

@pytest.fixture(scope="module")
def wide():
    yield {"made": os.getpid()}

@pytest.fixture(scope="session")
def widest(tmp_path_factory):
    return tmp_path_factory.mktemp("wide")

def test_passes(wide, widest, tmp_path, monkeypatch, request, capfd):
    assert wide["made"] == os.getpid() and tmp_path.is_dir() and widest.is_dir()
    os.write(1, b"seen")
    assert capfd.readouterr().out == "seen"

def test_fails():
    print("said on out"); print("said on err", file=sys.stderr)
    assert [1, 2] == [1, 3]

@pytest.mark.skip(reason="not this")
def test_skips(): pass

def test_skips_inside(): pytest.skip("nor this")

@pytest.mark.xfail(reason="known")
def test_xfails(): assert 0

@pytest.mark.xfail
def test_xpasses(): pass

@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(): pass

@pytest.mark.parametrize("x", ["a b", "ö/::[", "\\x00\\n", "", "a::b", "--x", "\\ud800"])
def test_ids(x): pass

@pytest.fixture
def broken(): raise ValueError("in setup")

@pytest.fixture
def breaks():
    yield
    raise ValueError("in teardown")

def test_setup(broken): pass
def test_teardown(breaks): pass
def test_warns(): warnings.warn("careful", RuntimeWarning)

@pytest.fixture(scope="class")
def once(): return []

class TestClass:
    def test_a(self, once): once.append(1)
    def test_b(self, once): once.append(2)

class TestUnit(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.value = 4
    def setUp(self): self.other = 5
    def test_a(self): self.assertEqual((self.value, self.other), (4, 5))
    def test_b(self): self.fail("unit")
    @unittest.skip("unit skip")
    def test_c(self): pass
    @unittest.expectedFailure
    def test_d(self): self.fail()
"""


def test_each_scope_has_the_outcomes_of_no_scope(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(EVERYTHING)
    pytester.makeini("[pytest]\nfilterwarnings = default\n")  # and not the ones here
    pytester.makeconftest("import pytest\n@pytest.fixture(autouse=True)\ndef always(record_property): record_property('key', 'value')\n")
    without = run()
    assert outcomes(without)["passed"] >= 13
    for scope in SCOPES:
        within = run(f"--confine={scope}", "--junitxml=out.xml", "-ra")
        assert outcomes(within) == outcomes(without), scope
        within.stdout.fnmatch_lines(["confine: * in a sandbox of its own"])
        within.stdout.fnmatch_lines(
            ["*assert [[]1, 2] == [[]1, 3]", "*Captured stdout call*", "said on out", "*Captured stderr call*", "said on err"]
        )
        within.stdout.fnmatch_lines(
            ["*RuntimeWarning: careful", "SKIPPED * not this", "XFAIL * known", "ERROR *test_setup - ValueError: in setup"]
        )
        root = ElementTree.parse(pytester.path / "out.xml")
        assert {found.get("value") for found in root.iter("property")} == {"value"}


def test_another_way_to_name_it(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("import os\ndef test_it(): print('pid', os.getpid()); assert 0")
    pytester.mkdir("sub")
    run("--confine", "test_another_way_to_name_it.py").stdout.fnmatch_lines(["confine: each test in*"])
    pytester.makeini("[pytest]\nconfine = session\n")
    run().stdout.fnmatch_lines(["confine: the session in*"])
    run("--confine=module").stdout.fnmatch_lines(["confine: each module in*"])
    run("--confine=off").stdout.no_fnmatch_line("confine:*")
    result = run("--confine=all")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--confine=test/--confine=module/--confine=session/--confine=off: *'all'"])
    pytester.makeini("[pytest]\nconfine = all\n")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*confine = all: not one of test, module, session, off"])


CRASHES = """
import ctypes, os, time, pytest
STATE = []

@pytest.fixture(scope="module")
def wide(): return STATE

def test_first(wide): wide.append(1)
def test_segfault(wide): ctypes.string_at(0)
def test_exits(): os._exit(0)
@pytest.mark.confine(time_limit=0.5)
def test_hangs(): time.sleep(60)
@pytest.mark.confine(memory_limit="100M")
def test_eats(): hog = [bytearray(2**20) for _ in range(3000)]
def test_killed(): os.kill(os.getpid(), 9)
def test_dies_in_teardown(dies): pass
@pytest.fixture
def dies():
    yield
    os._exit(3)
@pytest.fixture
def never(): os._exit(4)
def test_dies_in_setup(never): pass
def test_last(wide): assert len(wide) < 2
"""


@pytest.mark.parametrize("scope", SCOPES)
def test_what_ends_a_sandbox_is_a_failed_test(pytester: pytest.Pytester, run: Run, scope: str) -> None:
    pytester.makepyfile(CRASHES)
    result = run(f"--confine={scope}", "--junitxml=out.xml")
    assert outcomes(result) == {"errors": 1, "failed": 6, "passed": 3}
    result.stdout.fnmatch_lines_random(
        [
            "FAILED *test_segfault - KILLED_SIGNAL: killed by SIGSEGV",
            "FAILED *test_exits - EXITED: the test ended its interpreter*",
            "FAILED *test_hangs - TIMEOUT: time limit of 0.5 s reached",
            "FAILED *test_eats - MEM_LIMIT: memory limit*",
            "FAILED *test_killed - KILLED_KILL: killed by SIGKILL",
            "FAILED *test_dies_in_setup - EXITED:*",
            "ERROR *test_dies_in_teardown - EXITED:*",
            "Fatal Python error: Segmentation fault",
            "*in test_segfault",
            "Timeout (0:00:00.5*",
            "*in test_hangs",
        ]
    )
    cases = {case.get("name"): case for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")}
    for name, status in (("test_segfault", "KILLED_SIGNAL"), ("test_hangs", "TIMEOUT"), ("test_eats", "MEM_LIMIT")):
        found = {entry.get("name"): entry.get("value") for entry in cases[name].iter("property")}
        assert found["confine_status"] == status
        assert found["confine_reason"]
        (failure,) = cases[name].iter("failure")
        assert (failure.get("message") or "").startswith(status)
    assert not list(cases["test_last"])


def test_what_is_shared_and_what_is_not(pytester: pytest.Pytester, run: Run) -> None:
    code = (
        "import common, os\ndef test_a():\n    common.SEEN.append(1); open('left', 'a').write('x')\n"
        "    print(f'<{len(common.SEEN)} {os.path.getsize(\"left\")}>')\n"
        "    assert 0\ndef test_b(): test_a()\n"
    )
    pytester.makepyfile(common="SEEN = []", test_one=code, test_two=code)
    seen = {scope: [line.strip("<>") for line in run(f"--confine={scope}").outlines if line.startswith("<")] for scope in SCOPES}
    assert seen["test"] == ["1 1"] * 4
    assert seen["module"] == ["1 1", "2 2"] * 2
    assert seen["session"] == ["1 1", "2 2", "3 3", "4 4"]
    assert not (pytester.path / "left").exists()


def test_marker_and_ini_keys(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "1")
    monkeypatch.setenv("SECRET", "1")
    (pytester.mkdir("elsewhere") / "file").write_text("there")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        pytester.makeini(
            "[pytest]\nconfine = module\nconfine_env = GIVEN SET=2\nconfine_time_limit = 9s\nconfine_options = --processes=40\n"
        )
        pytester.makepyfile(
            f"""
            import os, resource, socket, threading, time, pytest
            pytestmark = pytest.mark.confine(file_descriptors=99)
            def connect(): socket.create_connection(("127.0.0.1", {port}), 3).close()
            def test_ini():
                assert os.environ["GIVEN"] == "1" and os.environ["SET"] == "2" and "SECRET" not in os.environ
                assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 99
                with pytest.raises(RuntimeError):
                    for _ in range(60): threading.Thread(target=time.sleep, args=(0.5,)).start()
            @pytest.mark.confine(network=["localhost:{port}"])
            def test_network(): connect()
            def test_no_network():
                with pytest.raises(OSError): connect()
            @pytest.mark.confine(env={{"MARKED": "3"}}, file_descriptors=50)
            def test_closer():
                assert os.environ["MARKED"] == "3" and "SET" not in os.environ
                assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 50
            @pytest.mark.confine(enabled=False)
            def test_outside(tmp_path):
                assert os.getppid() == {os.getppid()} and os.environ["SECRET"] == "1"
                connect()
            @pytest.mark.confine(time_limit="none")
            def test_no_limit(): pass
            """
        )
        result = run()
    assert outcomes(result) == {"passed": 6}


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("timelimit=3", "*has no 'timelimit'*time_limit*"),
        ("5", "*takes names*"),
        ("network='host'", "*network of the marker confine is a list*"),
        ("enabled=1", "*enabled of the marker*"),
        ("memory_limit=None", "*memory_limit of the marker*"),
        ("time_limit=-1", "*time_limit -1 is no time*"),
        ("time_limit='soon'", "*time_limit 'soon' is no time*"),
    ],
)
def test_a_marker_that_says_nothing_known_is_an_error(pytester: pytest.Pytester, run: Run, mark: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.confine({mark})\ndef test_it(): pass")
    result = run("--confine")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    # Without --confine it says nothing.
    assert outcomes(run()) == {"passed": 1}


def test_a_sandbox_that_cannot_be_is_an_error_of_each_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('x', range(5))\ndef test_it(x): pass\n"
        "@pytest.mark.confine(memory_limit='1M')\ndef test_small(): pass"
    )
    begun = time.monotonic()
    result = run("--confine=module", "-o", "confine_options=--no-such-option")
    assert outcomes(result) == {"errors": 6}
    result.stdout.fnmatch_lines(["*no-such-option*"])
    assert time.monotonic() - begun < 20
    result = run("--confine=module")
    assert outcomes(result) == {"passed": 5, "errors": 1}
    result.stdout.fnmatch_lines(["*MEM_LIMIT: the sandbox came to no test*"])


def test_no_program_and_no_debugger(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile("def test_it(): pass")
    for option in ("--pdb", "--trace", "--setup-show"):
        result = run("--confine", option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*does not go with debuggers*"])
    monkeypatch.setenv("CONFINE_BINARY", "/no/such/confine")
    result = run("--confine")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--confine: *CONFINE_BINARY*"])
    assert outcomes(run()) == {"passed": 1}


@pytest.mark.parametrize("scope", SCOPES)
def test_workers_of_xdist(pytester: pytest.Pytester, run: Run, scope: str) -> None:
    need("python:xdist")
    pytester.makeini("[pytest]\nfilterwarnings = default\n")
    pytester.makepyfile(test_one=EVERYTHING.replace('"\\x00\\n", ', "").replace(', "\\ud800"', ""), test_two=CRASHES)
    without = outcomes(run("--confine=off", "test_one.py"))
    result = run(f"--confine={scope}", "-n2", "--maxfail=100", "--junitxml=out.xml")
    found = outcomes(result)
    assert found["failed"] == without["failed"] + 6
    assert found["passed"] == without["passed"] + 3
    assert {key: found[key] for key in ("skipped", "xfailed", "xpassed", "warnings")} == {
        key: without[key] for key in ("skipped", "xfailed", "xpassed", "warnings")
    }
    result.stdout.fnmatch_lines(["FAILED *test_segfault - KILLED_SIGNAL*"])
    values = {entry.get("value") for entry in ElementTree.parse(pytester.path / "out.xml").iter("property")}
    assert {"KILLED_SIGNAL", "MEM_LIMIT", "TIMEOUT"} <= values


def test_groups_of_xdist(pytester: pytest.Pytester, run: Run) -> None:
    need("python:xdist")
    pytester.makepyfile(
        "import pytest\n@pytest.mark.xdist_group('g')\ndef test_a(): pass\n@pytest.mark.xdist_group('g')\n"
        "def test_b(): pass\ndef test_c(): pass"
    )
    assert outcomes(run("--confine=module", "-n2", "--dist=loadgroup")) == {"passed": 3}


def test_stopping_and_selecting(pytester: pytest.Pytester) -> None:
    name = "test_stopping_and_selecting.py"
    pytester.makepyfile("def test_a(): pass\ndef test_b(): assert 0\ndef test_c(): assert 0\ndef test_d(): pass")

    def run(*arguments: str) -> dict[str, int]:
        return outcomes(pytester.runpytest(*PLUGIN, *arguments))

    assert run("--confine") == {"failed": 2, "passed": 2}
    assert run("--confine", "-x") == {"failed": 1, "passed": 1}
    assert run("--confine=session", "-x") == {"failed": 1, "passed": 1}
    assert run("--confine=session", "--maxfail=2") == {"failed": 2, "passed": 1}
    assert run("--confine=session", "-k", "test_a or test_c") == {"deselected": 2, "failed": 1, "passed": 1}
    assert run("--confine=session", "--lf") == {"failed": 2}
    assert run("--confine=session", "--ff", "--deselect", f"{name}::test_a") == {"deselected": 1, "failed": 2, "passed": 1}
    assert run("--confine=session", f"{name}::test_d") == {"passed": 1}


def test_leaving_a_session(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("import pytest\ndef test_a(): pytest.exit('enough', returncode=0)\ndef test_b(): pass")
    for scope in SCOPES:
        result = run(f"--confine={scope}")
        assert result.ret == 1
        assert outcomes(result) == {"failed": 1, "passed": 1}
        result.stdout.fnmatch_lines(["FAILED *test_a - FAILED: pytest.exit: enough"])
    pytester.makepyfile("import pytest\ndef test_a(request): request.session.shouldstop = 'well'\ndef test_b(): pass")
    assert outcomes(run("--confine=session")) == {"passed": 2}
    pytester.makepyfile("def test_a(): raise KeyboardInterrupt\ndef test_b(): pass")
    assert outcomes(run("--confine=session")) == {"failed": 1, "passed": 1}


def test_output_that_is_not_captured(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        "import os, sys\ndef test_it():\n    assert sys.stdin.read() == ''\n    print('printed'); os.system('echo from a program')"
    )
    run("--confine", "-s").stdout.fnmatch_lines(["*printed", "*from a program"])
    run("--confine", "--capture=tee-sys").stdout.fnmatch_lines(["*printed"])
    pytester.makepyfile("import sys\ndef test_it():\n    sys.stdout.write('~' * 3000000); assert 0")
    result = run("--confine")
    result.stdout.fnmatch_lines(["[[]TRUNCATED]"])
    assert 2**20 <= result.stdout.str().count("~") < 2**20 + 1000


def test_denials_are_told(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import ctypes, socket, pytest
        def test_call(): assert ctypes.CDLL(None).unshare(0x10000000) == 0
        @pytest.mark.confine(network=["example.invalid"])
        def test_network():
            with socket.create_connection(("203.0.113.9", 80), 3) as s: assert s.recv(1)
        def test_nothing(): assert 0
        """
    )
    result = run("--confine=test", "--junitxml=out.xml")
    result.stdout.fnmatch_lines(["*Denied by confine*", "syscall unshare(*", "*Denied by confine*", "network 203.0.113.9:80: not_allowed*"])
    cases = {case.get("name"): case for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")}
    denied = {name: [entry.get("value") or "" for entry in case.iter("property")] for name, case in cases.items()}
    assert denied["test_call"][0].startswith("syscall unshare(")
    assert denied["test_network"][0].startswith("network 203.0.113.9:80")
    assert denied["test_nothing"] == []


def test_ini_file_conftest_and_directories(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pytester.mkdir("project")
    (root / "lib").mkdir()
    (root / "tests" / "deep").mkdir(parents=True)
    (root / "pytest.ini").write_text(
        "[pytest]\nconfine = session\npythonpath = lib\naddopts = --mine\nmarkers = own\nfilterwarnings = error\n"
    )
    (root / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--mine', action='store_true')\n")
    (root / "lib" / "library.py").write_text("VALUE = 9\n")
    (root / "data").write_text("data")
    (root / "tests" / "deep" / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef deep(): return 'deep'\n")
    (root / "tests" / "deep" / "test_it.py").write_text(
        "import os, library, pytest\n@pytest.mark.own\ndef test_it(deep, pytestconfig):\n"
        "    assert (library.VALUE, deep, pytestconfig.option.mine) == (9, 'deep', True)\n"
        "    assert os.getcwd().endswith('/project/tests') and os.path.getsize('../data') == 4\n"
    )
    monkeypatch.chdir(root / "tests")
    assert outcomes(run()) == {"passed": 1}
    assert outcomes(run("deep")) == {"passed": 1}
    monkeypatch.chdir(root.parent)
    (root / "tests" / "deep" / "test_it.py").write_text("def test_it(deep): assert deep == 'deep'\n")
    assert outcomes(run(str(root))) == {"passed": 1}


def test_what_is_only_there_outside(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        "import os, pytest\nNAMES = ['x'] if os.environ.get('OUTSIDE') else ['y']\n@pytest.mark.parametrize('n', NAMES)\n"
        "def test_it(n): pass\ndef test_other(): pass"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTSIDE", "1")
        result = run("--confine=module")
    assert outcomes(result) == {"errors": 1, "passed": 1}
    result.stdout.fnmatch_lines(["*NOT_FOUND: the test is not there when it is collected in the sandbox"])
    pytester.makepyfile("import os\nassert os.environ.get('OUTSIDE'), 'only outside'\ndef test_it(): pass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTSIDE", "1")
        result = run("--confine=module")
    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*AssertionError: only outside*"])


def test_a_current_directory_that_is_too_broad_is_told(pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project = pytester.mkdir("project")
    (project / "pytest.ini").write_text("[pytest]\n")
    (project / "test_it.py").write_text("def test_it(): pass\n")
    monkeypatch.setenv("HOME", str(pytester.path))
    result = run("--confine", "project/test_it.py")
    assert outcomes(result) == {"errors": 1}
    result.stdout.fnmatch_lines(["*NOT_FOUND: *", "the current directory *start in the directory of a project, or give absolute paths"])
    assert outcomes(run("--confine", str(project / "test_it.py"))) == {"passed": 1}


def test_arguments_that_no_pipe_takes_at_once(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_it(): pass")
    assert outcomes(run("--confine", "--deselect=" + "x" * 300_000)) == {"passed": 1}


def test_subtests(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self):\n        for i in range(5):\n"
        "            with self.subTest('of', i=i): self.assertLess(i, 3)\n"
    )
    assert outcomes(run("--confine=module")) == outcomes(run())


def test_plugins_that_run_tests_again_or_stop_them(pytester: pytest.Pytester, run: Run) -> None:
    need("python:pytest_rerunfailures", "python:pytest_timeout")
    pytester.makepyfile(
        "import time\nTRIES = []\ndef test_rr():\n    TRIES.append(1)\n    assert len(TRIES) == 3\ndef test_tt(): time.sleep(60)"
    )
    result = run("--confine=module", "--reruns=2", "-k", "rr")
    assert outcomes(result) == {"deselected": 1, "passed": 1, "rerun": 2}
    result = run("--confine=module", "--timeout=1", "-k", "tt")
    assert outcomes(result)["failed"] == 1
    result.stdout.fnmatch_lines(["*Timeout*1.0s*"])


def test_coverage_of_what_ran_inside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    need("python:pytest_cov")
    pytester.makepyfile(
        mod="def hit(x):\n    if x:\n        return 1\n    return 2\n\ndef missed():\n    return 3\n",
        test_one="import mod\ndef test_it(): assert mod.hit(1) == 1\n",
        test_two="import mod\ndef test_it(): assert mod.hit(0) == 2\n",
    )
    for scope in ("off", *SCOPES):
        result = pytester.runpytest_subprocess(*PLUGIN, f"--confine={scope}", "--cov=mod", "--cov-report=term-missing")
        result.stdout.fnmatch_lines(["mod.py *6 *1 *83%* 7"])
    for scope in ("off", "test"):  # branches come the same way
        result = pytester.runpytest_subprocess(
            *PLUGIN, f"--confine={scope}", "--cov=mod", "--cov-branch", "--cov-report=term-missing", "-k", "one"
        )
        result.stdout.fnmatch_lines(["mod.py *6 *2 *2 *1 *62%* 4, 7"])
    result = pytester.runpytest_subprocess(*PLUGIN, "--confine", "--cov=mod", "--cov-context=test", "--cov-report=json")
    contexts = subprocess.run(
        [sys.executable, "-c", "import coverage; d = coverage.CoverageData('.coverage'); d.read(); print(sorted(d.measured_contexts()))"],
        cwd=pytester.path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "test_one.py::test_it|run" in contexts
    subprocess.run(
        [sys.executable, "-m", "coverage", "run", "--source=.", "-m", "pytest", *PLUGIN, "--confine"],
        cwd=pytester.path,
        check=True,
        capture_output=True,
    )
    table = subprocess.run(
        [sys.executable, "-m", "coverage", "report", "-m"], cwd=pytester.path, capture_output=True, text=True, check=True
    ).stdout
    assert any(line.split()[:4] == ["mod.py", "6", "1", "83%"] for line in table.splitlines()), table


def test_coverage_of_packages_that_only_tests_import(pytester: pytest.Pytester) -> None:
    need("python:pytest_cov")
    code = "def hit(x):\n    if x:\n        return 1\n    return 2\n"
    for name, text in (("src/pkg/__init__", ""), ("src/pkg/sub/__init__", ""), ("src/pkg/sub/mod", code), ("src/space/leaf", code)):
        path = pytester.path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pytester.makeini("[pytest]\npythonpath = src\n")
    pytester.makepyfile("def test_it():\n    import pkg.sub.mod as m, space.leaf as l\n    assert (m.hit(1), l.hit(0)) == (1, 2)\n")
    for scope in ("off", "test"):
        result = pytester.runpytest_subprocess(*PLUGIN, f"--confine={scope}", "--cov=pkg", "--cov=space", "--cov-report=term-missing")
        result.stdout.fnmatch_lines(["src/pkg/sub/mod.py *4 *1 *75% *4", "src/space/leaf.py *4 *1 *75% *3"])
        assert "no-data-collected" not in result.stdout.str() + result.stderr.str()


def test_coverage_and_xdist(pytester: pytest.Pytester) -> None:
    need("python:pytest_cov", "python:xdist")
    pytester.makepyfile(
        mod="def hit(x):\n    if x:\n        return 1\n    return 2\n",
        test_one="import mod\ndef test_it(): assert mod.hit(1) == 1\n",
        test_two="import mod\ndef test_it(): assert mod.hit(0) == 2\n",
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "--confine=module", "-n2", "--cov=mod", "--cov-report=term-missing")
    result.stdout.fnmatch_lines(["mod.py *4 *0 *100%*"])


def processes(word: str) -> set[int]:
    """Processes with word in their command lines, this one aside."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


# It never lets another thread of Python's run.
BUSY = "re.match('(a+)+$', 'a' * 60 + 'b')"
# It listens to nothing, or it can't.
DEAF = "signal.signal(signal.SIGIO, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(99)"
STOPPED = "os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, BUSY), (signal.SIGINT, BUSY), (signal.SIGTERM, BUSY), (signal.SIGKILL, DEAF), (signal.SIGKILL, STOPPED)],
)
def test_nothing_is_left_of_a_pytest_that_is_ended(pytester: pytest.Pytester, number: signal.Signals, code: str) -> None:
    word = f"left-{os.getpid()}-{number.value}-{len(code)}"
    pytester.makepyfile(f"import os, re, signal, time\ndef test_it():\n    print('now', flush=True)\n    {code}\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *PLUGIN,
        "--confine=session",
        "-s",
        "-p",
        "no:faulthandler",
        "-o",
        f"confine_env=WORD={word}",
        "-o",
        "confine_time_limit=none",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=pytester.path) as process:
        assert process.stdout
        while b"now" not in process.stdout.readline():
            assert process.poll() is None
        assert processes(word)
        process.send_signal(number)
        ended = until(lambda: not processes(word) - {process.pid}, 15)
        process.kill()
    assert ended
