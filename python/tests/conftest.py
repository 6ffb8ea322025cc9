"""What the tests share: skips that can be forbidden.

CONFINE_MUST_RUN names what no test may be skipped for want of, as for the Go tests (CONTRIBUTING.md): its words are the
conditions that a test gives to need(). One that is missing then fails.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

import confine

MUST_RUN = frozenset(filter(None, os.environ.get("CONFINE_MUST_RUN", "").split(",")))

# Sandboxes need these; the Go tests probe them, and doctor prints them.
_BUILT = Path(__file__).parents[2] / "bin"


def _holds(condition: str) -> bool:
    kind, _, name = condition.partition(":")
    if kind == "linux":
        return sys.platform == "linux"
    if kind == "root":
        return sys.platform != "win32" and os.geteuid() == 0
    if kind == "program" and name:
        return shutil.which(name) is not None
    if kind == "python" and name:  # a module that can be imported here
        return importlib.util.find_spec(name) is not None
    if kind == "env" and name:  # a variable that whoever runs the tests has to set
        return bool(os.environ.get(name))
    raise ValueError(f"no such condition: {condition!r}")


def need(*conditions: str) -> None:
    """Skip the test unless all conditions hold; fail it where CONFINE_MUST_RUN names one that does not.

    linux, root, program:NAME, python:MODULE, env:VARIABLE.
    """
    for condition in conditions:
        if _holds(condition):
            continue
        if condition in MUST_RUN:
            pytest.fail(f"CONFINE_MUST_RUN: {condition} does not hold", pytrace=False)
        pytest.skip(f"needs {condition}")


@pytest.fixture(scope="session", autouse=True)
def _binary() -> None:
    """Tests are about this checkout's program: bin/confine unless $CONFINE_BINARY says another."""
    if "CONFINE_BINARY" not in os.environ:
        binary = _BUILT / ("confine.exe" if sys.platform == "win32" else "confine")
        if not binary.exists():
            pytest.exit(f"{binary} is not built: make build", returncode=2)
        os.environ["CONFINE_BINARY"] = str(binary)
    # Interpreters that tests start import the same package.
    source = str(Path(confine.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
