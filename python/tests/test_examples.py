"""The examples do what they say, and so do those in docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import confine
from conftest import need

PYTHON = Path(__file__).parents[1]
EXAMPLES = sorted((PYTHON / "examples").glob("*.py"))
NEEDS = {"inspect_eval": ["python:inspect_ai"], "smolagents_agent": ["python:smolagents"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path: Path) -> None:
    need("linux", *NEEDS.get(path.stem, ()))
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    _, _, shown = said.partition(f"$ python {path.name}\n")
    assert shown, "an example shows what it prints"
    expected = [line.strip() for line in shown.splitlines()]
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()] == expected


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"agent_loop", "fan_out", "judge", "notebook"}
    assert set(NEEDS) <= {path.stem for path in EXAMPLES}


def test_an_example_leaves_no_snapshot(tmp_path: Path) -> None:
    need("linux")
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, str(PYTHON / "examples" / "agent_loop.py")], env=environ, check=True, capture_output=True, timeout=120)
    script = "import confine; print(confine.Client().snapshots())"
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


MODULES = sorted(m.name for m in pkgutil.walk_packages(confine.__path__, "confine.") if m.name != "confine.__main__")


@pytest.mark.parametrize("name", ["confine", *MODULES])
def test_docstrings_show_what_happens(name: str) -> None:
    package = name.rpartition(".")[2]
    if name.startswith("confine.providers.") and not package.startswith("_"):
        need(f"python:{package}")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
