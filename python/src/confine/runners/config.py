"""How much a runner gives to code: levels, SandboxConfig, and where an operator says otherwise."""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any


class SecurityLevel(Enum):
    PERMISSIVE = "permissive"
    STANDARD = "standard"
    STRICT = "strict"


@dataclass(frozen=True)
class SandboxConfig:
    """Configuration for sandbox execution."""

    security_level: SecurityLevel = SecurityLevel.STANDARD
    timeout_seconds: float = 30.0
    max_memory_mb: int = 512
    allowed_modules: tuple[str, ...] = ("pandas", "math", "statistics", "json")

    def __post_init__(self) -> None:
        values: dict[str, Any] = vars(self)
        level, seconds, memory, modules = (values[f.name] for f in fields(self))
        if not isinstance(level, SecurityLevel):
            raise TypeError(f"security_level is a SecurityLevel, not {level!r}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise TypeError(f"timeout_seconds is a number, not {seconds!r}")
        if not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(f"timeout_seconds is more than 0 and finite, not {seconds!r}")
        if isinstance(memory, bool) or not isinstance(memory, int):
            raise TypeError(f"max_memory_mb is a whole number, not {memory!r}")
        if memory <= 0:
            raise ValueError(f"max_memory_mb is more than 0, not {memory!r}")
        if isinstance(modules, str) or not all(isinstance(m, str) for m in modules):
            raise TypeError(f"allowed_modules are names of modules, not {modules!r}")
        object.__setattr__(self, "allowed_modules", tuple(modules))

    @classmethod
    def for_level(cls, level: SecurityLevel) -> SandboxConfig:
        """Factory method for standard configurations."""
        configs = {
            SecurityLevel.PERMISSIVE: cls(
                security_level=level,
                timeout_seconds=60.0,
                max_memory_mb=1024,
                allowed_modules=("pandas", "math", "statistics", "json", "numpy", "datetime"),
            ),
            SecurityLevel.STANDARD: cls(
                security_level=level,
                timeout_seconds=30.0,
                max_memory_mb=512,
                allowed_modules=("pandas", "math", "statistics", "json"),
            ),
            SecurityLevel.STRICT: cls(
                security_level=level,
                timeout_seconds=10.0,
                max_memory_mb=256,
                allowed_modules=("math", "statistics", "json"),
            ),
        }
        return configs[level]


#: Each field, and the variable that says it.
VARIABLES = {
    "security_level": "CONFINE_RUNNER_LEVEL",
    "timeout_seconds": "CONFINE_RUNNER_TIMEOUT",
    "max_memory_mb": "CONFINE_RUNNER_MEMORY_MB",
    "allowed_modules": "CONFINE_RUNNER_MODULES",
}
FILE_VARIABLE = "CONFINE_RUNNER_CONFIG"


def load_config(
    level: SecurityLevel | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> SandboxConfig:
    """The configuration of a level, with what a file and then the environment say instead.

    The file is JSON or, from Python 3.11 on, TOML, with the fields of SandboxConfig under "runner"; without one it is that of
    $CONFINE_RUNNER_CONFIG, if any. A level that is given here counts more than theirs. What isn't understood is a ValueError:
    nothing is left out silently.
    """
    environ = os.environ if environ is None else environ
    path = file or environ.get(FILE_VARIABLE)
    said = _read_file(Path(path)) if path else {}
    for name, variable in VARIABLES.items():
        if variable in environ:
            said[name] = _parse(name, environ[variable], variable)
    wanted = said.pop("security_level", SecurityLevel.STANDARD.value)
    try:
        base = SandboxConfig.for_level(level if level is not None else SecurityLevel(wanted))
    except ValueError:
        levels = ", ".join(known.value for known in SecurityLevel)
        raise ValueError(f"security_level {wanted!r} is none of {levels}") from None
    if "allowed_modules" in said and not isinstance(said["allowed_modules"], list):
        raise ValueError(f"allowed_modules is a list of names, not {said['allowed_modules']!r}")
    try:
        return replace(base, **said)
    except TypeError as e:
        raise ValueError(str(e)) from None


def _parse(name: str, text: str, variable: str) -> Any:
    try:
        if name == "timeout_seconds":
            return float(text)
        if name == "max_memory_mb":
            return int(text)
    except ValueError:
        raise ValueError(f"{variable}={text!r} is not a number") from None
    return text if name == "security_level" else [m for m in text.replace(",", " ").split() if m]


def _read_file(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            document = json.loads(text)
        else:
            try:
                tomllib = importlib.import_module("tomllib")
            except ImportError:
                raise ValueError("TOML needs Python 3.11 or later; JSON doesn't") from None
            document = tomllib.loads(text)
    except ValueError as e:
        raise ValueError(f"{path}: {e}") from None
    section = document.get("runner") if isinstance(document, dict) else None
    if not isinstance(section, dict):
        raise ValueError(f'{path}: there is no section "runner"')
    unknown = set(section) - {f.name for f in fields(SandboxConfig)}
    if unknown:
        raise ValueError(f"{path}: unknown: {', '.join(sorted(map(str, unknown)))}")
    return dict(section)
