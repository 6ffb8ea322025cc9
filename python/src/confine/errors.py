"""What can go wrong, as a tree: all of it is a ConfineError.

    ConfineError
      BinaryNotFound        there is no program "confine" to be found
      VersionMismatch       there is one, of another version than this package
      ServerError           the server refused: code, status, hint
        PolicyError         an option that is not one, or that cannot be held, or passes the ceiling
        NotFound            a sandbox, process, snapshot or file that is not there
        Conflict            a name that is taken, something that changed meanwhile, what is busy
        QuotaExceeded       as many as there may be
        StorageFull         the place of a file is full: its limit, or the disk
        BuildFailed         the sandbox could not be built: report
        SandboxEnded        the sandbox is no more: cause
      TransportError        no answer
        ConnectionLost      the connection ended before the answer did
        ServerDied          the private server is no more
        RequestTimeout      the answer took longer than request_timeout
      TooLarge              what comes out of a sandbox is more than is taken: a limit of read(), a line of a stream
      ProcessFailed         a process ended badly, and check=True was asked for: result

Wrong types and values that never leave this process are TypeError and ValueError, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._result import Result

__all__ = [
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
    "StorageFull",
    "TooLarge",
    "TransportError",
    "VersionMismatch",
]


class ConfineError(Exception):
    """Whatever this package raises of its own."""


class BinaryNotFound(ConfineError):
    """No program "confine" was found, or it cannot be started."""


class VersionMismatch(ConfineError):
    """The program that was found is of another version than this package."""


class ServerError(ConfineError):
    """The server's answer is a problem (RFC 9457)."""

    def __init__(self, message: str, *, code: str = "", status: int = 0, hint: str = "", problem: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.code = code
        self.status = status
        self.hint = hint
        #: The document as it came: CHANGED and REFUSED list their paths in it.
        self.problem: dict[str, Any] = dict(problem or {})

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.args, self.__dict__)


class PolicyError(ServerError):
    """The policy says something that there isn't, that cannot be held here, or that passes the server's ceiling."""


class NotFound(ServerError):
    """There is no such sandbox, process, snapshot or file."""


class Conflict(ServerError):
    """The name is taken, something has changed meanwhile, or what is asked for is busy."""


class QuotaExceeded(ServerError):
    """There are as many as there may be."""


class StorageFull(ServerError):
    """There is no space left for a file; what there was space for may have been written."""


class BuildFailed(ServerError):
    """The sandbox could not be built; the report says which step failed, and why."""

    @property
    def report(self) -> dict[str, Any]:
        """The report of the sandbox, as docs/REPORT.md has it."""
        report = self.problem.get("report")
        return report if isinstance(report, dict) else {}


class SandboxEnded(ServerError):
    """The sandbox has ended; the cause says why (docs/API.md), when it is known."""

    cause: str = ""


class TransportError(ConfineError):
    """There is no answer."""


class ConnectionLost(TransportError):
    """The connection ended before the answer did: what was asked for may have happened or not."""


class ServerDied(ConnectionLost):
    """The private server of this interpreter is no more, and neither are its sandboxes."""


class RequestTimeout(TransportError, TimeoutError):
    """The answer took longer than request_timeout; limits of processes are the server's, and no errors."""


class TooLarge(ConfineError):
    """What comes out of a sandbox is more than is taken."""


class ProcessFailed(ConfineError):
    """A process ended with another exit code than 0, and check=True asked for an error."""

    def __init__(self, result: Result):
        self.result = result
        super().__init__(result)

    def __str__(self) -> str:
        result = self.result
        text = f"{result.status}, exit code {result.rc}"
        if result.reason:
            text += f": {result.reason}"
        last = result.stderr_text.rstrip()[-1000:]
        return f"{text}\n{last}" if last else text


def _revive(kind: type[ServerError], args: tuple[Any, ...], state: dict[str, Any]) -> ServerError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
