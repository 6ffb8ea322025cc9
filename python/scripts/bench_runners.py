"""Measures how long a runner takes for execute("1+1"): cold, in a loop, and with pauses. Its arguments are the modules.

CONFINE_BINARY=bin/confine PYTHONPATH=python/src python3 python/scripts/bench_runners.py pandas numpy
"""

from __future__ import annotations

import sys
import time

from confine.runners import SandboxConfig, SubprocessRunner


def measure(runner: SubprocessRunner, times: int, pause: float) -> str:
    took = []
    for _ in range(times):
        time.sleep(pause)
        began = time.perf_counter()
        result = runner.execute("1+1", {})
        took.append((time.perf_counter() - began) * 1000)
        if result.result != 2:
            raise SystemExit(f"{result}")
    took.sort()
    return f"p50 {took[times // 2]:.1f} ms, p99 {took[times * 99 // 100]:.1f} ms"


def main() -> None:
    began = time.perf_counter()
    with SubprocessRunner(SandboxConfig(allowed_modules=tuple(sys.argv[1:]))) as runner:
        runner.execute("1+1", {})
        print(f"modules {', '.join(sys.argv[1:]) or 'none'}\ncold: {(time.perf_counter() - began) * 1000:.0f} ms")
        time.sleep(2)
        print(f"one after another: {measure(runner, 300, 0)}")
        print(f"every 20 ms: {measure(runner, 100, 0.02)}")


if __name__ == "__main__":
    main()
