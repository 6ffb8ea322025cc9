"""A CodeAgent of smolagents whose code runs in a sandbox, and whose tools stay outside. The model says what it is told to.

$ python smolagents_agent.py
stock() is called outside
{'apples': 12, 'pears': 30}
"""

from __future__ import annotations

import os
from typing import Any

from smolagents import CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole

from confine.providers.smolagents import ConfineExecutor

HERE = os.getpid()


@tool
def stock(what: str) -> int:
    """Says how many there are.

    Args:
        what: apples or pears
    """
    if what == "apples" and os.getpid() == HERE:
        print("stock() is called outside")
    return {"apples": 12, "pears": 30}[what]


class Script(Model):  # type: ignore[misc]
    """A model that says these steps, one after another."""

    def __init__(self, *steps: str):
        super().__init__(model_id="script")
        self.steps = list(steps)

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        """The next step."""
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{self.steps.pop(0)}\n</code>")


def main() -> None:
    """Asks the agent."""
    model = Script("found = {what: stock(what) for what in ('apples', 'pears')}", "final_answer(found)")
    with ConfineExecutor("standard", time_limit=20) as executor:
        agent = CodeAgent(tools=[stock], model=model, executor=executor, verbosity_level=0)
        print(agent.run("What is there?"))


if __name__ == "__main__":
    main()
