"""MockRunner: answers that a test has laid down, for the tests of programs that use runners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .base import RunnerClosed, SandboxedRunner, SandboxResult, checked, outcome_of
from .config import SandboxConfig


class MockRunner(SandboxedRunner):
    """Runs nothing. Answers are by code, or made by a function of the code and its variables.

    An answer is a SandboxResult, an exception (an execution that failed with it), or the value. Code without an answer is a
    KeyError. `calls` has what was asked for.
    """

    def __init__(
        self,
        config: SandboxConfig | None = None,
        answers: Mapping[str, Any] | Callable[[str, dict[str, Any]], Any] | None = None,
    ) -> None:
        super().__init__(SandboxConfig() if config is None else config)
        self.answers = {} if answers is None else answers
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._closed = False

    def execute(self, code: str, context: dict[str, Any] | None = None) -> SandboxResult:
        """Writes down what was asked for, and gives the answer."""
        context = checked(code, {} if context is None else context)
        if self._closed:
            raise RunnerClosed("the runner was cleaned up")
        self.calls.append((code, context))
        answer = self.answers(code, context) if callable(self.answers) else self.answers[code]
        if not isinstance(answer, SandboxResult):
            failed = isinstance(answer, BaseException)
            error = f"{type(answer).__name__}: {answer}" if failed else None
            answer = SandboxResult(not failed, None if failed else answer, "", "", error, 0.0, None)
        self._meter.add(answer, outcome_of(answer.error), 0.0)
        return answer

    def cleanup(self) -> None:
        """From now on it refuses, as others do."""
        self._closed = True
