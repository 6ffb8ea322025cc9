"""The runners that the tests are about, and an image for those that need one, made of this machine's own Python."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confine.runners import (
    DockerRunner,
    InProcessRunner,
    MockRunner,
    SandboxConfig,
    SandboxedRunner,
    SubprocessRunner,
    _pool,
)
from conftest import need

IMAGE = "localhost/confine-tests-python:2"
#: What a host with few privileges has to be told; harmless elsewhere.
OPTIONS = ("--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=100:100")
SYSTEM_PYTHON = "/usr/bin/python3"
KINDS = ("subprocess", "vm", "podman", "in_process", "mock")

Make = Callable[..., SandboxedRunner]


def runner(kind: str, config: SandboxConfig, **options: Any) -> SandboxedRunner:
    """A runner of a kind. The mock answers with what InProcessRunner would: it is the example of a program's own double."""
    if kind == "subprocess":
        need("linux")
        return SubprocessRunner(config, **options)
    if kind == "vm":
        need("linux", "env:VMKERNEL", "program:qemu-system-x86_64")
        # One machine at a time: each takes seconds of CPU to boot.
        return SubprocessRunner(config, isolation="vm", vm_kernel=os.environ["VMKERNEL"], **{"max_sandboxes": 1, **options})
    if kind == "podman":
        return DockerRunner(config, engine="podman", image=podman_image(), options=OPTIONS, **options)
    if kind == "in_process":
        return InProcessRunner(config, **options)
    double = InProcessRunner(config, **options)
    return MockRunner(config, double.execute)


def podman_image() -> str:
    """The image's name, made if it isn't there; the test is skipped where it can't be."""
    need("linux", "root", "program:podman", "program:runc", f"program:{SYSTEM_PYTHON}")
    return _import_image()


@functools.lru_cache(maxsize=1)
def _import_image() -> str:
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode == 0:
        return IMAGE
    code = "import sys, sysconfig; print(sys.version_info[0], sys.version_info[1], sysconfig.get_path('stdlib'))"
    major, minor, stdlib = subprocess.run([SYSTEM_PYTHON, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        for directory in ("usr/bin", "usr/lib", "usr/lib64", "tmp", "etc", "proc", "sys", "dev"):
            (root / directory).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        shutil.copy(Path(SYSTEM_PYTHON).resolve(), root / "usr/bin/python3")
        library = root / f"usr/lib/python{major}.{minor}"
        shutil.copytree(
            stdlib, library, ignore=shutil.ignore_patterns("test", "__pycache__", "dist-packages"), ignore_dangling_symlinks=True
        )
        objects = [SYSTEM_PYTHON, *map(str, Path(stdlib, "lib-dynload").glob("*.so"))]
        said = subprocess.run(["ldd", *objects], capture_output=True, text=True, check=False).stdout
        for path in {word for line in said.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")}:
            place = Path(path if path.startswith("/usr") else f"/usr{path}")
            (root / place.relative_to("/").parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(path).resolve(), root / place.relative_to("/"))
        archive = Path(scratch, "root.tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".")
        subprocess.run(["podman", "import", "-q", str(archive), IMAGE], check=True, capture_output=True)
    return IMAGE


#: What the command lines of this process's interpreters end with: others run tests at the same time.
MARK = f"# {secrets.token_hex(8)}"
_pool.ARGUMENTS[-1] += MARK


def leftovers() -> set[int]:
    """Processes that are interpreters of this process's runners, or were started for them."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if MARK.encode() in (entry / "cmdline").read_bytes():
                    found.add(int(entry.name))
    return found
