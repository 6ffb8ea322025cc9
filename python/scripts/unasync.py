"""Makes src/confine/_sync of src/confine/_async: what is awaited there blocks here.

    python scripts/unasync.py            writes it
    python scripts/unasync.py --check    says what is stale, and fails then

Words of code lose their async: "async def" is "def", AsyncClient is Client, __aenter__ is __enter__, "await" goes. Docstrings and
comments have the names changed. A comment "# sync: STATEMENT" is that statement.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "confine"
NOTE = "# Made by scripts/unasync.py of ../_async/{name}: change that.\n"
WORDS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "async_address": "address",
}
NAME = re.compile(r"\bAsync(?=[A-Z])")


def unasync(source: str) -> str:
    """The same without await."""
    out: list[str] = []
    lines = source.splitlines(keepends=True)
    row, column, skip = 1, 0, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (start_row, start_column), (end_row, end_column) = token.start, token.end
        between = ""
        while row < start_row:
            between += lines[row - 1][column:]
            row, column = row + 1, 0
        if start_row <= len(lines):
            between += lines[row - 1][column:start_column]
        if not skip:
            out.append(between)
        text, skip = token.string, False
        if token.type == tokenize.NAME:
            if text in ("async", "await"):
                text, skip = "", True
            else:
                text = WORDS.get(text, NAME.sub("", text))
        elif token.type == tokenize.COMMENT:
            text = text.removeprefix("# sync: ") if text.startswith("# sync: ") else NAME.sub("", text)
        elif token.type == tokenize.STRING:
            text = NAME.sub("", text).replace('"async with"', '"with"').replace("by async with", "by with")
        elif token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            text = lines[start_row - 1][start_column:end_column] if token.type == tokenize.INDENT else ""
        out.append(text)
        row, column = end_row, end_column
    return "".join(out)


def main() -> int:
    """Write, or check."""
    check = sys.argv[1:] == ["--check"]
    stale = []
    sources = sorted((PACKAGE / "_async").glob("*.py"))
    for path in sources:
        if path.name == "__init__.py":
            made = '"""The client, whose calls block. Made by scripts/unasync.py of confine/_async: change that."""\n'
        else:
            made = NOTE.format(name=path.name) + unasync(path.read_text())
        to = PACKAGE / "_sync" / path.name
        if not to.exists() or to.read_text() != made:
            stale.append(to)
            if not check:
                to.write_text(made)
    gone = {p.name for p in (PACKAGE / "_sync").glob("*.py")} - {p.name for p in sources}
    for name in gone:
        stale.append(PACKAGE / "_sync" / name)
        if not check:
            (PACKAGE / "_sync" / name).unlink()
    if check and stale:
        print("stale, run python scripts/unasync.py:", *stale, sep="\n  ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
