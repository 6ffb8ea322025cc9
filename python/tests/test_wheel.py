"""Wheels are what pip takes, have the programs, and come out alike each time; nothing else is needed to build them."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import confine
import confine_build as build
import unasync
from conftest import need

PYTHON = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("program:go")
    directory = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOPROXY", "off")  # the modules are there
        return directory / build.build_wheel(str(directory))


def test_a_record_of_every_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        lines = dict(line.split(",", 1) for line in z.read(record).decode().splitlines())
        assert set(lines) == set(names)
        for name in names:
            if name != record:
                digest = base64.urlsafe_b64encode(hashlib.sha256(z.read(name)).digest()).rstrip(b"=").decode()
                assert lines[name] == f"sha256={digest},{len(z.read(name))}"
        assert {"confine/__init__.py", "confine/py.typed", "confine/_sync/client.py"} <= set(names)
        assert not [name for name in names if "__pycache__" in name]
        for program in ("confine", "confine-server", "confine-vm", "confine-wasm"):
            info = z.getinfo(f"confine-{confine.__version__}.data/scripts/{program}")
            assert stat.S_IMODE(info.external_attr >> 16) == 0o755


def test_the_same_checkout_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = tmp_path / build.wheel(tmp_path, build.host())
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_what_pip_installs_works_alone(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    env = {k: v for k, v in os.environ.items() if k not in ("CONFINE_BINARY", "PYTHONPATH") and not k.startswith("COVERAGE")}
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(venv / "bin" / "python"),
        "--disable-pip-version-check",
        "--quiet",
        "--no-cache-dir",
    ]
    subprocess.run([*pip, "install", "--no-index", str(wheel)], check=True, env=env)
    script = """
import confine
print(confine.find_binary())
with confine.Sandbox() as box:
    print(box.exec(["echo", "hi"]).stdout_text, end="")
"""
    env["PATH"] = "/usr/bin:/bin"
    out = subprocess.run([str(venv / "bin" / "python"), "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == [str(venv / "bin" / "confine"), "hi"]
    out = subprocess.run([str(venv / "bin" / "confine"), "version"], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.startswith(f"confine {confine.__version__} ")
    subprocess.run([*pip, "uninstall", "--yes", "confine"], check=True, env=env)
    assert not (venv / "bin" / "confine").exists()


@pytest.mark.parametrize("where", ["", "python"])
def test_the_checkout_installs_from_both_places(where: str) -> None:
    text = (PYTHON.parent / where / "pyproject.toml").read_text()
    assert 'build-backend = "confine_build"' in text
    assert "requires = []" in text
    path = text.split('backend-path = ["')[1].split('"')[0]
    assert (PYTHON.parent / where / path / "confine_build.py").samefile(str(build.__file__))


def test_metadata_for_each_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, tags in build.TAGS.items():
        system, machine = target.split("/")
        monkeypatch.setenv("GOOS", system)
        monkeypatch.setenv("GOARCH", machine)
        directory = tmp_path / system / machine
        directory.mkdir(parents=True)
        info = directory / build.prepare_metadata_for_build_wheel(str(directory))
        about = (info / "METADATA").read_text()
        assert f"\nVersion: {confine.__version__}\n" in about
        assert "Requires-Dist" not in about
        assert [line[5:] for line in (info / "WHEEL").read_text().splitlines() if line.startswith("Tag: ")] == [
            f"py3-none-{tag}" for tag in tags.split(".")
        ]


def test_editable_leaves_the_package_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "programs", lambda directory, target: iter([Path(os.environ["CONFINE_BINARY"])]))
    copied = tmp_path / "confine"
    shutil.copytree(unasync.PACKAGE / "_async", copied / "_async")
    (copied / "_sync").mkdir()
    (copied / "_sync" / "gone.py").touch()
    (copied / "_sync" / "client.py").touch()
    monkeypatch.setattr(unasync, "PACKAGE", copied)
    with zipfile.ZipFile(tmp_path / build.build_editable(str(tmp_path))) as z:
        assert z.read("confine.pth").decode() == f"{PYTHON / 'src'}\n"
        assert "confine/__init__.py" not in z.namelist()
        assert f"confine-{confine.__version__}.data/scripts/confine" in z.namelist()
    # What is made is there, and nothing else.
    assert {path.name: path.read_text() for path in (copied / "_sync").iterdir()} == unasync.made()


def test_a_source_distribution_has_what_a_build_needs(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as tar:
        names = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    assert {"pyproject.toml", "go.mod", "main.go", "PKG-INFO", "docs/PYTHON.md", "python/buildsystem/unasync.py"} <= names
    assert not [name for name in names if name.startswith((".git/", "bin/", "python/src/confine/_sync/"))]


def test_builds_that_cannot_be_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([str(tmp_path), "plan9/mips"]) == 1
    assert "no wheels for plan9/mips" in capsys.readouterr().err
    assert build.main([]) == 2
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert build.main([str(tmp_path), "linux/amd64"]) == 1
    assert "needs Go" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
