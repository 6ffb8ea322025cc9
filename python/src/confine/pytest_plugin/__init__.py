"""The pytest plugin: --confine runs each test, module or session in a sandbox of its own.

pytest collects as always, and then has each test run by another interpreter that waits in a sandbox, with pytest, plugins and the
tests imported. What is here is only options, so that a pytest without --confine pays nothing:

    _host.py      decides which sandbox runs a test, and gives pytest its reports
    _policy.py    from ini keys and markers to options of confine
    _sandbox.py   one sandbox: the process, its messages and their bounds
    _reports.py   what comes back, checked
    _worker.py    the other side: runs in the sandbox
    _coverage.py  what was measured there

docs/PYTHON.md is the manual. There are no asserts here that pytest would have to look into: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import pytest

#: sys.path as it was before conftest files and collection add to it: that of the interpreters in sandboxes.
START_PATH = pytest.StashKey[list[str]]()

#: Set by _worker.py: inside, nothing is confined again.
INSIDE = pytest.StashKey[bool]()

_SCOPES = {"test": "each test", "module": "each module", "session": "all tests together"}

_INI = {
    "confine": ("string", "run tests in sandboxes: test, module, session, or off"),
    "confine_profile": ("string", 'the profile of confine that sandboxes start from ("testing")'),
    "confine_time_limit": ("string", 'time of one test, such as 10s; "none" (30s)'),
    "confine_memory_limit": ("string", "memory of one sandbox, such as 512M"),
    "confine_network": ("args", "hosts that tests may reach"),
    "confine_env": ("args", "variables that tests see: NAME or NAME=VALUE"),
    "confine_options": ("args", "further options of the program confine"),
}


class _Scope(argparse.Action):
    """Take the scope from the name that was used."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, (option_string or "").partition("=")[2] or "test")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("confine", "tests in sandboxes")
    # Names of one option, so that "--confine tests" is not a scope of that name, and an error about another one says which there are.
    group.addoption(
        "--confine",
        *(f"--confine={scope}" for scope in (*_SCOPES, "off")),
        action=_Scope,
        nargs=0,
        dest="confine",
        help=f"run {', '.join(what + ' (' + scope + ')' for scope, what in _SCOPES.items())} in a sandbox of its own; test if no word is "
        "given; off: run tests here, whatever the ini file says",
    )
    for name, (kind, text) in _INI.items():
        parser.addini(name, help=text, type=kind)  # type: ignore[arg-type] # words of pytest's


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    early_config.stash[START_PATH] = list(sys.path)
    yield


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "confine(time_limit, memory_limit, network, ...): what holds for this test under --confine; enabled=False runs it outside",
    )
    scope: Any = config.getoption("confine") or config.getini("confine") or "off"
    if scope == "off" or config.stash.get(INSIDE, False):
        return
    if scope not in _SCOPES:
        raise pytest.UsageError(f"confine = {scope}: not one of {', '.join(_SCOPES)}, off")
    if sys.platform == "win32":
        raise pytest.UsageError("--confine: there is no such sandbox on Windows yet")
    for option in ("usepdb", "trace", "setupshow", "setuponly", "setupplan"):
        if config.getoption(option, False):
            raise pytest.UsageError("--confine does not go with debuggers and --setup-…: the tests run in another process")
    from ._host import Host

    config.pluginmanager.register(Host(config, scope), "confine-host")
