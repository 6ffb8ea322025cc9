"""What of the host a Python program has to see in a sandbox: its interpreter, its modules, and the files that it is about.

Both pytests.py and the pytest plugin give the options that this makes to the program confine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

__all__ = ["hidden", "options"]


def options(paths: Iterable[str], directory: str) -> list[str]:
    """Options of confine that show the running interpreter, and directories of paths outside directory as overlays.

    What is too broad to be shown because somebody's module or test happens to lie there (/, /tmp, the home directory) is not: of
    such a place the file itself is. The home directory is where it is named, without its secrets.
    """
    home, system = _home(), _system()
    broad = {*system, home}
    interpreter = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, os.path.dirname(sys.executable)}
    # Installed in place, packages lie anywhere; a zip file is one, too.
    interpreter.update(os.path.abspath(entry) for entry in sys.path if entry and os.path.exists(entry))
    shown = [place for place in _topmost(interpreter - broad) if not _within(place, directory)]
    found = []
    for place in _topmost(
        path if os.path.isdir(path) or (parent := os.path.dirname(path)) in broad else parent
        for path in map(os.path.abspath, paths)
        if os.path.exists(path) and path not in system and not (_within(path, directory) and directory not in broad)
    ):
        found.append("--overlay=" + place if os.path.isdir(place) else "--allow-read=" + place)
    if "--overlay=" + home in found:
        found.append("--deny=secrets")
    return ["--allow-read=" + place for place in shown] + found


def hidden(paths: Iterable[str], directory: str) -> str:
    """Why what is named from directory on is not found inside, and what to do; nothing if it is shown."""
    if directory not in {*_system(), _home()} or (directory == _home() and directory in map(os.path.abspath, paths)):
        return ""
    return (
        f"the current directory {directory!r} is not shown inside as it is, because it is too broad: "
        "start in the directory of a project, or give absolute paths"
    )


def _home() -> str:
    return os.path.abspath(os.path.expanduser("~"))


def _system() -> set[str]:
    """Places that are never shown as they are."""
    return {"/", "/tmp", "/var/tmp", "/home", "/usr", os.path.dirname(_home())}  # noqa: S108


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _topmost(places: Iterable[str]) -> list[str]:
    """The places that lie in no other one, in a fixed order."""
    top: list[str] = []
    for place in sorted(set(places)):
        if not (top and _within(place, top[-1])):
            top.append(place)
    return top
