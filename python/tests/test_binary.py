"""The program is found where it should be, and one that does not fit is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import confine
from confine import _binary
from conftest import executable


def program(path: Path, version: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    executable(path, f"#!/bin/sh\necho '{json.dumps({'version': version})}'\n")
    return path


def test_what_the_variable_says_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "other", "devel")
    monkeypatch.setenv("CONFINE_BINARY", str(path))
    assert confine.find_binary() == str(path)


def test_path_is_searched_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "confine", confine.__version__)
    monkeypatch.delenv("CONFINE_BINARY")
    monkeypatch.setattr(_binary, "_of_wheel", lambda: iter([str(tmp_path / "none")]))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert confine.find_binary() == str(path)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(confine.BinaryNotFound, match="CONFINE_BINARY"):
        confine.find_binary()


def test_a_variable_that_leads_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFINE_BINARY", "/nonexistent/confine")
    with pytest.raises(confine.BinaryNotFound, match="nonexistent"):
        confine.find_binary()


@pytest.mark.parametrize("version", ["9.9.9", "0.0.1", 7, None])
def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: object) -> None:
    monkeypatch.setenv("CONFINE_BINARY", str(program(tmp_path / "confine", version)))
    with pytest.raises(confine.VersionMismatch):
        confine.find_binary()
    assert confine.find_binary(check=False)


@pytest.mark.parametrize("version", ["v0.0.0-20260102030405-abcdef", "devel", confine.__version__, "v" + confine.__version__])
def test_what_fits(version: str) -> None:
    assert _binary._fits(version)


def test_a_program_that_says_nothing_is_not_confine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFINE_BINARY", executable(tmp_path / "confine", "#!/bin/sh\necho hello\n"))
    with pytest.raises(confine.VersionMismatch, match="does not say"):
        confine.find_binary()


def test_a_replaced_program_is_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "confine", "devel")
    monkeypatch.setenv("CONFINE_BINARY", str(path))
    confine.find_binary()
    program(path, "12.0.0")
    with pytest.raises(confine.VersionMismatch):
        confine.find_binary()


def test_the_module_is_the_program() -> None:
    out = subprocess.run([sys.executable, "-m", "confine", "version"], capture_output=True, text=True, check=True)
    assert out.stdout == subprocess.run([os.environ["CONFINE_BINARY"], "version"], capture_output=True, text=True, check=True).stdout


def test_the_module_says_when_there_is_none() -> None:
    env = {**os.environ, "CONFINE_BINARY": "/nonexistent"}
    out = subprocess.run([sys.executable, "-m", "confine", "version"], capture_output=True, text=True, env=env, check=False)
    assert out.returncode == 125
    assert out.stderr.startswith("confine: CONFINE_BINARY")
