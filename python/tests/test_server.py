"""The private server lives as long as its interpreter, and no longer; and what is said when a server fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import confine
from confine import _server
from conftest import executable, need


def python(script: str, **words: Any) -> subprocess.CompletedProcess[str]:
    """Another interpreter, which has a private server of its own."""
    need("linux")
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False, **words)


def gone(pid: int) -> bool:
    """Whether a process ends soon."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


SAY = """
    import confine, os, sys
    from confine import _server
    box = confine.Sandbox()
    process = box.start(["sleep", "60"])
    print(_server._server.process.pid, _server._server.directory, flush=True)
"""


def test_the_server_ends_with_the_interpreter() -> None:
    out = python(SAY)
    assert out.returncode == 0, out.stderr
    pid, directory = out.stdout.split()
    assert gone(int(pid))
    assert not Path(directory).exists()


def test_threads_that_go_on_start_no_other_server() -> None:
    out = python(
        SAY
        + """
    _server._end()  # as when the interpreter ends
    try:
        confine.Client().version()
    except confine.ServerDied as e:
        print(e)
"""
    )
    assert out.stdout.splitlines()[1].startswith("the private server has ended"), out.stderr


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_an_interpreter_that_is_killed(end: signal.Signals) -> None:
    need("linux")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SAY + "    sys.stdin.read()\n")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as interpreter:
        assert interpreter.stdout is not None
        pid, directory = interpreter.stdout.readline().split()
        assert not gone_now(int(pid))
        interpreter.send_signal(end)
        interpreter.wait()
        assert gone(int(pid))
    # What is left is empty, and goes with the next interpreter that starts a server a minute later.
    assert list(Path(directory).iterdir()) == []
    os.utime(directory, (1, 1))
    assert python(SAY).returncode == 0
    assert not Path(directory).exists()


def test_a_socket_of_nobody_goes_and_a_servers_stays() -> None:
    """The interpreter and its server were killed: nobody listens."""
    need("linux")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SAY + "    sys.stdin.read()\n")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as interpreter:
        assert interpreter.stdout is not None
        pid, directory = interpreter.stdout.readline().split()
        os.utime(directory, (1, 1))
        assert python(SAY).returncode == 0
        assert Path(directory, "s").exists()
        interpreter.send_signal(signal.SIGSTOP)
        os.kill(int(pid), signal.SIGKILL)
        interpreter.kill()
    assert gone(int(pid))
    assert Path(directory, "s").exists()
    os.utime(directory, (1, 1))
    assert python(SAY).returncode == 0
    assert not Path(directory).exists()


def gone_now(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_program_that_goes_on_holds_no_server() -> None:
    out = python(
        SAY
        + """
    import subprocess
    children = [subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False)]
    if (pid := os.fork()) == 0:
        os.close(1), os.close(2)
        os.execvp("sleep", ["sleep", "20"])
    print(children[0].pid, pid, flush=True)
    os._exit(0)
    """
    )
    first, second = out.stdout.splitlines()
    try:
        assert gone(int(first.split()[0]))
    finally:
        for pid in second.split():
            os.kill(int(pid), signal.SIGKILL)


def test_a_fork_has_a_server_of_its_own() -> None:
    out = python(
        SAY
        + """
    client = confine.Client()
    client.version()
    mine = _server._server.process.pid
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                box.exec(["true"])
            except confine.SandboxEnded as e:
                print("cause", e.cause, flush=True)
            box.close()
            with client.sandbox() as other:
                print("child", other.exec(["echo", "hi"]).stdout_text, end="", flush=True)
            print("other", _server._server.process.pid != mine, flush=True)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    print("parent", client.connect(box.id).exec(["echo", "still"]).stdout_text, end="")
    print("same", _server._server.process.pid == mine)
    """
    )
    assert out.stdout.splitlines()[1:] == ["cause forked", "child hi", "other True", "parent still", "same True"], out.stderr


def test_a_named_server_goes_on_in_both() -> None:
    out = python(
        SAY
        + """
    client = confine.Client("unix:" + _server._server.address)
    mine = client.connect(box.id)
    mine.exec(["true"])
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            print(mine.exec(["echo", "child"]).stdout_text, end="", flush=True)
            client.close()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    print(mine.exec(["echo", "parent"]).stdout_text, end="")
    """
    )
    assert out.stdout.splitlines()[1:] == ["child", "parent"], out.stderr


def test_a_child_that_lives_on_holds_no_server() -> None:
    out = python(
        SAY
        + """
    import time
    if os.fork() == 0:
        os.close(0), os.close(1), os.close(2)
        time.sleep(5)
        os._exit(0)
    os._exit(0)
    """
    )
    began = time.monotonic()
    assert gone(int(out.stdout.split()[0]))
    assert time.monotonic() - began < 4


def test_forks_beside_threads_that_start_a_server() -> None:
    out = python(
        """
    import confine, os, threading
    threads = [threading.Thread(target=lambda: confine.Client().version()) for _ in range(8)]
    for t in threads: t.start()
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if confine.Client().version() else 1)
        assert os.waitpid(pid, 0)[1] == 0
    for t in threads: t.join()
    print("done")
    """
    )
    assert out.stdout == "done\n", out.stderr
    assert "confine" not in out.stderr


def test_multiprocessing_by_fork() -> None:
    out = python(
        """
    import confine, multiprocessing
    def work(i):
        with confine.Sandbox() as box:
            return int(box.exec(["echo", str(i)]).stdout)
    def alone(queue):
        work(1)
        queue.put(confine._server._server.directory)
    if __name__ == "__main__":
        assert work(7) == 7
        with multiprocessing.get_context("fork").Pool(3) as pool:
            print(pool.map(work, range(6)))
        queue = multiprocessing.get_context("fork").SimpleQueue()
        process = multiprocessing.get_context("fork").Process(target=alone, args=(queue,))
        process.start()
        directory = queue.get()
        process.join()
        print(process.exitcode, confine._server.os.path.exists(directory))
    """
    )
    assert out.stdout == "[0, 1, 2, 3, 4, 5]\n0 False\n", out.stderr


def test_the_socket_is_of_its_owner_alone() -> None:
    need("linux")
    address = _server.address()
    assert stat.S_IMODE(os.stat(os.path.dirname(address)).st_mode) == 0o700
    assert _server.alive(address)


def test_a_temporary_directory_with_a_long_name(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    out = python(SAY, env={**os.environ, "TMPDIR": str(long), "XDG_RUNTIME_DIR": str(long)})
    assert out.stdout.split()[1].startswith("/tmp/"), out.stderr


def test_an_interrupt_of_the_terminal_is_not_the_servers() -> None:
    out = python(SAY + "    print(os.getsid(_server._server.process.pid) == os.getsid(0))\n")
    assert out.stdout.splitlines()[1] == "False"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_server_that_is_killed_in_the_middle(kind: str) -> None:
    out = python(
        f"""
    import asyncio, confine, os, signal, threading, time
    from confine import _server
    def kill():
        os.kill(_server._server.process.pid, signal.SIGKILL)
    def attempt(what):
        began = time.monotonic()
        try:
            what()
            print("nothing")
        except confine.ConfineError as e:
            print(type(e).__name__, time.monotonic() - began < 5)
    def blocking():
        client = confine.Client()
        box = client.sandbox()
        threading.Timer(0.3, kill).start()
        attempt(lambda: box.exec(["sleep", "60"]))
        attempt(lambda: box.exec(["true"]))
        attempt(lambda: box.files.read("/etc/passwd"))
        box.close()
        with client.sandbox() as box:
            print(box.exec(["echo", "again"]).stdout_text, end="")
            process = box.start(["cat"], stdin=True)
            kill()
            attempt(process.wait)
            attempt(lambda: process.write("x"))
            process.kill()
        threading.Timer(0.3, kill).start()
        attempt(lambda: client.run(["sleep", "60"]))
    async def awaited():
        client = confine.AsyncClient()
        box = await client.sandbox()
        asyncio.get_running_loop().call_later(0.3, kill)
        async def attempt(what):
            try:
                await what
                print("nothing")
            except confine.ConfineError as e:
                print(type(e).__name__, True)
        await attempt(box.exec(["sleep", "60"]))
        await attempt(box.exec(["true"]))
        await attempt(box.files.read("/etc/passwd"))
        await box.close()
        async with await client.sandbox() as box:
            print((await box.exec(["echo", "again"])).stdout_text, end="")
            process = await box.start(["cat"], stdin=True)
            kill()
            await attempt(process.wait())
            await attempt(process.write("x"))
            await process.kill()
        asyncio.get_running_loop().call_later(0.3, kill)
        await attempt(client.run(["sleep", "60"]))
    blocking() if {kind!r} == "sync" else asyncio.run(awaited())
    """
    )
    died = "ServerDied True"
    assert out.stdout.splitlines() == [died, died, died, "again", died, died, died], out.stderr


def test_a_program_that_is_no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need("linux")
    path = executable(
        tmp_path / "confine", '#!/bin/sh\n[ "$1" = version ] && echo \'{"version":"devel"}\' && exit\necho "no such luck" >&2\nexit 9\n'
    )
    out = python(
        "import confine\ntry: confine.Sandbox()\nexcept confine.ServerDied as e: print(e)", env={**os.environ, "CONFINE_BINARY": path}
    )
    assert "exit code 9: no such luck" in out.stdout, out.stderr


def test_two_servers_keep_their_snapshots_in_one_place(tmp_path: Path) -> None:
    need("linux")
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    script = """
    import confine, sys
    with confine.Sandbox() as box:
        for i in range(5):
            box.files.write("/tmp/x", f"{sys.argv[1]} {i}")
            box.snapshot(f"{sys.argv[1]}-{i}")
    """
    interpreters = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), str(n)], env=env, stderr=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    for interpreter in interpreters:
        _, err = interpreter.communicate(timeout=60)
        assert interpreter.returncode == 0, err
    out = python(
        """
    import confine
    with confine.Client() as client:
        print(len(client.snapshots()))
        for n in range(3):
            with client.sandbox(snapshot=f"{n}-4") as box:
                print(box.files.read("/tmp/x", "text"))
    """,
        env=env,
    )
    assert out.stdout.splitlines() == ["15", "0 4", "1 4", "2 4"], out.stderr


# Servers that answer otherwise than they should.

Answer = Callable[[socket.socket, bytes], None]


@contextlib.contextmanager
def fake(path: Path, answer: Answer) -> Iterator[str]:
    """A server that answers each connection's requests as it is told."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    connections: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := connection.recv(65536):
                answer(connection, request)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"unix:{path}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in connections:
            connection.close()


def reply(body: bytes, status: str = "200 OK", kind: str = "application/json", cut: int | None = None) -> bytes:
    whole = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    return whole[:cut]


def ended(call: Callable[[], Any], kind: type[BaseException]) -> BaseException:
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        call()
    assert time.monotonic() - began < 10
    return caught.value


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", confine.ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Le", confine.ConnectionLost),
        (reply(b'{"api":"v1"}', cut=-3), confine.ConnectionLost),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", confine.ConnectionLost),
        (b"x" * 100_000, confine.ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", confine.ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", confine.ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100, confine.ConnectionLost),
        (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a"', confine.ConnectionLost),
        (reply(b"[1]"), confine.ConnectionLost),
        (reply(b"not JSON"), confine.ConnectionLost),
        (reply(b"[" * 100_000), confine.ConnectionLost),
        (reply(b"oops", "500 Internal Server Error"), confine.ServerError),
        (reply(b'{"code":"QUOTA","detail":"enough"}', "429 Too Many"), confine.QuotaExceeded),
        (reply(b'{"code":"BUILD_FAILED","report":{"status":"SANDBOX_ERROR"}}', "422 No"), confine.BuildFailed),
        (reply(b'{"code":"CEILING","detail":"wider"}', "403 No"), confine.PolicyError),
    ],
)
def test_answers_that_are_none(tmp_path: Path, api: Any, answer: bytes, kind: type[confine.ConfineError]) -> None:
    def talk(connection: socket.socket, request: bytes) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        error = ended(client.version, kind)
        assert str(error)
        if isinstance(error, confine.BuildFailed):
            assert error.report == {"status": "SANDBOX_ERROR"}


def test_an_answer_that_does_not_come(tmp_path: Path, api: Any) -> None:
    with fake(tmp_path / "s", lambda *_: None) as url, api.client(url, request_timeout=0.3) as client:
        error = ended(client.version, confine.RequestTimeout)
        assert isinstance(error, TimeoutError)


def test_a_body_that_is_not_read(tmp_path: Path, api: Any) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    with listener, api.client(f"unix:{tmp_path}/s", request_timeout=0.3) as client:
        ended(lambda: client.upload_snapshot("a", b"x" * 10_000_000), confine.RequestTimeout)


def test_nobody_listens(tmp_path: Path, api: Any) -> None:
    with api.client(f"unix:{tmp_path}/s") as client:
        ended(client.version, confine.ConnectionLost)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with api.client(f"http://127.0.0.1:{unused.getsockname()[1]}") as client:
            ended(client.version, confine.ConnectionLost)
    with api.client("http://nowhere.invalid:80") as client, pytest.raises(confine.ConnectionLost, match=r"http://nowhere\.invalid:80"):
        client.version()


def test_a_queue_that_is_full(tmp_path: Path, api: Any) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(0)
    waiting = [socket.socket(socket.AF_UNIX)]
    with listener, contextlib.ExitStack() as stack:
        while True:
            stack.enter_context(waiting[-1])
            waiting[-1].setblocking(False)
            try:
                waiting[-1].connect(str(tmp_path / "s"))
            except BlockingIOError:
                break
            waiting.append(socket.socket(socket.AF_UNIX))
        with api.client(f"unix:{tmp_path}/s", request_timeout=0.3) as client:
            ended(client.version, confine.RequestTimeout)


def test_a_connection_that_was_closed_while_nobody_used_it(tmp_path: Path, api: Any) -> None:
    def talk(connection: socket.socket, request: bytes) -> None:
        connection.sendall(reply(b'{"api":"v1"}'))
        connection.shutdown(socket.SHUT_RDWR)

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        for _ in range(5):
            assert client.version() == {"api": "v1"}
            time.sleep(0.02)


def test_connections_are_kept(tmp_path: Path, api: Any) -> None:
    seen = set()

    def talk(connection: socket.socket, request: bytes) -> None:
        seen.add(connection.fileno())
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" + reply(b'{"api":"v1"}'))

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        for _ in range(5):
            client.version()
    assert len(seen) == 1


def frames(*docs: dict[str, Any]) -> bytes:
    lines = b"".join(json.dumps(doc).encode() + b"\n" for doc in docs)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n" % (len(lines), lines)


def test_a_stream_that_is_cut_again_and_again(tmp_path: Path, api: Any) -> None:
    asked = []

    def talk(connection: socket.socket, request: bytes) -> None:
        line = request.split(b"\r\n")[0].decode()
        asked.append(line)
        if line.startswith("POST /v1/sandboxes "):
            connection.sendall(reply(b'{"id":"box"}', "201 Created"))
        elif line.startswith("POST /v1/sandboxes/box/exec"):
            connection.sendall(
                frames(
                    {"seq": 1, "type": "started", "process": 3}, {"seq": 2, "type": "stdout", "data": "a"}, {"seq": 0, "type": "keepalive"}
                )
            )
            connection.shutdown(socket.SHUT_RDWR)
        elif "/output" in line:
            connection.sendall(frames({"seq": 2, "type": "stdout", "data": "a"}))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(reply(b"{}"))

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        box = client.sandbox()
        ended(lambda: box.exec(["x"]), confine.ConnectionLost)
        assert sum("processes/3/output?from=2&follow=1" in line for line in asked) == 3
        ended(lambda: list(box.events()), confine.ConnectionLost)
        ended(lambda: list(box.files.watch("/tmp")), confine.ConnectionLost)


def test_output_that_is_not_kept_any_more_is_told(tmp_path: Path, api: Any) -> None:
    def talk(connection: socket.socket, request: bytes) -> None:
        line = request.split(b"\r\n")[0].decode()
        if line.startswith("POST /v1/sandboxes "):
            connection.sendall(reply(b'{"id":"box"}', "201 Created"))
        elif line.startswith("POST /v1/sandboxes/box/exec"):
            connection.sendall(frames({"seq": 1, "type": "started", "process": 3}))
            connection.shutdown(socket.SHUT_RDWR)
        elif "from=1&" in line:
            connection.sendall(reply(b'{"code":"DROPPED"}', "410 Gone"))
        elif "from=0&" in line:
            connection.sendall(
                frames(
                    {"seq": 8, "type": "stdout", "b64": "/w=="},
                    {"seq": 9, "type": "exit", "process": 3, "report": {"status": "OK", "rc": 0}},
                )
                + b"0\r\n\r\n"
            )

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        result = client.sandbox().exec(["x"])
        assert (result.stdout, result.truncated, result.ok) == (b"\xff", True, True)


def test_a_line_without_end_is_refused(tmp_path: Path, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confine._wire.MAX_LINE", 100_000)

    def talk(connection: socket.socket, request: bytes) -> None:
        if request.startswith(b"POST /v1/sandboxes "):
            connection.sendall(reply(b'{"id":"box"}', "201 Created"))
        else:
            connection.sendall(frames({"seq": 1, "type": "started", "process": 3, "argv": ["x" * 200_000]})[:-100])

    with fake(tmp_path / "s", talk) as url, api.client(url) as client:
        box = client.sandbox()
        ended(lambda: box.start(["x"]), confine.TooLarge)


def test_a_token_and_tcp(tmp_path: Path, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    need("linux")
    token = tmp_path / "token"
    token.write_text("x" * 40 + "\n")
    token.chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [os.environ["CONFINE_BINARY"], "serve", "--until-eof", "--listen", f"127.0.0.1:{port}", "--token-file", str(token)],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        for name in ("127.0.0.1", "localhost"):
            with api.client(f"http://{name}:{port}", token="x" * 40) as client:
                for _ in range(200):
                    try:
                        client.version()
                        break
                    except confine.ConnectionLost:
                        time.sleep(0.02)
                with client.sandbox() as box:
                    assert box.exec(["echo", "hi"]).stdout == b"hi\n"
        with api.client(f"http://localhost:{port}") as client:
            ended(client.version, confine.ServerError)
        monkeypatch.setenv("CONFINE_TOKEN", "x" * 40)
        with api.client(f"http://localhost:{port}") as client:
            client.version()
        # Of a name, each address is tried; nobody listens at the first.
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with api.client(f"http://localhost:{port}") as client:
            client.version()
        del found[1]
        with api.client(f"http://localhost:{port}") as client, pytest.raises(confine.ConnectionLost, match=r"127\.0\.0\.2"):
            client.version()
    finally:
        server.communicate()


def test_errors_survive_a_copy() -> None:
    import copy
    import pickle

    error = confine.NotFound("gone", code="NOT_FOUND", status=404, hint="look")
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(other), other.code, other.status) == ("gone\nhint: look", "NOT_FOUND", 404)


def test_a_cancelled_read_takes_nothing(tmp_path: Path) -> None:
    def talk(connection: socket.socket, request: bytes) -> None:
        time.sleep(0.2)
        connection.sendall(reply(b'{"api":"v1"}'))

    async def main(url: str) -> None:
        async with confine.AsyncClient(url) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.version(), 0.05)
            assert await client.version() == {"api": "v1"}

    with fake(tmp_path / "s", talk) as url:
        asyncio.run(main(url))
