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

from . import _forks, errors
from ._version import VERSION as __version__

if TYPE_CHECKING:
    from ._async.client import AsyncClient
    from ._async.files import AsyncFiles
    from ._async.process import AsyncProcess
    from ._async.sandbox import AsyncSandbox
    from ._binary import find_binary
    from ._result import Result
    from ._sync.client import Client
    from ._sync.files import Files
    from ._sync.process import Process
    from ._sync.sandbox import Sandbox
    from ._wire import Entry, FileEvent, Frame, Snapshot
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
        StorageFull,
        TooLarge,
        TransportError,
        VersionMismatch,
    )
    from .pytests import SandboxPolicy, SandboxResultV2, run_pytests, run_pytests_v2
    from .runners import (
        ContextError,
        DockerRunner,
        InProcessRunner,
        MockRunner,
        RunnerClosed,
        RunnerError,
        RunnerUnavailable,
        SandboxConfig,
        SandboxedRunner,
        SandboxResult,
        SecurityLevel,
        SubprocessRunner,
        create_runner,
        load_config,
    )

# Each module with the names that it gives to users.
_EXPORTS = {
    "_async.client": ("AsyncClient",),
    "_async.files": ("AsyncFiles",),
    "_async.process": ("AsyncProcess",),
    "_async.sandbox": ("AsyncSandbox",),
    "_binary": ("find_binary",),
    "_result": ("Result",),
    "_sync.client": ("Client",),
    "_sync.files": ("Files",),
    "_sync.process": ("Process",),
    "_sync.sandbox": ("Sandbox",),
    "_wire": ("Entry", "FileEvent", "Frame", "Snapshot"),
    "errors": errors.__all__,
    "runners": (
        "ContextError",
        "DockerRunner",
        "InProcessRunner",
        "MockRunner",
        "RunnerClosed",
        "RunnerError",
        "RunnerUnavailable",
        "SandboxConfig",
        "SandboxResult",
        "SandboxedRunner",
        "SecurityLevel",
        "SubprocessRunner",
        "create_runner",
        "load_config",
    ),
    "pytests": ("SandboxPolicy", "SandboxResultV2", "run_pytests", "run_pytests_v2"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "AsyncClient",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncSandbox",
    "BinaryNotFound",
    "BuildFailed",
    "Client",
    "ConfineError",
    "Conflict",
    "ConnectionLost",
    "ContextError",
    "DockerRunner",
    "Entry",
    "FileEvent",
    "Files",
    "Frame",
    "InProcessRunner",
    "MockRunner",
    "NotFound",
    "PolicyError",
    "Process",
    "ProcessFailed",
    "QuotaExceeded",
    "RequestTimeout",
    "Result",
    "RunnerClosed",
    "RunnerError",
    "RunnerUnavailable",
    "Sandbox",
    "SandboxConfig",
    "SandboxEnded",
    "SandboxPolicy",
    "SandboxResult",
    "SandboxResultV2",
    "SandboxedRunner",
    "SecurityLevel",
    "ServerDied",
    "ServerError",
    "Snapshot",
    "StorageFull",
    "SubprocessRunner",
    "TooLarge",
    "TransportError",
    "VersionMismatch",
    "__version__",
    "create_runner",
    "find_binary",
    "load_config",
    "run_pytests",
    "run_pytests_v2",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _forks.lock:
        if module.startswith(("_sync.", "_async.")):
            importlib.import_module("." + module.split(".")[0] + ".client", __name__)  # all that it imports later, too
        value = getattr(importlib.import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
