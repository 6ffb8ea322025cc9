"""The tests of the runners' design document, as they stand there."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from confine.runners import SandboxConfig, SubprocessRunner
from conftest import need


@pytest.fixture(autouse=True)
def _linux() -> None:
    need("linux")


# fmt: off
def test_memory_limit_enforced():
    runner = SubprocessRunner(SandboxConfig(max_memory_mb=50))
    result = runner.execute("x = 'a' * (100 * 1024 * 1024)", {})
    assert not result.success
    assert "MemoryError" in result.error or "killed" in result.error.lower()

def test_timeout_enforced():
    runner = SubprocessRunner(SandboxConfig(timeout_seconds=1))
    result = runner.execute("import time; time.sleep(10)", {})
    assert not result.success
    assert result.execution_time_ms < 2000

def test_network_blocked():
    runner = SubprocessRunner(SandboxConfig())
    result = runner.execute("import urllib.request; urllib.request.urlopen('http://example.com')", {})
    assert not result.success


# fmt: on
# In the two above the list of modules alone refuses the code. These say the same of what lies behind it.


def test_time_limit_holds_for_code_that_may_sleep() -> None:
    with SubprocessRunner(SandboxConfig(timeout_seconds=1, allowed_modules=("time",))) as runner:
        result = runner.execute("import time; print('before'); time.sleep(10)", {})
        assert result.error == "TimeoutError: the code ran longer than 1 s"
        assert 1000 <= result.execution_time_ms < 2000
        assert result.stdout == "before\n"


def test_network_is_unreachable_for_code_that_may_try() -> None:
    code = "import socket\nsocket.create_connection(('192.0.2.1', 80), 5)"
    with SubprocessRunner(SandboxConfig(allowed_modules=("socket",))) as runner:
        result = runner.execute(code, {})
        assert result.error is not None
        assert "unreachable" in result.error
        listening = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname()).close()\n'a loopback of its own'"
        assert runner.execute(listening, {}).result == "a loopback of its own"
