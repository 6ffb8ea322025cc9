"""What coverage measured in sandboxes, added to what measures here: pytest-cov's, or that of "coverage run -m pytest"."""

from __future__ import annotations

import inspect
import os
import sys
import types
import warnings
from typing import Any

from ._sandbox import Broken

__all__ = ["Gathered", "settings"]

# What decides what is measured. Its configuration file may not be seen inside.
_RUN = (
    "branch",
    "source",
    "source_pkgs",
    "omit",
    "include",
    "plugins",
    "concurrency",
    "dynamic_context",
    "relative_files",
    "cover_pylib",
    "core",
)
# Of all that sandboxes measure; and characters of a name.
_PLACES = 2_000_000
_FILES = 20_000
_CONTEXTS = 100_000
_NAME = 4096


def settings() -> dict[str, Any] | None:
    """How coverage measures in this process, if it does, as data."""
    current = _current()
    if current is None:
        return None
    options = {}
    for name in _RUN:
        value = current.get_option("run:" + name)
        if value is not None:
            options["run:" + name] = value
    return options


class Gathered:
    """What came from sandboxes, until it is added to what is measured here.

    It can be made up, as far as it goes: lines of files that are measured here, as they are measured here.
    """

    def __init__(self, *, contexts: bool):
        """With contexts a plugin names them; coverage's own configuration may, too."""
        self._contexts = contexts
        self._by_context: dict[str, dict[str, set[Any]]] = {}
        self._tracers: dict[str, str] = {}
        self._known: dict[str, int] = {}
        self._count = 0

    def add(self, message: dict[str, Any]) -> None:
        """Check a message of the worker's; Broken where it can't be one."""
        file, context = _name(message.get("file")), _name(message.get("context"))
        arcs, places = message.get("arcs"), message.get("places")
        if not (isinstance(arcs, bool) and isinstance(places, list)):
            raise Broken("no coverage")
        current = _current()
        if current is None or arcs != bool(current.get_option("run:branch")):
            raise Broken("coverage of another kind")
        if context and not (self._contexts or current.get_option("run:dynamic_context")):
            raise Broken("contexts that nobody asked for")
        for place in places:
            numbers = place if arcs else [place]
            if not isinstance(numbers, list) or len(numbers) != (2 if arcs else 1) or not all(type(number) is int for number in numbers):
                raise Broken("no coverage")
        last = self._last_line(current, file)
        files = self._by_context.setdefault(context, {})
        checked = files.setdefault(file, set()) if last else set()
        before = len(checked)
        for place in places:
            if arcs and max(map(abs, place)) <= last:  # below 0 are exits
                checked.add(tuple(place))
            elif not arcs and 0 <= place <= last:
                checked.add(place)
        self._count += len(checked) - before
        if self._count > _PLACES or len(self._by_context) > _CONTEXTS:
            raise Broken("more coverage than there may be")
        tracer = message.get("tracer")
        if last and isinstance(tracer, str) and not file.endswith(".py") and tracer.rpartition(".")[0] in _plugins(current):
            self._tracers[file] = tracer

    def merge(self) -> str:
        """Add all to the data of the coverage that runs here; say what went wrong."""
        current = _current()
        if current is None or not self._by_context:
            return ""
        by_context, self._by_context, self._count = self._by_context, {}, 0
        try:
            # As if it had been measured here: what update() takes over does not count for the name of the file, by which "combine"
            # knows what is there twice.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there is no data: now there is
                ours = current.get_data()
            try:
                for context, files in by_context.items():
                    ours.set_context(context)
                    (ours.add_arcs if current.get_option("run:branch") else ours.add_lines)(files)
                ours.add_file_tracers(self._tracers)
            finally:
                ours.set_context(getattr(current.config, "context", None))
        except Exception as error:  # what coverage stumbles over is not for the session to end with
            return f"{type(error).__name__}: {error}"
        return ""

    def _last_line(self, current: Any, file: str) -> int:
        """The last line that file can have, if it is one that is measured here, or else 0."""
        if file not in self._known:
            if len(self._known) >= _FILES:
                raise Broken("more coverage than there may be")
            path = os.path.abspath(file)
            # A line is a byte at least. What is only there inside can't be shown here.
            self._known[file] = os.path.getsize(path) + 1 if os.path.isfile(path) and _is_measured(current, path) else 0
        return self._known[file]


def _current() -> Any:
    """The coverage that measures here, or None."""
    coverage = sys.modules.get("coverage")
    return coverage.Coverage.current() if coverage else None


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _NAME or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise Broken("no name")
    return value


def _plugins(current: Any) -> list[str]:
    return list(getattr(current.config, "plugins", None) or [])


def _is_measured(current: Any, path: str) -> bool:
    """Whether coverage would measure path here: its own answer, for each name that a module there can have."""
    matcher = getattr(current, "_inorout", None)
    if matcher is None:
        raise Broken("a version of coverage that can't be asked what it measures")
    parts = path.split(os.sep)[1:]
    parts[-1] = inspect.getmodulename(path) or parts[-1]
    if parts[-1] == "__init__":
        parts.pop()
    for start in range(len(parts)):
        frame = types.SimpleNamespace(f_globals={"__name__": ".".join(parts[start:])})
        if matcher.check_include_omit_etc(path, frame) is None:
            return True
    return False
