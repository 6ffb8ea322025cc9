"""What docs/PYTHON.md shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from conftest import need

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["PYTHON.md"])
def test_examples(name: str) -> None:
    need("linux")
    failed, tried = doctest.testfile(str(DOCS / name), module_relative=False, encoding="utf-8", optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried > 10
    assert failed == 0
