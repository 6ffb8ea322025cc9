"""What users import is there, is light, and is listed alike in both places."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import confine


def test_every_name_is_there() -> None:
    assert {name for name in confine.__all__ if name != "__version__"} == set(confine._HOME)
    for name in confine.__all__:
        assert getattr(confine, name) is not None
    assert set(confine.__all__) <= set(dir(confine))
    with pytest.raises(AttributeError, match="no attribute"):
        confine.nonsense  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(confine.__file__).read_text())
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {(node.module, alias.name) for node in ast.walk(typed) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {(module, name) for name, module in confine._HOME.items()}


def test_importing_it_imports_nothing_heavy() -> None:
    script = "import sys; before = set(sys.modules); import confine; print(*sorted(set(sys.modules) - before))"
    out = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {str(Path(confine.__file__).parents[1])!r}); {script}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    heavy = {"asyncio", "ssl", "http", "http.client", "subprocess", "json", "socket", "dataclasses", "pytest"}
    assert not heavy & set(out.stdout.split())


def test_errors_are_a_tree() -> None:
    for name in confine.errors.__all__:
        assert issubclass(getattr(confine, name), confine.ConfineError)
