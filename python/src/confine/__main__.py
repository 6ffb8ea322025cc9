"""python -m confine is the program "confine"."""

from __future__ import annotations

import os
import sys

from ._binary import find_binary
from .errors import ConfineError


def main() -> int:
    """Become the program; where a process cannot become another, start it and wait."""
    try:
        binary = find_binary()
    except ConfineError as e:
        print(f"confine: {e}", file=sys.stderr)
        return 125
    argv = [binary, *sys.argv[1:]]
    if sys.platform == "win32":
        import subprocess

        try:
            return subprocess.run(argv, check=False).returncode
        except KeyboardInterrupt:
            return 130
    sys.stdout.flush()
    os.execv(binary, argv)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
