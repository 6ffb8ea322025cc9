"""The sandboxes of Inspect: its own checks, and real evaluations with a model that says what it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from conftest import need

if not __import__("importlib.util").util.find_spec("inspect_ai"):

    def test_without_the_package() -> None:
        need("python:inspect_ai")

else:
    from inspect_ai.util._sandbox.self_check import *  # noqa: F403
