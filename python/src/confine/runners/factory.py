"""create_runner: the runner of a level."""

from __future__ import annotations

import logging

from .base import SandboxedRunner
from .config import SandboxConfig, SecurityLevel, load_config
from .docker import DockerRunner, docker_missing
from .in_process import InProcessRunner
from .subprocess import SubprocessRunner

logger = logging.getLogger(__name__)


def create_runner(
    level: SecurityLevel = SecurityLevel.STANDARD,
    config: SandboxConfig | None = None,
) -> SandboxedRunner:
    """
    Create appropriate sandbox runner for security level.

    Falls back gracefully if Docker unavailable for STRICT level.
    """
    if not isinstance(level, SecurityLevel):
        raise TypeError(f"level is a SecurityLevel, not {level!r}")
    if config is None:
        config = load_config(level)

    if level == SecurityLevel.STRICT:
        missing = docker_missing()
        if not missing:
            return DockerRunner(config)
        logger.warning("Docker unavailable, using subprocess for STRICT level: %s", missing)
        return SubprocessRunner(config)
    if level == SecurityLevel.STANDARD:
        return SubprocessRunner(config)
    return InProcessRunner(config)
