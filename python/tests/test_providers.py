"""What is made for other packages does without them until it is asked for, and then says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["inspect_ai", "smolagents"])
def test_a_package_that_is_missing_is_named(package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; import confine.providers; import confine.providers.{package}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: confine.providers.{package} needs the package {package}, ")


def test_nothing_else_imports_them() -> None:
    script = "import sys, confine, confine.providers\nfor name in confine.__all__: getattr(confine, name)\n"
    script += "print(*{'inspect_ai', 'smolagents', 'pydantic', 'anyio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"
