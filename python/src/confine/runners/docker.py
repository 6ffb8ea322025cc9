"""DockerRunner: interpreters in containers of docker or podman, by their command lines.

The container is the wall here, and the engine's word all that is known of it. A container serves one execution.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from . import _pool
from .base import OUTPUT_LIMIT, RESULT_LIMIT, RunnerUnavailable
from .config import SandboxConfig, SecurityLevel
from .subprocess import OVERHEAD_MB, PooledRunner

ENGINES = ("docker", "podman")
#: Which engine, which image, and more options of "run": variables of the environment.
ENGINE_VARIABLE, IMAGE_VARIABLE, OPTIONS_VARIABLE = (f"CONFINE_RUNNER_{name}" for name in ("ENGINE", "IMAGE", "ENGINE_OPTIONS"))
#: Nobody of the host, and nobody of the image.
USER = "64523:64523"
TASKS = 64


def default_image() -> str:
    """The image of $CONFINE_RUNNER_IMAGE, or the official slim one of this Python's version."""
    return os.environ.get(IMAGE_VARIABLE) or f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def docker_missing(image: str | None = None) -> str:
    """Why a DockerRunner can't be had here; nothing if it can. Nothing is ever pulled."""
    engine, why = find_engine()
    if engine is None:
        return why
    image = image or default_image()
    code, said = _call([engine, "image", "inspect", image], 10)
    return "" if code == 0 else f"{engine} has no image {image}, and none is pulled{said}"


def find_engine() -> tuple[str | None, str]:
    """The first engine that answers: that of $CONFINE_RUNNER_ENGINE, or else docker, podman. None, and what is wrong with each."""
    wanted, why = os.environ.get(ENGINE_VARIABLE), []
    for engine in (wanted,) if wanted else ENGINES:
        if not shutil.which(engine):
            why.append(f"{engine} is not installed")
            continue
        code, said = _call([engine, "version"], 10)
        if code == 0:
            return engine, ""
        why.append(f"{engine} does not answer{said}")
    return None, "; ".join(why)


def _call(argv: Sequence[str], seconds: float) -> tuple[int, str]:
    """The exit code, -1 if there is none, and the last line that it said of what is wrong, in brackets."""
    try:
        run = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds, check=False
        )
        code, said = run.returncode, run.stderr.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError) as e:
        code, said = -1, str(e)
    lines = said.strip().splitlines()
    return code, f" ({lines[-1][:300]})" if lines else ""


class DockerRunner(PooledRunner):
    """Docker-based sandbox for Strict security level.

    engine: "docker", "podman" or a path. image: one that has python3, and the modules. options: more of "run"'s.
    """

    def __init__(
        self,
        config: SandboxConfig,
        *,
        engine: str | None = None,
        image: str | None = None,
        options: Sequence[str] | None = None,
        warm: int = 1,
        max_sandboxes: int | None = None,
        output_limit: int = OUTPUT_LIMIT,
        result_limit: int = RESULT_LIMIT,
        unsafe_pickle: bool = False,
    ) -> None:
        self._check(config)
        found, why = (engine, "") if engine else find_engine()
        if found is None:
            raise RunnerUnavailable(why)
        self.engine, self.image = found, image or default_image()
        with resources.as_file(resources.files(__package__).joinpath("seccomp.json")) as path:
            profile = str(Path(path))
        self._limits = _limits(config)
        options = shlex.split(os.environ.get(OPTIONS_VARIABLE, "")) if options is None else options
        argv = [found, "run", "--rm", "-i", "--pull", "never", *_container(config, profile), *options]
        start = functools.partial(_start, found, argv, self.image, [m for m in config.allowed_modules if m != "*"])
        super().__init__(
            config,
            start,
            warm=warm,
            max_sandboxes=max_sandboxes,
            output_limit=output_limit,
            result_limit=result_limit,
            unsafe_pickle=unsafe_pickle,
        )

    @property
    def enforced(self) -> dict[str, dict[str, Any]]:
        """What the engine was asked for. It is not looked at whether it does."""
        details = "asked of the engine, and not looked at"
        names = {**self._limits, "filesystem": "read-only", "network": "none", "privileges": "none", "syscalls": "seccomp.json"}
        return {
            name: {"requested": value, "enabled": True, "effective": True, "mechanism": Path(self.engine).name, "details": details}
            for name, value in names.items()
        }


def _limits(config: SandboxConfig) -> dict[str, str]:
    limits = {"memory": f"{config.max_memory_mb + OVERHEAD_MB}m", "tasks": str(TASKS), "file_descriptors": "1024"}
    if config.security_level is not SecurityLevel.PERMISSIVE:
        limits["cpu_rate"] = "0.5" if config.security_level is SecurityLevel.STRICT else "1"
    return limits


def _container(config: SandboxConfig, profile: str) -> list[str]:
    limits = _limits(config)
    options = [
        *("--network", "none"),
        "--read-only",
        *("--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m,mode=1777"),  # noqa: S108
        *("--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges"),
        *("--security-opt", f"seccomp={profile}"),
        *("--user", USER),
        *("--memory", limits["memory"], "--memory-swap", limits["memory"]),
        *("--pids-limit", limits["tasks"]),
        *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=100:100", "--ulimit", "core=0:0"),
        *("--workdir", "/tmp"),  # noqa: S108
        *("--hostname", "sandbox"),
    ]
    if "cpu_rate" in limits:
        options += ["--cpus", limits["cpu_rate"]]
    for name, value in {**_pool.ENVIRONMENT, "HOME": "/tmp", "LC_ALL": "C.UTF-8"}.items():  # noqa: S108
        options += ["--env", f"{name}={value}"]
    return options


def _start(engine: str, argv: Sequence[str], image: str, preload: Sequence[str]) -> _pool.Interpreter:
    name = f"confine-{os.getpid()}-{secrets.token_hex(6)}"

    def stop() -> None:
        with contextlib.suppress(OSError):
            _call([engine, "rm", "--force", name], 30)

    command = [*argv, "--name", name, image, "python3", *_pool.ARGUMENTS]
    return _pool.Interpreter(_pool.Command(command, dict(os.environ), stop=stop), preload, False)
