"""What of the host is shown to tests in a sandbox."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from confine import _visible


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, project, other, modules = (tmp_path / name for name in ("home", "project", "other", "modules"))
    for directory in (home, project, other / "deep", modules):
        directory.mkdir(parents=True)
    for file in (home / "test_h.py", project / "test_p.py", other / "test_o.py", other / "deep" / "test_d.py", modules / "zip.zip"):
        file.touch()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "path", ["", str(modules), str(modules / "zip.zip"), str(home), str(tmp_path / "missing"), str(project)])
    paths = [str(home / "test_h.py"), str(project / "test_p.py"), str(other / "test_o.py"), str(other / "deep" / "test_d.py")]
    found = _visible.options([*paths, "/", str(tmp_path / "missing.py")], str(project))
    # A home directory is no project, nor modules: of it the file alone is shown.
    assert f"--allow-read={home}" not in found
    assert f"--overlay={home}" not in found
    assert [word for word in found if str(tmp_path) in word] == [
        f"--allow-read={modules}",
        f"--allow-read={home}/test_h.py",
        f"--overlay={other}",
    ]
    assert any(word == f"--allow-read={os.path.realpath(sys.base_prefix)}" or sys.base_prefix.startswith("/usr") for word in found)
    named = _visible.options([str(home)], str(project))
    assert named[-2:] == [f"--overlay={home}", "--deny=secrets"]
    # From a home directory, what lies in it has to be named.
    assert f"--overlay={home}/sub" in _visible.options([str(_made(home / "sub"))], str(home))


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
