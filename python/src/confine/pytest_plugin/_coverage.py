"""What coverage measured in sandboxes, added to what measures here: pytest-cov's, or that of "coverage run -m pytest"."""

from __future__ import annotations

import sys
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
# Of one file, and of all that sandboxes measure.
_PLACES = 2_000_000
_LAST_LINE = 2**24


def settings() -> dict[str, Any] | None:
    """How coverage measures in this process, if it does, as data."""
    coverage = sys.modules.get("coverage")
    current = coverage.Coverage.current() if coverage else None
    if current is None:
        return None
    options = {}
    for name in _RUN:
        value = current.get_option("run:" + name)
        if value is not None:
            options["run:" + name] = value
    return options


class Gathered:
    """What came from sandboxes, until it is added to what is measured here."""

    def __init__(self) -> None:
        self._by_context: dict[str, dict[str, set[Any]]] = {}
        self._tracers: dict[str, str] = {}
        self._count = 0
        self._arcs: bool | None = None

    def add(self, message: dict[str, Any]) -> None:
        """Check a message of the worker's."""
        file, context, arcs, places = (message.get(key) for key in ("file", "context", "arcs", "places"))
        if not (isinstance(file, str) and isinstance(context, str) and isinstance(arcs, bool) and isinstance(places, list)):
            raise Broken("no coverage")
        self._count += len(places)
        if self._count > _PLACES or (self._arcs is not None and arcs != self._arcs):
            raise Broken("no coverage")
        self._arcs = arcs
        checked = self._by_context.setdefault(context, {}).setdefault(file, set())
        for place in places:
            numbers = place if arcs else [place]
            if not isinstance(numbers, list) or len(numbers) != (2 if arcs else 1):
                raise Broken("no coverage")
            if not all(type(number) is int and abs(number) <= _LAST_LINE for number in numbers):
                raise Broken("no coverage")
            checked.add(tuple(numbers) if arcs else place)
        if isinstance(tracer := message.get("tracer"), str) and tracer:
            self._tracers[file] = tracer

    def merge(self) -> None:
        """Add all to the data of the coverage that runs here."""
        coverage = sys.modules.get("coverage")
        current = coverage.Coverage.current() if coverage else None
        if current is None or not self._by_context:
            return
        # As if it had been measured here: what update() takes over does not count for the name of the file, by which "combine" knows
        # what is there twice.
        ours = current.get_data()
        for context, files in self._by_context.items():
            ours.set_context(context)
            (ours.add_arcs if self._arcs else ours.add_lines)(files)
        known = set(getattr(current.config, "plugins", None) or [])
        ours.add_file_tracers({file: name for file, name in self._tracers.items() if name.split(".")[0] in known})
        ours.set_context(getattr(current.config, "context", None))
        self._by_context.clear()
