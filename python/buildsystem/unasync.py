"""Makes src/confine/_sync of src/confine/_async: what is awaited there blocks here.

    python3 buildsystem/unasync.py

It is not committed: a wheel has it made, and an editable installation and the tests write it into the checkout.

Words of code lose their async: "async def" is "def", AsyncClient is Client, __aenter__ is __enter__, "await" goes. Docstrings and
comments have the names changed. A comment "# sync: STATEMENT" is that statement.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "confine"
NOTE = "# Made by buildsystem/unasync.py of ../_async/{name}: change that.\n"
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


def made() -> dict[str, str]:
    """The files of _sync, by their names."""
    return {path.name: NOTE.format(name=path.name) + unasync(path.read_text()) for path in sorted((PACKAGE / "_async").glob("*.py"))}


def write() -> None:
    """Write those that aren't there as they have to be. Whoever imports them meanwhile finds whole ones."""
    directory, files = PACKAGE / "_sync", made()
    directory.mkdir(exist_ok=True)
    for path in directory.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_text(text)
            unfinished.replace(path)


if __name__ == "__main__":
    write()
