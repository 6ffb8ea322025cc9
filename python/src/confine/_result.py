"""What came of a process: Result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import ProcessFailed

__all__ = ["Result"]


@dataclass(frozen=True, repr=False)
class Result:
    """What came of a process: its report (docs/REPORT.md) and what it wrote."""

    report: dict[str, Any]
    stdout: bytes = b""
    stderr: bytes = b""
    #: There was more output than is here: than 8 MiB of a stream, or than its output limit.
    truncated: bool = False
    #: The number of the process in its sandbox.
    process: int = 0
    #: The ID of the sandbox.
    sandbox: str = ""
    #: Of Client.run: what was collected, and what could not be, each with the reason.
    files: dict[str, bytes] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Say how it ended and what it wrote, not the whole report."""
        return f"<Result {self.status}, rc {self.rc}: stdout={self.stdout!r}, stderr={self.stderr!r}>"

    @property
    def status(self) -> str:
        """OK, FAILED, KILLED_SIGNAL, TIMEOUT, …: the words of docs/REPORT.md."""
        return str(self.report.get("status", ""))

    @property
    def rc(self) -> int:
        """The exit code: the process's own, or confine's where a limit or a signal ended it (124, 137, …)."""
        return int(self.report.get("rc", -1))

    @property
    def signal(self) -> str | None:
        """The signal that ended the process, such as SIGSEGV, if one did."""
        return self.report.get("signal") or None

    @property
    def reason(self) -> str:
        """Why it ended so, in words; for people."""
        return str(self.report.get("reason") or "")

    @property
    def stdout_text(self) -> str:
        """The standard output as text; what is not UTF-8 is replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        """The standard error as text; what is not UTF-8 is replaced."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def denials(self) -> list[dict[str, Any]]:
        """What the process tried and was denied, as the report lists it."""
        denials = self.report.get("violations")
        return denials if isinstance(denials, list) else []

    @property
    def ok(self) -> bool:
        """Whether the status is OK."""
        return self.status == "OK"

    def check(self) -> Result:
        """Raise ProcessFailed unless the status is OK; return the result itself."""
        if not self.ok:
            raise ProcessFailed(self)
        return self
