"""From ini keys and markers to what confine is told."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["Policy", "of_item"]

# Keys of the marker, and the option of each: those that take one word, and those that take a list.
_WORDS = {
    "profile": "profile",
    "memory_limit": "memory-limit",
    "cpu_time": "cpu-time",
    "cpu_limit": "cpu-limit",
    "processes": "processes",
    "file_descriptors": "file-descriptors",
    "disk_limit": "disk-limit",
    "seccomp": "seccomp",
}
_LISTS = {"network": "allow-network", "env": "env", "allow_read": "allow-read", "allow_write": "allow-write"}
_OTHERS = ("time_limit", "enabled")

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


@dataclass(frozen=True)
class Policy:
    """What holds for a test: time_limit is of the test, options are of its sandbox."""

    time_limit: float | None
    options: tuple[str, ...]


def of_item(item: pytest.Item) -> Policy | None:
    """The policy of item: ini keys, then markers, the closest last. None: it runs outside."""
    # A sandbox has no CPU time of its own accord: in wider scopes it would be that of many tests.
    said: dict[str, Any] = {"profile": "testing", "time_limit": "30s", "cpu_time": "none"}
    config = item.config
    for key in ("profile", "time_limit", "memory_limit", "network", "env"):
        if value := config.getini("confine_" + key):
            said[key] = value
    for mark in reversed(list(item.iter_markers("confine"))):
        said.update(_checked(mark, item.nodeid))
    if not said.pop("enabled", True):
        return None
    time_limit = said.pop("time_limit")
    options = [*config.getini("confine_options")]
    for key, value in sorted(said.items()):
        for word in value if key in _LISTS else [value]:
            options.append(f"--{_LISTS.get(key) or _WORDS[key]}={word}")
    return Policy(_seconds(time_limit, item.nodeid), tuple(options))


def _checked(mark: pytest.Mark, where: str) -> Mapping[str, Any]:
    if mark.args:
        raise pytest.UsageError(f"{where}: the marker confine takes names, such as time_limit=5")
    values: dict[str, Any] = {}
    for key, value in mark.kwargs.items():
        if key not in _WORDS and key not in _LISTS and key not in _OTHERS:
            raise pytest.UsageError(f"{where}: the marker confine has no {key!r}, but {', '.join(sorted({*_WORDS, *_LISTS, *_OTHERS}))}")
        if key in _LISTS:
            if key == "env" and isinstance(value, Mapping):
                value = [f"{name}={text}" for name, text in value.items()]
            if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
                raise pytest.UsageError(f"{where}: {key} of the marker confine is a list of strings")
        elif key == "enabled":
            if not isinstance(value, bool):
                raise pytest.UsageError(f"{where}: enabled of the marker confine is True or False")
        elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise pytest.UsageError(f"{where}: {key} of the marker confine is a number or a string")
        values[key] = value
    return values


def _seconds(value: object, where: str) -> float | None:
    if value == "none":
        return None
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)(ms|s|m|h|)", str(value))
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 0 < seconds < math.inf:
        raise pytest.UsageError(f"{where}: time_limit {value!r} is no time: 10s, 1.5m, 100ms, a number of seconds, or none")
    return seconds
