"""Run any program under a policy, and be told what was enforced.

    >>> import confine
    >>> with confine.Sandbox("strict") as box:  # doctest: +SKIP
    ...     box.exec(["python3", "-c", "print(6 * 7)"]).stdout_text
    '42\\n'

docs/PYTHON.md is the manual. Whatever is named here is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import VERSION as __version__

if TYPE_CHECKING:
    from ._binary import find_binary
    from ._result import Result
    from .pytests import SandboxPolicy, SandboxResultV2, run_pytests, run_pytests_v2
    from .errors import (
        BinaryNotFound,
        BuildFailed,
        ConfineError,
        Conflict,
        ConnectionLost,
        NotFound,
        PolicyError,
        ProcessFailed,
        QuotaExceeded,
        RequestTimeout,
        SandboxEnded,
        ServerDied,
        ServerError,
        TransportError,
        VersionMismatch,
    )

# Each module with the names that it gives to users.
_EXPORTS = {
    "_binary": ("find_binary",),
    "_result": ("Result",),
    "errors": (
        "BinaryNotFound",
        "BuildFailed",
        "ConfineError",
        "Conflict",
        "ConnectionLost",
        "NotFound",
        "PolicyError",
        "ProcessFailed",
        "QuotaExceeded",
        "RequestTimeout",
        "SandboxEnded",
        "ServerDied",
        "ServerError",
        "TransportError",
        "VersionMismatch",
    ),
    "pytests": ("SandboxPolicy", "SandboxResultV2", "run_pytests", "run_pytests_v2"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [  # noqa: RUF022
    "__version__",
    "BinaryNotFound",
    "BuildFailed",
    "ConfineError",
    "Conflict",
    "ConnectionLost",
    "NotFound",
    "PolicyError",
    "ProcessFailed",
    "QuotaExceeded",
    "RequestTimeout",
    "Result",
    "SandboxEnded",
    "ServerDied",
    "ServerError",
    "TransportError",
    "VersionMismatch",
    "SandboxPolicy",
    "SandboxResultV2",
    "find_binary",
    "run_pytests",
    "run_pytests_v2",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
