"""SandboxConfig, where an operator says otherwise, and which runner a level gets."""

# ruff: noqa: E501 - programs are shown in one line

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from confine.runners import (
    DockerRunner,
    InProcessRunner,
    MockRunner,
    RunnerClosed,
    RunnerUnavailable,
    SandboxConfig,
    SandboxResult,
    SecurityLevel,
    SubprocessRunner,
    create_runner,
    docker,
    load_config,
)
from conftest import executable, need
from runner_cases import OPTIONS, podman_image

TABLE = {
    SecurityLevel.PERMISSIVE: (60.0, 1024, ("pandas", "math", "statistics", "json", "numpy", "datetime")),
    SecurityLevel.STANDARD: (30.0, 512, ("pandas", "math", "statistics", "json")),
    SecurityLevel.STRICT: (10.0, 256, ("math", "statistics", "json")),
}


@pytest.mark.parametrize("level", SecurityLevel)
def test_levels_are_those_of_the_document(level: SecurityLevel) -> None:
    config = SandboxConfig.for_level(level)
    assert (config.security_level, config.timeout_seconds, config.max_memory_mb, config.allowed_modules) == (level, *TABLE[level])
    assert load_config(level, environ={}) == config


def test_defaults_are_those_of_the_standard_level() -> None:
    assert SandboxConfig() == SandboxConfig.for_level(SecurityLevel.STANDARD) == load_config(environ={})


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"security_level": "standard"}, TypeError),
        ({"timeout_seconds": "1"}, TypeError),
        ({"timeout_seconds": True}, TypeError),
        ({"timeout_seconds": 0}, ValueError),
        ({"timeout_seconds": float("nan")}, ValueError),
        ({"timeout_seconds": float("inf")}, ValueError),
        ({"max_memory_mb": 1.5}, TypeError),
        ({"max_memory_mb": -1}, ValueError),
        ({"allowed_modules": "math"}, TypeError),
        ({"allowed_modules": (1,)}, TypeError),
        ({"allowed_modules": None}, TypeError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_wrong_values(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        SandboxConfig(**wrong)


def test_lists_of_modules_become_tuples() -> None:
    assert SandboxConfig(allowed_modules=["math"]).allowed_modules == ("math",)  # type: ignore[arg-type]


def test_environment_counts_more_than_the_file_and_the_file_more_than_the_level(tmp_path: Path) -> None:
    file = tmp_path / "runner.json"
    file.write_text('{"runner": {"timeout_seconds": 5, "max_memory_mb": 100, "security_level": "strict", "allowed_modules": ["re"]}}')
    environ = {"CONFINE_RUNNER_CONFIG": str(file), "CONFINE_RUNNER_MEMORY_MB": "70", "CONFINE_RUNNER_MODULES": "math, json,re"}
    assert load_config(environ=environ) == SandboxConfig(SecurityLevel.STRICT, 5, 70, ("math", "json", "re"))
    assert load_config(SecurityLevel.STANDARD, file=file, environ={}) == SandboxConfig(SecurityLevel.STANDARD, 5, 100, ("re",))
    assert load_config(environ={"CONFINE_RUNNER_LEVEL": "permissive", "CONFINE_RUNNER_TIMEOUT": "2.5"}).timeout_seconds == 2.5


def test_toml(tmp_path: Path) -> None:
    file = tmp_path / "runner.toml"
    file.write_text('[runner]\ntimeout_seconds = 7\nallowed_modules = ["math"]\n')
    if sys.version_info < (3, 11):
        with pytest.raises(ValueError, match=r"needs Python 3.11"):
            load_config(file=file, environ={})
    else:
        assert load_config(file=file, environ={}) == SandboxConfig(timeout_seconds=7, allowed_modules=("math",))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"runner": 1}',
        '{"runner": {"timeout": 1}}',
        '{"runner": {"timeout_seconds": "1"}}',
        '{"runner": {"timeout_seconds": -1}}',
        '{"runner": {"allowed_modules": "math"}}',
        '{"runner": {"security_level": "none"}}',
        '{"runner": {"security_level": []}}',
        "{",
    ],
)
def test_files_that_are_wrong(text: str, tmp_path: Path) -> None:
    file = tmp_path / "runner.json"
    file.write_text(text)
    with pytest.raises(ValueError):  # noqa: PT011
        load_config(file=file, environ={})


@pytest.mark.parametrize(
    "environ",
    [{"CONFINE_RUNNER_LEVEL": "x"}, {"CONFINE_RUNNER_TIMEOUT": "x"}, {"CONFINE_RUNNER_TIMEOUT": "-1"}, {"CONFINE_RUNNER_MEMORY_MB": "1.5"}],
)
def test_variables_that_are_wrong(environ: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        load_config(environ=environ)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_config(file=tmp_path / "nothing.json", environ={})


# Which runner.


def test_runners_of_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    need("linux")
    monkeypatch.setenv("CONFINE_RUNNER_TIMEOUT", "3")
    with create_runner() as runner:
        assert type(runner) is SubprocessRunner
        assert runner.config.timeout_seconds == 3
        assert runner.execute("1 + 1", {}).result == 2
    with create_runner(SecurityLevel.PERMISSIVE) as runner:
        assert type(runner) is InProcessRunner
    config = SandboxConfig(timeout_seconds=1, allowed_modules=())
    with create_runner(config=config) as runner:
        assert runner.config is config
    with pytest.raises(TypeError):
        create_runner("strict")  # type: ignore[arg-type]


def test_strict_falls_back_with_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    need("linux")
    monkeypatch.setenv("CONFINE_RUNNER_ENGINE", "no-engine-of-this-name")
    with caplog.at_level(logging.WARNING), create_runner(SecurityLevel.STRICT) as runner:
        assert type(runner) is SubprocessRunner
        assert runner.fresh
        assert runner.execute("1 + 1", {}).result == 2
    assert [record.message for record in caplog.records] == [
        "Docker unavailable, using subprocess for STRICT level: no-engine-of-this-name is not installed"
    ]
    with pytest.raises(RunnerUnavailable, match="no-engine-of-this-name is not installed"):
        DockerRunner(SandboxConfig())


def test_why_there_is_no_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need("linux")
    monkeypatch.delenv("CONFINE_RUNNER_ENGINE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert docker.docker_missing() == "docker is not installed; podman is not installed"
    engine = tmp_path / "docker"
    executable(engine, "#!/bin/sh\necho more >&2\necho cannot connect to the daemon >&2\nexit 1\n")
    assert docker.docker_missing() == "docker does not answer (cannot connect to the daemon); podman is not installed"
    engine.write_text("#!/bin/sh\n[ $1 = version ]\n")
    assert docker.docker_missing("x:1") == "docker has no image x:1, and none is pulled"
    engine.write_text("#!/bin/sh\nexit 0\n")
    assert docker.docker_missing() == ""


def test_strict_is_a_container_where_there_is_an_engine(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    image = podman_image()
    monkeypatch.setenv("CONFINE_RUNNER_ENGINE", "podman")
    monkeypatch.setenv("CONFINE_RUNNER_IMAGE", image)
    monkeypatch.setenv("CONFINE_RUNNER_ENGINE_OPTIONS", " ".join(OPTIONS))
    with create_runner(SecurityLevel.STRICT) as runner:
        assert type(runner) is DockerRunner
        assert runner.execute("1 + 1", {}).result == 2
        assert runner.enforced["cpu_rate"]["requested"] == "0.5"
    assert not caplog.records
    assert not docker.docker_missing(image)
    assert "no-image-of-this-name" in docker.docker_missing("localhost/no-image-of-this-name:1")


def test_container_has_what_the_document_says() -> None:
    image = podman_image()
    config = SandboxConfig(SecurityLevel.STRICT, 10, 64, ("*",))
    code = """
import os, re
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
result = {
    "uid": os.getuid(), "capabilities": int(status["CapEff"], 16) + int(status["CapBnd"], 16), "no_new_privs": int(status["NoNewPrivs"]),
    "seccomp": int(status["Seccomp"]), "interfaces": sorted(os.listdir("/sys/class/net")), "env": sorted(k for k in os.environ if "SECRET" in k),
    "root": os.access("/", os.W_OK) or os.access("/usr", os.W_OK), "tmp": os.access("/tmp", os.W_OK),
}
for name, call in (("unshare", lambda: __import__("ctypes").CDLL(None).unshare(0x10000000)), ("mount", lambda: __import__("ctypes").CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None))):
    result[name] = call()
"""
    with DockerRunner(config, engine="podman", image=image, options=OPTIONS, warm=0) as runner:
        result = runner.execute(code, {})
    assert result.error is None, result.stderr
    assert result.result == {
        "uid": 64523,
        "capabilities": 0,
        "no_new_privs": 1,
        "seccomp": 2,
        "interfaces": ["lo"],
        "env": [],
        "root": False,
        "tmp": True,
        "unshare": -1,
        "mount": -1,
    }


def test_container_that_cannot_start_says_why() -> None:
    podman_image()
    with (
        DockerRunner(SandboxConfig(), engine="podman", image="localhost/no-image-of-this-name:1", warm=0) as runner,
        pytest.raises(RunnerUnavailable, match="no-image-of-this-name"),
    ):
        runner.execute("1", {})


def test_no_container_is_left() -> None:
    import subprocess

    image = podman_image()
    with DockerRunner(SandboxConfig(timeout_seconds=1, allowed_modules=("*",)), engine="podman", image=image, options=OPTIONS) as runner:
        assert str(runner.execute("while 1: pass", {}).error).startswith("TimeoutError")
        assert str(
            runner.execute(
                "import os, signal\nfor n in range(1, 65):\n    try: os.kill(1, n)\n    except OSError: pass\nwhile 1: pass", {}
            ).error
        ).startswith("TimeoutError")
    import os

    listed = subprocess.run(["podman", "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True).stdout
    assert not [name for name in listed.split() if name.startswith(f"confine-{os.getpid()}-")]


# The others' own.


def test_in_process_from_another_thread_leaves_what_does_not_stop() -> None:
    import threading

    results: list[SandboxResult] = []
    runner = InProcessRunner(SandboxConfig(timeout_seconds=0.3, allowed_modules=("time",)))
    for code in ("while True: pass", "import time\ntime.sleep(5)", "6 * 7"):
        thread = threading.Thread(target=lambda code=code: results.append(runner.execute(code, {})))  # type: ignore[misc]
        thread.start()
        thread.join(10)
    assert [r.error for r in results] == ["TimeoutError: the code ran longer than 0.3 s"] * 2 + [None]
    assert results[2].result == 42
    if sys.gettrace() is None:  # a thread that is traced waits in CPython 3.11 until the other has its exception
        assert all(r.execution_time_ms < 3000 for r in results)


def test_in_process_lets_an_interrupt_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        InProcessRunner(SandboxConfig()).execute("raise KeyboardInterrupt", {})


def test_in_process_leaves_limits_and_signals_as_they_were() -> None:
    need("linux")
    import resource
    import signal

    def state() -> Any:
        return (
            resource.getrlimit(resource.RLIMIT_DATA),
            signal.getsignal(signal.SIGALRM),
            signal.getitimer(signal.ITIMER_REAL)[0] > 100,
            sys.stdout,
        )

    signal.setitimer(signal.ITIMER_REAL, 1000)
    before = state()
    runner = InProcessRunner(SandboxConfig(timeout_seconds=0.2, max_memory_mb=32))
    for code in ("1", "1/0", "while 1: pass", "bytearray(100 << 20)"):
        runner.execute(code, {})
    assert state() == before
    signal.setitimer(signal.ITIMER_REAL, 0)


def test_mock_answers_what_was_laid_down() -> None:
    given = SandboxResult(True, 1, "out", "", None, 2.0, 3.0)
    with MockRunner(answers={"a": 1, "b": ValueError("no"), "c": given}) as runner:
        assert runner.execute("a", {"x": 1}) == SandboxResult(True, 1, "", "", None, 0.0, None)
        assert runner.execute("b").error == "ValueError: no"
        assert runner.execute("c") is given
        with pytest.raises(KeyError):
            runner.execute("d")
        assert runner.calls[0] == ("a", {"x": 1})
        assert runner.metrics.outcomes == {"ok": 2, "error": 1}
    with pytest.raises(RunnerClosed):
        runner.execute("a")
