"""Finds the program "confine", and checks that it is of this package's version.

It is, in this order: what $CONFINE_BINARY says; what came with the wheel, in the scripts directory of the installation;
the first in PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ._version import VERSION
from .errors import BinaryNotFound, VersionMismatch

__all__ = ["find_binary"]

_NAME = "confine.exe" if sys.platform == "win32" else "confine"

# What was checked: a file that is replaced is checked again.
_checked: dict[tuple[str, int, int, int], None] = {}


def find_binary(*, check: bool = True) -> str:
    """The path of the program "confine"; with check, of one whose version fits.

    Raises BinaryNotFound, or VersionMismatch.
    """
    path = _find()
    if check:
        _check(path)
    return path


def _find() -> str:
    said = os.environ.get("CONFINE_BINARY")
    if said:
        found = shutil.which(said)
        if found is None:
            raise BinaryNotFound(f"CONFINE_BINARY: {said!r} is not a program that can be started")
        return os.path.abspath(found)
    for path in _of_wheel():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which(_NAME)
    if found is None:
        raise BinaryNotFound(
            'there is no program "confine" beside this Python nor in PATH: install a wheel that has it, or name it by CONFINE_BINARY'
        )
    return os.path.abspath(found)


def _of_wheel() -> Iterator[str]:
    scripts = [sysconfig.get_path("scripts")]
    scheme = sysconfig.get_preferred_scheme("user")
    scripts.append(sysconfig.get_path("scripts", scheme))
    here = Path(__file__).resolve().parent.parent
    if here.name in ("site-packages", "dist-packages") or (here / "bin" / _NAME).is_file():
        scripts.append(str(here / "bin"))  # pip install --target
    for directory in scripts:
        # The directories of a system are no wheel's: there PATH decides.
        if directory:
            yield os.path.join(directory, _NAME)


def _check(path: str) -> None:
    try:
        stat = os.stat(path)
        key = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if key in _checked:
            return
        out = subprocess.run([path, "version", "--json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BinaryNotFound(f"{path}: cannot be started: {e}") from e
    try:
        version = json.loads(out.stdout)["version"]
    except (ValueError, KeyError, TypeError):
        raise VersionMismatch(f"{path}: does not say its version: it is not confine, or not one that fits confine {VERSION}") from None
    if not _fits(str(version)):
        raise VersionMismatch(f"{path} is confine {version}, and this package is of {VERSION}")
    _checked[key] = None


def _fits(version: str) -> bool:
    # A build of a checkout has no version of its own; its module system says v0.0.0-… at most.
    version = version.removeprefix("v")
    if version == "devel" or version.startswith("0.0.0-"):
        return True
    theirs, ours = version.split("."), VERSION.split(".")
    # Before 1.0 each minor version may change what the two say to each other; then each major one.
    parts = 2 if ours[0] == "0" else 1
    return theirs[:parts] == ours[:parts]
