"""Suites of real projects, under --confine and without: the same counts.

CONFINE_PROJECTS names a directory of their sources as they were released, which .ci/run fetches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PLUGIN, need

# Each with the directories of its modules and of its tests, and options. What pytest has deprecated since is no error here.
PROJECTS = {
    "click": ("src", "tests", ["-o", "filterwarnings=default"]),
    "idna": (".", "tests", []),
    "toolz": (".", "toolz", []),
}


def counts(project: Path, *arguments: str) -> dict[str, int]:
    """What pytest counts, warnings aside: those of collecting are there once for each that collects."""
    modules, tests, options = PROJECTS[project.name]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV", "PYTHONPATH"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(project / modules), os.environ.get("PYTHONPATH", "")])
    environment["TMPDIR"] = str(project.parent)  # they leave files there by fixed names
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", *options, *arguments, tests]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    last = done.stdout.splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)", last)}


@pytest.mark.parametrize(("name", "scope", "least"), [("click", "session", 1300), ("toolz", "module", 150), ("idna", "test", 30)])
def test_a_projects_suite_counts_as_without(tmp_path: Path, name: str, scope: str, least: int) -> None:
    need("linux", "env:CONFINE_PROJECTS")
    (source,) = Path(os.environ["CONFINE_PROJECTS"]).glob(f"{name}-*/")
    project = tmp_path / name
    shutil.copytree(source, project)
    without = counts(project)
    assert without["passed"] >= least
    assert counts(project, f"--confine={scope}") == without
