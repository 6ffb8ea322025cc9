"""Code that means harm: whatever it does, the caller gets an answer in time, is told the truth, and the next execution is as the first."""

# ruff: noqa: E501 - programs are shown in one line

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from confine.runners import Opaque, SandboxConfig, SandboxedRunner, SubprocessRunner, _worker
from conftest import need
from runner_cases import runner

MODULES = ("*",)
CONFIG = SandboxConfig(timeout_seconds=0.5, max_memory_mb=50, allowed_modules=MODULES)
#: For code that is to end by something else than its time.
LONG = SandboxConfig(timeout_seconds=15, max_memory_mb=50, allowed_modules=MODULES)

#: Code, and what the error has to begin with; none: the code ends well, and reaches nothing by it.
ATTACKS = {
    "a giant answer": ("'a' * (45 << 20)", "MemoryError"),
    "an answer of too many parts": ("[[''] * 3] * 3_000_000", "MemoryError"),
    "bytes that are no answer": ("import os\nos.write(3, b'\\xff' * 100_000)\n1", "Crash: the answer can't be read"),
    "an answer that is not JSON": (
        "import os, time\nos.write(3, (5).to_bytes(8, 'big') + b'hello')\ntime.sleep(99)",
        "Crash: the answer can't be read",
    ),
    "half an answer": ("import os, time\nos.write(3, (500).to_bytes(8, 'big') + b'hello')\ntime.sleep(99)", "TimeoutError"),
    "an answer of negative size": ("import os, time\nos.write(3, b'\\xff' * 8)\ntime.sleep(99)", "Crash: the answer can't be read"),
    "an answer that is a pickle": (
        "import os, json, struct, time\n"
        "d = json.dumps({'v': {'error': None, 'value': {'$': 'pickle', 'b': 0}}, 'b': [1]}).encode()\n"
        "d = struct.pack('>I', len(d)) + d + b'.'\n"
        "os.write(3, struct.pack('>Q', len(d)) + d)\ntime.sleep(99)",
        "Crash: the answer can't be read: a pickle, which nobody asked for",
    ),
    "an answer nested too deep for JSON": (
        "import os, struct, time\nd = b'[' * 60_000\nd = struct.pack('>I', len(d)) + d\nos.write(3, struct.pack('>Q', len(d)) + d)\ntime.sleep(99)",
        "Crash: the answer can't be read",
    ),
    "every descriptor closed": ("import os\nos.closerange(0, 100)\n1", "Crash"),
    "writing where the host listens": (
        "import os\nfor n in range(3, 100):\n    try: os.write(n, b'\\0' * 12 + b'{}')\n    except OSError: pass",
        "Crash: the answer can't be read",
    ),
    "the worker killed": ("import os\nos.kill(os.getppid(), 9)\n1", "Crash: the sandbox was killed"),
    "the worker stopped": ("import os, time\nos.kill(os.getppid(), 19)\ntime.sleep(99)", "TimeoutError"),
    "the worker sent every signal that it may ignore": (
        "import os, signal\nfor n in signal.valid_signals() - {9, 19, 4, 5, 6, 7, 8, 11, 31}: os.kill(os.getppid(), n)\n1",
        None,
    ),
    "everybody killed": ("import os\nos.kill(-1, 9)\n1", "Crash: the sandbox was killed"),
    "everybody stopped": ("import os\nos.kill(-1, 19)\nwhile 1: pass", "TimeoutError"),
    "a child left behind": ("import os, time\nif os.fork() == 0: time.sleep(99)\n1", None),
    "a grandchild in a session of its own": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(99)\n    os._exit(0)\n1",
        None,
    ),
    "two that answer": ("import os\nos.fork()\n1", None),
    "a fork bomb": ("import os\nwhile True: os.fork()", "BlockingIOError"),
    "threads without end": (
        "import threading, time\nwhile 1: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "RuntimeError: can't start new thread",
    ),
    "memory at once": ("bytearray(100 << 20)", "MemoryError"),
    "memory bit by bit": ("x = []\nwhile 1: x.append(bytearray(1 << 20))", "MemoryError"),
    "memory that no limit of a process counts": (
        "import mmap\nx = []\nwhile 1:\n    m = mmap.mmap(-1, 16 << 20)\n    m.write(b'x' * (16 << 20))\n    x.append(m)",
        "MemoryError: killed: the sandbox took more than 306 MiB",
    ),
    "memory of many processes": (
        "import os, time\nfor _ in range(10):\n    if os.fork() == 0:\n        x = bytearray(45 << 20)\n        time.sleep(99)\ntime.sleep(99)",
        "MemoryError: killed: the sandbox took more than 306 MiB",
    ),
    "files until the disk is full": ("with open('/dev/shm/x', 'wb') as f:\n    while 1: f.write(bytes(1 << 20))", "OSError: [Errno 28]"),
    "output without end": ("while True: print('x' * 100_000)", "TimeoutError"),
    "errors without end, past sys.stderr": ("import os\nwhile True: os.write(2, b'x' * 100_000)", "TimeoutError"),
    "a trace function that goes on": (
        "import sys\ndef f(*a): raise ValueError('traced')\nsys.settrace(f)\n(lambda: 0)()",
        "ValueError: traced",
    ),
    "a profiler that never returns": ("import sys\ndef f(*a):\n    while 1: pass\nsys.setprofile(f)\nlen('')", "TimeoutError"),
    "json taken away": ("import json\njson.dumps = json.loads = json.JSONEncoder.encode = None\n1", None),
    "every module taken away": ("import sys\nsys.modules.clear()\n1", None),
    "recursion without a limit": ("import sys\nsys.setrecursionlimit(10**8)\ndef f(): f()\nf()", ""),
    "signals ignored": (
        "import signal\nfor n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile 1: pass",
        "TimeoutError",
    ),
    "an exception that never says what it is": (
        "class E(Exception):\n    def __str__(self):\n        while 1: pass\nraise E",
        "TimeoutError",
    ),
    "an exception without a decent name": (
        "class M(type):\n    __name__ = property(lambda s: 1/0)\nclass E(Exception, metaclass=M): pass\nraise E('x')",
        "E: x",
    ),
    "a value that never says what it is": ("class A:\n    def __repr__(self):\n        while 1: pass\nA()", "TimeoutError"),
    "the worker's memory read": ("import os\nopen(f'/proc/{os.getppid()}/mem', 'rb').read(1)", "PermissionError"),
    "the worker's environment read": ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", "PermissionError"),
    "the worker's descriptors opened": ("import os\nfor n in range(20): open(f'/proc/{os.getppid()}/fd/{n}', 'wb')", "PermissionError"),
    "the worker traced": ("import ctypes, os\nassert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0", "AssertionError"),
    "the worker's limits lowered": (
        "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1))",
        "PermissionError",
    ),
    "another program started": ("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'exit 7']).returncode", None),
    "the host's network": ("import socket\nsocket.create_connection(('192.0.2.1', 80))", "OSError: [Errno 101]"),
    "the caller's files": (f"open({__file__!r})", "FileNotFoundError"),
    "the interpreter's own files written": (
        "import os\ntry: open(os.__file__, 'a')\nexcept OSError as e: raise OSError(e.errno in (13, 30))",
        "OSError: True",
    ),
}


FORGED = """
import os, json, struct, time
d = json.dumps({'v': %s, 'b': [8]}).encode()
d = struct.pack('>I', len(d)) + d + bytes(8)
os.write(3, struct.pack('>Q', len(d)) + d)
time.sleep(99)
"""
for forged in (
    "1",
    "[1]",
    "'x'",
    "{'error': None}",
    "{'error': None, 'value': 1, 'more': 1}",
    "{'error': 1, 'value': 1}",
    "{'$': 'range', 'v': [0, 1, 1]}",
    "{'$': 'scalar', 'dtype': '<i8', 'shape': [], 'b': 0}",
    "{'$': 'objects', 'shape': [0], 'v': []}",
    "{'$': 'index', 'v': {'range': [0, 1, 1], 'name': None}}",
    "{'$': 'series', 'v': {'values': {'$': 'objects', 'shape': [0], 'v': []}}, 'index': {'range': [0, 0, 1], 'name': None}, 'name': None}",
):
    ATTACKS[f"an answer that is {forged}"] = (FORGED % forged, "Crash: the answer can't be read")


@pytest.fixture(scope="module")
def box() -> Iterator[SandboxedRunner]:
    need("linux")
    with runner("subprocess", LONG) as made:
        yield made


@pytest.fixture(scope="module")
def short() -> Iterator[SandboxedRunner]:
    need("linux")
    with runner("subprocess", CONFIG) as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(box: SandboxedRunner, short: SandboxedRunner, name: str) -> None:
    code, error = ATTACKS[name]
    box = short if error == "TimeoutError" else box
    began = time.monotonic()
    result = box.execute(code, {})
    assert time.monotonic() - began < box.config.timeout_seconds + 4
    if error is None:
        assert result.error is None
    else:
        assert result.error is not None
        assert result.error.startswith(error)
    assert len(result.stdout) + len(result.stderr) < 3 << 20
    after = box.execute(
        "import os\n[sum((1 for p in os.listdir('/proc') if p.isdigit()), 0), os.listdir('/tmp'), os.listdir('/dev/shm'), 6 * 7]", {}
    )
    assert after.result == [3, [], [], 42]  # the sandbox's own first process, the worker, and this one


def test_deep_and_endless_values_arrive_as_far_as_they_go(box: SandboxedRunner) -> None:
    value = box.execute("x = []\nfor i in range(100_000): x = [x]\nx", {}).result
    depth = 0
    while isinstance(value, list):
        value, depth = value[0], depth + 1
    assert depth == 99  # and the answer itself
    assert isinstance(value, Opaque)
    (value,) = box.execute("x = []\nx.append(x)\nx", {}).result
    assert value == Opaque("list", "[[...]]")


#: What one execution leaves for the next, and how the next would see it.
POISON = {
    "files": (
        "open('/tmp/x', 'w').write('x')\nimport os\nos.makedirs('/dev/shm/a/b')\nos.symlink('/', '/tmp/root')\nos.mkfifo('/tmp/fifo')",
        "import os\nos.listdir('/tmp') + os.listdir('/dev/shm')",
        [],
    ),
    "a directory nobody may enter": ("import os\nos.makedirs('/tmp/a/b')\nos.chmod('/tmp/a', 0)", "import os\nos.listdir('/tmp')", []),
    "a place nobody may enter": ("import os\nos.chmod('/tmp', 0)", "import os\noct(os.stat('/tmp').st_mode & 0o777)", None),
    "many files": ("for i in range(5000): open(f'/tmp/{i}', 'w').close()", "import os\nlen(os.listdir('/tmp'))", 0),
    "a deep tree": ("import os\nfor i in range(600):\n    os.mkdir('/tmp/' + 'd/' * i + 'd')", "import os\nos.listdir('/tmp')", []),
    "an attribute": ("import os\ntry: os.setxattr('/tmp', 'user.x', b'x')\nexcept OSError: pass", "import os\nos.listxattr('/tmp')", []),
    "shared memory": ("import ctypes\nctypes.CDLL(None).shmget(1234, 4096, 0o1600)", "open('/proc/sysvipc/shm').read().count('\\n')", 1),
    "a message queue": (
        "import ctypes\nctypes.CDLL(None).mq_open(b'/q', 0o102, 0o600, None)",
        "import ctypes\nctypes.CDLL(None).mq_open(b'/q', 0)",
        -1,
    ),
    "priority": (
        "import os\nos.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "import os\nos.getpriority(os.PRIO_PROCESS, 0)",
        os.getpriority(os.PRIO_PROCESS, 0),
    ),
    "modules": ("import math, builtins\nmath.pi = 3\nbuiltins.len = None", "import math\n[math.pi > 3, len('x')]", [True, 1]),
    "a standard library's function": ("import json\njson.loads = None", "import json\njson.loads('1')", 1),
    "a process that goes on": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while 1: open('/tmp/again', 'w')",
        "import os, time\ntime.sleep(0.2)\nos.listdir('/tmp')",
        [],
    ),
    "a limit": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))",
        "import resource\nresource.getrlimit(resource.RLIMIT_NOFILE)[0] > 10",
        True,
    ),
    "a signal handler": (
        "import signal\nsignal.signal(2, signal.SIG_IGN)",
        "import signal\nsignal.getsignal(2) is signal.default_int_handler",
        True,
    ),
    "the worker's group of the scheduler": (
        "import os\ntry: open(f'/proc/{os.getppid()}/autogroup', 'w').write('19')\nexcept OSError: pass",
        "import os\nos.path.exists('/proc/self/autogroup') and 'nice 19' in open(f'/proc/{os.getppid()}/autogroup').read()",
        False,
    ),
    "the worker's limits": (
        "import os, resource\nfor n in range(16):\n"
        "    try: resource.prlimit(os.getppid(), n, (0, resource.prlimit(os.getppid(), n)[1]))\n    except (OSError, ValueError): pass",
        "import resource\n[resource.getrlimit(n) for n in range(16) if n != resource.RLIMIT_DATA]",
        None,
    ),
    "the worker's priority at the disk": (
        "import ctypes, os\nctypes.CDLL(None).syscall({'x86_64': 251, 'aarch64': 30}[os.uname().machine], 1, os.getppid(), 3 << 13)",
        "import ctypes, os\nctypes.CDLL(None).syscall({'x86_64': 252, 'aarch64': 31}[os.uname().machine], 1, 0)",
        None,
    ),
    "the worker's scheduler": (
        "import os\nos.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
        "import os\nos.sched_getscheduler(0)",
        0,
    ),
    "the worker's processors": (
        "import os\ntry: os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))})\nexcept OSError: pass",
        "import os\nlen(os.sched_getaffinity(0))",
        None,
    ),
    "the worker's timers": (
        "import os\ntry: open(f'/proc/{os.getppid()}/timerslack_ns', 'w').write('90000000')\nexcept OSError: pass",
        "open('/proc/self/timerslack_ns').read()",
        None,
    ),
    "what the worker's dumps would have": (
        "import os\ntry: open(f'/proc/{os.getppid()}/coredump_filter', 'w').write('0x7f')\nexcept OSError: pass",
        "open('/proc/self/coredump_filter').read()",
        None,
    ),
    "a connection that was closed": (
        "import socket\na = socket.create_server(('127.0.0.1', 7070))\nb = socket.create_connection(('127.0.0.1', 7070))\n"
        "c, _ = a.accept()\nc.close()\nb.recv(1)\nb.close()\na.close()",
        "open('/proc/net/tcp').read().count('\\n')",
        1,
    ),
    "a directory's times": ("import os\nos.utime('/tmp', (7, 7))", "import os\nint(os.stat('/tmp').st_mtime) == 7", False),
    "the worker's score for the OOM killer": (
        "import os\nopen(f'/proc/{os.getppid()}/oom_score_adj', 'w').write('900')",
        "int(open('/proc/self/oom_score_adj').read()) < 900",
        True,
    ),
}


@pytest.mark.parametrize("name", POISON)
def test_nothing_passes_to_the_next_execution(box: SandboxedRunner, name: str) -> None:
    poison, look, clean = POISON[name]
    if clean is None:
        clean = box.execute(look, {}).result
    box.execute(poison, {})
    result = box.execute(look, {})
    assert result.error is None
    assert result.result == clean


def test_a_file_that_an_import_wrote_is_believed_by_nobody_once_it_was_changed(tmp_path: Path) -> None:
    """Of the same size, with the same time of change as far as code can set it."""
    need("linux")
    for name in ("cache", "link", "dir/cache"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("good") if name != "link" else (tmp_path / name).symlink_to("good")
    worker = _worker.Worker.__new__(_worker.Worker)
    worker.places, worker.times = [str(tmp_path)], {}
    before = worker.inventory()
    time.sleep(0.02)
    assert worker.inventory() == before
    for name in ("cache", "link", "dir/cache"):
        path = tmp_path / name
        info = path.lstat()
        if name == "link":
            path.unlink()
            path.symlink_to("evil")
        else:
            path.write_text("evil")
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)
        after = worker.inventory()
        assert after != before
        before = after


def test_a_cache_of_a_library_is_not_believed_once_it_was_changed() -> None:
    need("linux", "python:matplotlib")
    config = SandboxConfig(timeout_seconds=60, max_memory_mb=512, allowed_modules=("*", "matplotlib.font_manager"))
    find = "import glob, os\nfiles = glob.glob('/tmp/**/fontlist*', recursive=True)\n"
    with SubprocessRunner(config) as made:
        assert made.execute(find + "open(files[0]).read(1)", {}).result == "{"
        assert made.execute(find + "open(files[0]).read(1)", {}).result == "{"
        assert made.metrics.sandboxes_thrown_away == 0
        made.execute(
            find
            + "i = os.stat(files[0])\nf = open(files[0], 'r+')\nf.write('x')\nf.close()\nos.utime(files[0], ns=(i.st_atime_ns, i.st_mtime_ns))",
            {},
        )
        assert made.execute(find + "open(files[0]).read(1)", {}).result == "{"
        assert made.metrics.sandboxes_thrown_away == 1


def test_limits_are_all_looked_at() -> None:
    need("linux")
    import resource

    assert _worker.limits() == [resource.getrlimit(n) for n in range(16)]


def test_random_numbers_differ_from_one_execution_to_the_next(box: SandboxedRunner) -> None:
    assert len({box.execute("import random\nrandom.random()", {}).result for _ in range(5)}) == 5


def test_strict_uses_each_sandbox_once() -> None:
    need("linux")
    from confine.runners import SecurityLevel

    config = SandboxConfig(SecurityLevel.STRICT, 5, 50, MODULES)
    with SubprocessRunner(config) as made:
        look = "import os\n(os.stat('/proc/self/ns/pid').st_ino, open('/proc/1/stat').read().split()[21])"
        assert len({made.execute(look, {}).result for _ in range(3)}) == 3
        assert made.metrics.sandboxes_thrown_away == 3
        assert made.enforced["cpu_rate"]["requested"] == "50%"
    with SubprocessRunner(SandboxConfig(allowed_modules=MODULES)) as made:
        assert len({made.execute(look, {}).result for _ in range(3)}) == 1
    with SubprocessRunner(SandboxConfig(allowed_modules=MODULES), fresh=True) as made:
        assert len({made.execute(look, {}).result for _ in range(3)}) == 3


#: What a container has to hold up to as well; each costs one.
CONTAINED = (
    "an answer that is not JSON",
    "every descriptor closed",
    "a child left behind",
    "memory at once",
    "output without end",
    "signals ignored",
    "the host's network",
)


@pytest.mark.parametrize("name", CONTAINED)
def test_attack_in_a_container(name: str) -> None:
    code, error = ATTACKS[name]
    with runner("podman", CONFIG if error == "TimeoutError" else LONG, warm=0) as made:
        result = made.execute(code, {})
        assert (result.error or "").startswith(error or "")
        assert (result.error is None) == (error is None)
