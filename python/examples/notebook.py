"""A session like a notebook's: one interpreter in one sandbox, whose variables stay from cell to cell.

Cells go in by the interpreter's input, and what they print comes as it is printed. The end of a cell is a word that nobody can guess.

    $ python notebook.py
    [1] x = [n * n for n in range(5)]
    [2] print(x)
    [0, 1, 4, 9, 16]
    [3] 1 / 0
    ZeroDivisionError: division by zero
    [4] print(sum(x))
    30
"""

from __future__ import annotations

import json
import secrets

import confine

# Runs cells, each a line of JSON, and prints the mark that comes with it.
KERNEL = """
import json, sys, traceback
space = {"__name__": "__main__"}
for line in sys.stdin:
    cell = json.loads(line)
    try:
        exec(compile(cell["code"], "<cell>", "exec"), space)
    except BaseException as e:
        print("".join(traceback.format_exception_only(type(e), e)), end="")
    print(end=cell["mark"], flush=True)
"""


class Notebook:
    """A sandbox with an interpreter. Leaving it by "with" ends both."""

    def __init__(self, policy: confine.Policy = "standard") -> None:
        self.box = confine.Sandbox(policy)
        self.kernel = self.box.start(["python3", "-u", "-c", KERNEL], stdin=True)

    def run(self, code: str) -> str:
        """Runs a cell: what it printed."""
        mark = secrets.token_hex(16) + "\n"
        self.kernel.write(json.dumps({"code": code, "mark": mark}) + "\n")
        printed = ""
        for frame in self.kernel:
            if frame.type in ("stdout", "stderr"):
                printed += frame.data.decode("utf-8", "replace")
            if mark in printed:
                return printed[: printed.index(mark)]
        raise RuntimeError("the interpreter has ended: " + (self.kernel.result.reason if self.kernel.result else "no answer"))

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.box.close()


def main() -> None:
    """Runs some cells."""
    cells = ["x = [n * n for n in range(5)]", "print(x)", "1 / 0", "print(sum(x))"]
    with Notebook() as notebook:
        for number, cell in enumerate(cells, 1):
            print(f"[{number}] {cell}")
            print(notebook.run(cell), end="")


if __name__ == "__main__":
    main()
