"""Runners of code: variables go in, a result comes out, and nothing else does.

>>> from confine.runners import create_runner
>>> with create_runner() as runner:  # doctest: +SKIP
...     runner.execute("a + b", {"a": 1, "b": 2}).result
3
"""

from __future__ import annotations

from .base import (
    ContextError,
    Metrics,
    RunnerClosed,
    RunnerError,
    RunnerUnavailable,
    SandboxedRunner,
    SandboxResult,
)
from .codec import CodecError, Opaque, Picture
from .config import SandboxConfig, SecurityLevel, load_config
from .docker import DockerRunner
from .factory import create_runner
from .in_process import InProcessRunner
from .mock import MockRunner
from .subprocess import SubprocessRunner

__all__ = [
    "CodecError",
    "ContextError",
    "DockerRunner",
    "InProcessRunner",
    "Metrics",
    "MockRunner",
    "Opaque",
    "Picture",
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
]
