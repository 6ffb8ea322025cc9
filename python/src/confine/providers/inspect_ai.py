"""Sandboxes for Inspect: sandbox="confine" in a task, ("confine", "strict") for a profile, or a ConfineConfig.

    from inspect_ai import Task
    from confine.providers.inspect_ai import ConfineConfig

    Task(dataset=…, solver=…, sandbox=("confine", ConfineConfig(policy={"memory_limit": "1G"})))

Each sample has sandboxes of its own, on the private server of this interpreter, which ends with it, or on that of $CONFINE_URL. A
relative name is one below the directory that processes start in. There is one user; other users are refused by name. A
sandbox that has ended, because of its memory limit for instance, is SandboxUnavailableError, and says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import posixpath
import secrets
from collections.abc import Iterable
from typing import Any, Literal, NoReturn, overload

try:
    import anyio
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentConfigType,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        concurrency,
        sandboxenv,
    )
    from inspect_ai.util._subprocess import max_subprocesses_context_var
    from pydantic import BaseModel, ConfigDict, Field
except ImportError as e:
    raise ImportError(f"confine.providers.inspect_ai needs the package inspect_ai, 0.3.280 or later: {e}", name=e.name) from e

from .._async.client import AsyncClient
from .._async.sandbox import AsyncSandbox
from .._result import Result
from ..errors import ConfineError, NotFound, PolicyError, SandboxEnded, ServerError, TooLarge, TransportError

_LABELS = {"made-by": "inspect_ai"}
# A request takes no more than 32 MiB: a longer input is a file.
_INPUT = 4 << 20
# Of a sandbox. Inspect has a limit of its own for each command, which a profile's would undercut.
_OUTPUT = 1 << 30


class ConfineConfig(BaseModel):
    """What the sandboxes of a sample are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The policy of the sandbox "default": a profile's name, or options by their names (docs/OPTIONS.md, with _ for -).
    policy: str | dict[str, Any] | None = None
    #: Further sandboxes of each sample, by name, with their policies.
    more: dict[str, str | dict[str, Any] | None] = Field(default_factory=dict)
    #: A directory of this host, which the policy's workdir shows, and where processes start then.
    dir: str | None = None
    #: Variables of all processes.
    env: dict[str, str] = Field(default_factory=dict)
    #: How long a sandbox stays at most, and while nobody asks; the end of a sample ends it in any case.
    lifetime: float | str = "24h"
    idle_timeout: float | str = "1h"

    def __hash__(self) -> int:
        # Inspect opens sandboxes once for those that are alike.
        return hash(self.model_dump_json())

    def sandboxes(self) -> dict[str, str | dict[str, Any] | None]:
        """All policies, by the names of their sandboxes."""
        if "default" in self.more:
            raise ValueError('"default" is the sandbox that policy is about')
        return {"default": self.policy, **self.more}


@sandboxenv(name="confine")
class ConfineSandboxEnvironment(SandboxEnvironment):
    """One sandbox of a sample."""

    def __init__(self, config: ConfineConfig, policy: str | dict[str, Any] | None):
        super().__init__()
        options = {"profile": policy} if isinstance(policy, str) else policy or {}
        self._own_output_limit = "output_limit" in options
        self.sandbox = AsyncSandbox(
            {"output_limit": _OUTPUT, **options},
            dir=config.dir,
            env=config.env or None,
            lifetime=config.lifetime,
            idle_timeout=config.idle_timeout,
            labels=_LABELS,
        )
        self._directory = ""
        self._user: list[str] = []

    # Their lives.

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        """Fails before the first sample does: sandboxes are opened, and thrown away."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError('confine needs asyncio, and Inspect runs by trio: INSPECT_ASYNC_BACKEND="asyncio"') from None
        await cls._close((await cls._open(config)).values())

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """The sandboxes of a sample."""
        return dict(await cls._open(config))

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Ends them, also of a sample that was interrupted."""
        await cls._close(e.as_type(cls) for e in environments.values())

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Ends what is left on the server of $CONFINE_URL: of a private one nothing is left."""
        if not os.environ.get("CONFINE_URL"):
            print("Nothing to clean up: the sandboxes of confine end with the program that opened them.")
            return
        async with AsyncClient() as client:
            for doc in await client.sandboxes(state="running", labels=_LABELS):
                if id is None or id == doc["id"]:
                    await (await client.connect(doc["id"])).close()
                    print(f"ended {doc['id']}")

    @classmethod
    async def _open(cls, config: SandboxEnvironmentConfigType | None) -> dict[str, ConfineSandboxEnvironment]:
        config = _config(config)
        opened: dict[str, ConfineSandboxEnvironment] = {}
        try:
            for name, policy in config.sandboxes().items():
                opened[name] = cls(config, policy)
                # As in _run.
                with anyio.CancelScope(shield=True):
                    await opened[name]._begin()
                await anyio.lowlevel.checkpoint()
        except BaseException:
            await cls._close(opened.values())
            raise
        return opened

    @staticmethod
    async def _close(environments: Iterable[ConfineSandboxEnvironment]) -> None:
        first: ConfineError | None = None
        with anyio.CancelScope(shield=True):
            for environment in environments:
                try:
                    await environment.sandbox.close()
                except ConfineError as e:
                    first = first or e
        if first is not None:
            raise first

    async def _begin(self) -> None:
        """Opens it, and asks where and who its processes are."""
        await self.sandbox.open()
        result = await self.sandbox.exec(["/bin/sh", "-c", "pwd && id -u && id -un"], check=True)
        directory, *self._user = result.stdout_text.splitlines()
        self._directory = directory

    @classmethod
    def default_concurrency(cls) -> int | None:
        """So many sandboxes at one time, unless max_sandboxes says another number."""
        return 2 * (os.cpu_count() or 1)

    def default_polling_interval(self) -> float:
        """They are on this host."""
        return 0.2

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """A ConfineConfig out of a log."""
        return ConfineConfig.model_validate(config)

    # Commands.

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a command. A time limit is the command's own, not the transport's, so that it is never tried again."""
        if user is not None and user not in self._user:
            raise SandboxUserUnsupportedError(f"there is one user in this sandbox, {self._user[-1]}: not {user!r}")
        if isinstance(input, str):
            input = input.encode()
        async with _throttled(concurrency):
            try:
                result, out, err = await self._run(cmd, input, self._name(cwd or ""), env, timeout)
            except (SandboxEnded, NotFound, TransportError) as e:
                _unavailable(e)
        if result.status == "TIMEOUT":
            late = TimeoutError(result.reason)
            late.truncated_output = out + err  # type: ignore[attr-defined]  # Inspect looks for it
            raise late
        if result.status == "EXEC_FAILED" and result.rc == 126:
            raise PermissionError(errno.EACCES, result.reason, cmd[0])
        if any((result.report.get("truncated") or {}).values()):
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, out + err)
        if result.status not in ("OK", "FAILED"):  # nobody else would say why
            err += f"{result.status}: {result.reason}\n"
        return ExecResult(result.rc == 0, result.rc, out, err)

    async def _run(
        self, cmd: list[str], input: bytes | None, directory: str, env: dict[str, str] | None, timeout: int | None
    ) -> tuple[Result, str, str]:
        if input is not None and len(input) > _INPUT:
            name = posixpath.join("/tmp", "input-" + secrets.token_hex(8))  # noqa: S108  # the sandbox's
            await self.write_file(name, input)
            cmd, input = ["/bin/sh", "-c", 'exec <"$0" && rm -f "$0" && exec "$@"', name, *cmd], None
        limit = None if self._own_output_limit else SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        words: dict[str, Any] = {"dir": directory, "env": env, "stdin": input, "output_limit": limit}
        # Whoever cancels does so again and again: what has begun has to be known, in order to be ended.
        with anyio.CancelScope(shield=True):
            try:
                process = await self.sandbox.start(cmd, time_limit=timeout, **words)
            except PolicyError:  # the policy's own time limit is shorter, and holds
                process = await self.sandbox.start(cmd, **words)
        out, err = bytearray(), bytearray()
        try:
            result = await process.wait(out.extend, err.extend)
        finally:
            if process.result is None:
                with anyio.CancelScope(shield=True):
                    await process.kill()
            process.close()
        return result, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    # Files.

    def _name(self, file: str) -> str:
        return posixpath.normpath(posixpath.join(self._directory, file))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file, with the directories that it needs."""
        name = self._name(file)
        try:
            await self.sandbox.files.write(name, contents)
        except ConfineError as e:
            await self._refused(e, file, name)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """What is in a file."""
        name = self._name(file)
        try:
            data = await self.sandbox.files.read(name, limit=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE)
        except TooLarge:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from None
        except ConfineError as e:
            await self._refused(e, file, name)
        return data.decode() if text else data

    async def _refused(self, error: ConfineError, file: str, name: str) -> NoReturn:
        """The error that Inspect expects, for what the server says of a file."""
        if not isinstance(error, ServerError) or error.code != "FILE":
            _unavailable(error)
        number = {403: errno.EACCES, 404: errno.ENOENT}.get(error.status, errno.EINVAL)
        if number == errno.EINVAL:
            try:
                entry = await self.sandbox.files.stat(name)
                if "directory" in (entry.type, entry.leads_to):
                    number = errno.EISDIR
            except ConfineError:
                pass
        why = str(error) if number == errno.EINVAL else os.strerror(number)
        raise OSError(number, why, file) from error


def _config(config: SandboxEnvironmentConfigType | None) -> ConfineConfig:
    if config is None or isinstance(config, str):
        return ConfineConfig(policy=config)
    if not isinstance(config, ConfineConfig):
        raise TypeError(f'the configuration of sandbox "confine" is a ConfineConfig or the name of a profile, not {type(config).__name__}')
    return config


def _throttled(wanted: bool) -> Any:
    """Shares max_subprocesses with what else Inspect runs on this host."""
    return concurrency("subprocesses", max_subprocesses_context_var.get()) if wanted else contextlib.nullcontext()


def _unavailable(error: ConfineError) -> NoReturn:
    if isinstance(error, (SandboxEnded, NotFound, TransportError)) and not isinstance(error, TimeoutError):
        raise SandboxUnavailableError(str(error)) from error
    raise error
