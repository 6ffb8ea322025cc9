"""An evaluation of Inspect whose samples have sandboxes of confine's. The model of this example says what it is told to.

$ python inspect_eval.py
tool: hello from a sandbox
accuracy: 1.0
"""

from __future__ import annotations

import tempfile
from typing import Any

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironmentSpec

from confine.providers.inspect_ai import ConfineConfig


def model() -> Any:
    """Calls a tool, and answers."""
    call = ModelOutput.for_tool_call("mockllm/model", "bash", {"command": "cat greeting.txt"})
    model = get_model("mockllm/model", custom_outputs=[call, ModelOutput.from_content("mockllm/model", "It says hello.")])

    async def count(text: str) -> int:  # so that this needs no network
        return len(text)

    model.api.count_text_tokens = count  # type: ignore[method-assign]
    return model


def main() -> None:
    """Evaluates it."""
    task = Task(
        dataset=[Sample(input="What does the file say?", target="hello", files={"greeting.txt": "hello from a sandbox\n"})],
        solver=[use_tools(bash(timeout=30)), generate()],
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("confine", ConfineConfig(policy={"profile": "standard", "memory_limit": "256M"})),
    )
    with tempfile.TemporaryDirectory() as logs:
        log = eval(task, model=model(), display="none", log_dir=logs)[0]
        assert log.samples and log.results, log.error
        print("tool:", next(m.text for m in log.samples[0].messages if m.role == "tool").strip())
        print("accuracy:", log.results.scores[0].metrics["accuracy"].value)


if __name__ == "__main__":
    main()
