"""The client against the real server, awaited and not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import signal
import tarfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import confine
from conftest import at_once, need


def running(box: Any) -> list[int]:
    """The processes that run; those that were killed get a while to end."""
    for _ in range(100):
        left = [p["process"] for p in box.processes() if p["state"] == "running"]
        if not left:
            break
        time.sleep(0.02)
    return left


# Processes.


def test_a_result_has_the_streams_and_the_report(box: Any) -> None:
    result = box.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (result.stdout, result.stderr, result.rc, result.status) == (b"out\n", b"err\n", 3, "FAILED")
    assert (result.stdout_text, result.stderr_text, result.ok, result.signal) == ("out\n", "err\n", False, None)
    assert result.reason == "exited 3"
    assert result.report["enforced"]["network"]["effective"] is True
    assert result.sandbox == box.id
    assert result.denials == []


def test_check_raises_what_has_the_result(box: Any) -> None:
    with pytest.raises(confine.ProcessFailed, match="exited 3\nwhy") as caught:
        box.exec(["sh", "-c", "echo why >&2; exit 3"], check=True)
    assert caught.value.result.rc == 3
    assert box.exec(["true"], check=True).ok


def test_a_signal_and_a_time_limit_are_told(box: Any) -> None:
    killed = box.exec(["sh", "-c", "kill -SEGV $$"])
    assert (killed.status, killed.signal) == ("KILLED_SIGNAL", "SIGSEGV")
    late = box.exec(["sleep", "60"], time_limit=0.2)
    assert late.status == "TIMEOUT"
    assert late.rc == 124
    assert box.exec(["sleep", "60"], time_limit=timedelta(seconds=0.2)).status == "TIMEOUT"
    assert box.exec(["sleep", "60"], time_limit="200ms").status == "TIMEOUT"
    assert box.exec(["sh", "-c", "while :; do :; done"], cpu_time=0.3, time_limit=30).status == "CPU_LIMIT"
    assert box.exec(["true"]).ok


def test_environment_directory_and_input(box: Any) -> None:
    result = box.exec(["sh", "-c", 'echo "$X" "$PWD"; cat'], env={"X": "é 1"}, dir="/usr", stdin=b"\xff\0end")
    assert result.stdout == "é 1 /usr\n".encode() + b"\xff\0end"
    assert box.exec(["cat"], stdin="text é").stdout_text == "text é"
    with pytest.raises(confine.TooLarge, match="write"):
        box.exec(["cat"], stdin=bytes(16 << 20 | 1))
    assert box.exec(["wc", "-c"], stdin=b"\xff" * (16 << 20)).stdout_text == "16777216\n"
    assert box.exec(["cat"]).stdout == b""


def test_octets_come_as_they_were_written(box: Any) -> None:
    script = "import os; os.write(1, bytes(range(256)) * 300)"
    assert box.exec(["python3", "-c", script]).stdout == bytes(range(256)) * 300


def test_callbacks_get_what_is_written(box: Any) -> None:
    out: list[bytes] = []
    err: list[bytes] = []
    box.exec(["sh", "-c", "echo a; echo b >&2; sleep 0.1; echo c"], on_stdout=out.append, on_stderr=err.append)
    assert b"".join(out) == b"a\nc\n"
    assert b"".join(err) == b"b\n"


def test_a_callback_that_raises_ends_the_process(box: Any) -> None:
    def refuse(data: bytes) -> None:
        raise KeyError(data)

    with pytest.raises(KeyError):
        box.exec(["sh", "-c", "echo a; sleep 60"], on_stdout=refuse)
    assert running(box) == []


def test_output_without_end_is_bounded(api: Any, client: Any) -> None:
    with client.sandbox({"profile": "standard", "output_limit": "none"}) as box:
        result = box.exec(["sh", "-c", "head -c 20000000 /dev/zero"])
        assert result.truncated
        assert len(result.stdout) == 8 << 20
        assert not box.exec(["echo"]).truncated
    with client.sandbox({"profile": "standard", "output_limit": "1K"}) as box:
        result = box.exec(["sh", "-c", "head -c 20000 /dev/zero"])
        assert result.truncated
        assert result.stdout.endswith(b"[TRUNCATED]\n")
    assert client.run(["sh", "-c", "head -c 20000 /dev/zero"], policy={"profile": "standard", "output_limit": "1K"}).truncated


def test_frames_come_as_they_happen(box: Any) -> None:
    process = box.start(["sh", "-c", "echo one; read line; echo $line"], stdin=True)
    frames = iter(process)
    assert process.number > 0
    first = next(f for f in frames if f.type == "stdout")
    assert first.data == b"one\n"
    process.write("two\n")
    rest = list(frames)
    assert [f.data for f in rest if f.type == "stdout"] == [b"two\n"]
    assert rest[-1].type == "exit"
    assert process.result.stdout == b"one\ntwo\n"
    assert process.wait() == process.result


def test_one_stream_alone(box: Any) -> None:
    process = box.start(["sh", "-c", "echo a; echo b >&2; echo c"])
    assert b"".join(process.stdout) == b"a\nc\n"
    assert process.wait().stderr == b"b\n"
    assert b"".join(box.start(["sh", "-c", "echo a; echo b >&2"]).stderr) == b"b\n"


def test_input_ends_when_it_is_closed(box: Any) -> None:
    process = box.start(["cat"], stdin=True)
    process.write(b"x" * 200_000)
    process.close_stdin()
    process.close_stdin()
    assert process.wait().stdout == b"x" * 200_000
    with pytest.raises(confine.Conflict):
        process.write(b"more")


def test_signals(box: Any) -> None:
    process = box.start(["sh", "-c", "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done"])
    assert next(iter(process.stdout)) == b"ready\n"
    process.signal("SIGTERM")
    assert (process.wait().rc, process.result.stdout) == (5, b"ready\nterm\n")
    with pytest.raises(confine.Conflict):
        process.signal(15)
    process.kill()
    process = box.start(["sleep", "60"])
    process.kill()
    process.kill()
    assert process.wait().signal == "SIGKILL"
    with box.start(["sleep", "60"]) as process:
        assert "running" in repr(process)
    assert running(box) == []


def test_a_terminal(box: Any) -> None:
    process = box.start(["sh", "-c", "stty size; read x; stty size"], tty=(10, 20))
    assert next(iter(process.stdout)).strip() == b"10 20"
    process.resize(30, 40)
    process.write("\n")
    assert b"30 40" in process.wait().stdout


def test_a_cut_stream_goes_on_where_it_was(box: Any) -> None:
    process = box.start(["sh", "-c", "echo a; read x; echo b"], stdin=True)
    frames = iter(process)
    assert next(f for f in frames if f.type == "stdout").data == b"a\n"
    inner = getattr(process, "target", process)
    inner._call.stream._sock.shutdown(2)
    process.write("\n")
    assert process.wait().stdout == b"a\nb\n"
    assert not process.result.truncated


def test_wrong_types_are_refused_before_anything_is_sent(box: Any, client: Any) -> None:
    for wrong in ("ls -l", b"ls", 7, None, [b"ls"], ["ls", 7], [None]):
        with pytest.raises(TypeError):
            box.exec(wrong)
    with pytest.raises(ValueError, match="a word at least"):
        box.exec([])
    for words in (
        {"env": [("A", "b")]},
        {"env": {"A": 1}},
        {"stdin": 7},
        {"time_limit": True},
        {"time_limit": []},
        {"output_limit": "1M"},
        {"dir": 7},
    ):
        with pytest.raises(TypeError):
            box.exec(["true"], **words)
    for tty in ("x", (1,), (1, "2"), 7, [True, 1]):
        with pytest.raises(TypeError):
            box.start(["true"], tty=tty)
    with pytest.raises(ValueError, match="terminal"):
        box.start(["true"], tty=(-1, 5))
    with pytest.raises(TypeError):
        box.exec(["true"], on_stdout=7)
    for limit in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="time"):
            box.exec(["true"], time_limit=limit)
    with pytest.raises(UnicodeEncodeError):
        box.exec(["echo", "\udcff"])
    for policy in (7, ["strict"], {7: "x"}):
        with pytest.raises(TypeError):
            client.sandbox(policy)
    for labels in ({"a": 1}, "a=b"):
        with pytest.raises(TypeError):
            client.sandbox(labels=labels)
    with pytest.raises(TypeError):
        client.sandbox({"profile": object()})
    with pytest.raises(TypeError):
        client.run(["true"], collect="/tmp/x")
    with pytest.raises(TypeError):
        client.run(["true"], files=["x"])
    with box.start(["true"]) as process, pytest.raises(TypeError):
        process.signal(None)


def test_what_the_server_refuses_is_typed(box: Any, client: Any) -> None:
    with pytest.raises(confine.PolicyError, match="profil") as caught:
        client.sandbox({"profil": "strict"})
    assert caught.value.code == "POLICY"
    assert caught.value.status == 422
    assert "hint:" in str(caught.value)
    with pytest.raises(confine.PolicyError):
        client.sandbox({"memory_limit": "lots"})
    with pytest.raises(confine.PolicyError):
        client.sandbox("no such profile")
    with pytest.raises(confine.NotFound):
        client.connect("nobody")
    for wrong in ("", "..", "."):
        with pytest.raises(ValueError, match="id is a name"):
            client.connect(wrong)
    with pytest.raises(confine.ServerError):
        box.exec(["true"], env={"A=B": "c"})
    with pytest.raises(confine.ServerError):
        box.exec(["a\0b"])


# Sandboxes.


def test_a_sandbox_by_itself(api: Any) -> None:
    with api.sandbox("strict") as box:
        assert box.exec(["echo", "hi"]).stdout == b"hi\n"
        assert box.id in repr(box)
        assert box.open() is not None
    box.close()
    box.kill()
    with pytest.raises(confine.SandboxEnded) as caught:
        box.exec(["true"])
    assert caught.value.cause == "closed"
    with pytest.raises(confine.SandboxEnded):
        box.open()


def test_a_sandbox_that_cannot_be_made_leaves_nothing(api: Any) -> None:
    with pytest.raises(confine.PolicyError):
        api.sandbox({"nonsense": 1})


def test_a_sandbox_is_found_by_its_name(client: Any) -> None:
    with client.sandbox(name="found", labels={"who": "me"}, lifetime=60, idle_timeout="30s") as box:
        assert client.connect("found").id == box.id
        assert [b["id"] for b in client.sandboxes(state="running", labels={"who": "me"})] == [box.id]
        with pytest.raises(confine.Conflict):
            client.sandbox(name="found")
        box.change(lifetime=90, labels={"who": "you"})
        assert box.status()["labels"] == {"who": "you"}
        assert box.usage().keys() >= {"cpu", "memory", "tasks", "scratch"}


def test_an_end_has_its_cause(client: Any) -> None:
    box = client.sandbox(lifetime=0.3)
    box.exec(["sleep", "60"])
    with pytest.raises(confine.SandboxEnded) as caught:
        box.exec(["true"])
    assert caught.value.cause == "lifetime"
    assert caught.value.code == "ENDED"
    box.close()


def test_another_client_ends_it(client: Any) -> None:
    box = client.sandbox()
    client.connect(box.id).close()
    with pytest.raises(confine.SandboxEnded) as caught:
        box.files.read("/etc/passwd")
    assert caught.value.cause == "closed"
    box.close()


def test_events_end_with_the_sandbox(client: Any) -> None:
    box = client.sandbox()
    box.exec(["true"])
    assert [f.type for f in box.events(follow=False)] == ["started", "exit"]
    events = box.events()
    first = next(iter(events))
    box.close()
    assert [first.type, *(f.type for f in events)] == ["started", "exit", "ended"]


def test_events_are_followed(client: Any) -> None:
    box = client.sandbox(lifetime=0.5)
    box.exec(["true"])
    assert [f.type for f in box.events(start=1)] == ["exit", "ended"]


def test_snapshot_restore_and_fork(box: Any, client: Any) -> None:
    name = f"before-{box.id}"
    box.files.write("/tmp/x", "one")
    snapshot = box.snapshot(name)
    assert snapshot.names == (name,)
    try:
        assert snapshot.id in [s.id for s in client.snapshots()]
        box.files.write("/tmp/x", "two")
        first, second = box.fork(2)
        with first, second:
            assert first.files.read("/tmp/x") == b"two"
            first.files.write("/tmp/x", "three")
            assert second.files.read("/tmp/x") == b"two"
        box.restore(snapshot)
        assert box.files.read("/tmp/x", "text") == "one"
        with client.sandbox("standard", snapshot=name) as other:
            assert other.files.read("/tmp/x") == b"one"
        bundle = b"".join(client.download_snapshot(snapshot))
        client.remove_snapshot(name)
        client.upload_snapshot(snapshot.id, bundle)
        client.remove_snapshot(snapshot)
        with pytest.raises(confine.NotFound):
            client.download_snapshot(snapshot)
        with pytest.raises(TypeError):
            box.restore(7)
        with pytest.raises(TypeError):
            box.fork("2")
    finally:
        if snapshot.id in [s.id for s in client.snapshots()]:
            client.remove_snapshot(snapshot)


def test_diff_and_apply(client: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old\n")
    with client.sandbox({"profile": "standard", "workdir": "overlay"}, dir=tmp_path) as box:
        box.exec(["sh", "-c", "echo new >a"], check=True)
        assert "+new" in box.diff(format="patch")
        assert box.diff(format="names").split()[-1].endswith("a")
        assert box.diff(str(tmp_path / "a"))
        assert box.apply(dry_run=True)["applied"] == 1
        assert (tmp_path / "a").read_text() == "old\n"
        box.apply(str(tmp_path / "a"))
        with pytest.raises(ValueError, match="format"):
            box.diff(format="xml")
    assert (tmp_path / "a").read_text() == "new\n"


def test_the_network_changes(client: Any) -> None:
    with client.sandbox({"profile": "standard", "allow_network": ["*"], "deny_network": ["*"]}) as box:
        box.network(allow_network=["example.org:443"], deny_network=[])
        assert box.info["network"]["allow_network"] == ["example.org:443"]
        with pytest.raises(confine.PolicyError):
            box.network(publish=["80"])


# Files.


def test_files(box: Any) -> None:
    files = box.files
    files.write("/tmp/d/a b?#%é", b"\xff\0", mode=0o600)
    assert files.read("/tmp/d/a b?#%é") == b"\xff\0"
    entry = files.stat("/tmp/d/a b?#%é")
    assert (entry.name, entry.type, entry.size, entry.mode) == ("a b?#%é", "file", 2, 0o600)
    files.write("/tmp/d/text", "é")
    assert files.read("/tmp/d/text", "text") == "é"
    files.write("/tmp/d/parts", iter([b"a", b"", b"b" * 100_000]))
    assert b"".join(files.read("/tmp/d/parts", "stream")) == b"a" + b"b" * 100_000
    files.write("/tmp/d/empty", b"")
    assert files.read("/tmp/d/empty") == b""
    assert sorted(e.name for e in files.list("/tmp/d")) == ["a b?#%é", "empty", "parts", "text"]
    files.make_dir("/tmp/d/e", mode=0o700)
    with pytest.raises(confine.ServerError):
        files.make_dir("/tmp/d/e")
    files.make_dir("/tmp/d/e/f/g", exist_ok=True)
    files.make_dir("/tmp/d/e/f/g", exist_ok=True, mode=0o755)
    files.symlink("text", "/tmp/d/link")
    link = files.stat("/tmp/d/link")
    assert (link.type, link.target, link.leads_to) == ("link", "text", "file")
    files.rename("/tmp/d/text", Path("/tmp/d/new"))
    files.chmod("/tmp/d/new", 0o640)
    assert files.stat("/tmp/d/new").mode == 0o640
    assert not files.exists("/tmp/d/text")
    assert files.exists("/tmp/d/link")
    with pytest.raises(confine.ServerError):
        files.remove("/tmp/d/e")
    files.remove("/tmp/d", recursive=True)
    with pytest.raises(confine.NotFound):
        files.read("/tmp/d/new")


def test_names_and_data_that_are_none(box: Any) -> None:
    for name in ("relative", "/a/../b", "/a\0b"):
        with pytest.raises(ValueError):  # noqa: PT011
            box.files.read(name)
    with pytest.raises(TypeError):
        box.files.read(7)
    with pytest.raises(TypeError):
        box.files.write("/tmp/x", 7)
    with pytest.raises(TypeError):
        box.files.upload("/tmp", "text")
    with pytest.raises(ValueError, match="format"):
        box.files.read("/tmp/x", "xml")
    with pytest.raises(ValueError, match="0o777"):
        box.files.chmod("/tmp/x", 0o4755)
    with pytest.raises(TypeError):
        box.files.chmod("/tmp/x", "0644")


def test_a_file_that_is_too_large_is_not_read(box: Any) -> None:
    box.files.write("/tmp/large", b"x" * 3_000_000)
    with pytest.raises(confine.TooLarge):
        box.files.read("/tmp/large", limit=1_000_000)
    assert len(box.files.read("/tmp/large", limit=3_000_000)) == 3_000_000


def test_tars_both_ways(box: Any) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        info = tarfile.TarInfo("sub/file")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    box.files.make_dir("/tmp/t")
    box.files.upload("/tmp/t", data.getvalue())
    box.files.upload("/tmp/t", iter([data.getvalue()]))
    box.files.upload("/tmp/t", bytearray(data.getvalue()))
    assert box.files.read("/tmp/t/sub/file") == b"hello"
    with tarfile.open(fileobj=io.BytesIO(b"".join(box.files.download("/tmp/t")))) as tar:
        assert any(name.endswith("sub/file") for name in tar.getnames())


def test_watching(box: Any) -> None:
    box.files.make_dir("/tmp/w")
    events = box.files.watch("/tmp/w", deep=True)
    box.files.write("/tmp/w/x", b"1")
    assert next(iter(events)).name == "x"
    box.files.remove("/tmp/w", recursive=True)
    ops = [(e.op, e.name) for e in events]
    assert ("remove", "x") in ops
    with pytest.raises(confine.NotFound):
        box.files.watch("/tmp/w")


# Runs, and the client itself.


def test_run(client: Any, tmp_path: Path) -> None:
    result = client.run(
        ["sh", "-c", "cat in; cat; echo done >out; exit 4"],
        policy={"profile": "standard", "workdir": "overlay"},
        dir=tmp_path,
        stdin=b"\xfe",
        files={"in": b"\xff"},
        collect=["out", "none"],
        time_limit=30,
    )
    assert (result.rc, result.stdout, result.files) == (4, b"\xff\xfe", {"out": b"done\n"})
    assert "none" in result.missing
    with pytest.raises(confine.ProcessFailed):
        client.run(["false"], check=True)


def test_versions(client: Any) -> None:
    assert client.version()["api"] == "v1"


def test_a_closed_client_says_so(api: Any) -> None:
    client = api.client()
    client.version()
    client.close()
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.version()
    with api.client() as client:
        assert "private" in repr(client)


@pytest.mark.parametrize(
    "url", ["", "x", "unix:relative", "https://host:1", "http://host", "http://h:99999", "http://u@h:1", "http://h:1/path"]
)
def test_addresses_that_are_none(api: Any, url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        api.client(url)


def test_a_place_that_is_full(api: Any) -> None:
    with api.client() as client, client.sandbox({"mount": ["tmpfs:/small:65536"]}) as box:
        box.files.write("/small/a", b"x" * 1000)
        with pytest.raises(confine.StorageFull, match=r"(?s)no space left.*hint: ") as caught:
            box.files.write("/small/b", b"x" * 1_000_000)
        assert (caught.value.status, caught.value.code) == (507, "FILE")


def test_words_that_are_none(api: Any) -> None:
    with pytest.raises(TypeError):
        api.client(7)
    with pytest.raises(ValueError, match="token"):
        api.client("http://localhost:1", token="a\nb")
    with pytest.raises(ValueError, match="request_timeout"):
        api.client(request_timeout=0)
    with pytest.raises(TypeError):
        api.client(request_timeout="1s")


def test_the_variable_names_the_server(api: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONFINE_URL", f"unix:{tmp_path}/none")
    with pytest.raises(confine.ConnectionLost):
        api.client().version()


def test_a_cancelled_task_ends_its_process() -> None:
    async def main() -> None:
        async with confine.AsyncSandbox() as box:
            for delay in (0, 0.001, 0.003, 0.01, 0.2):
                began = time.monotonic()
                task = asyncio.create_task(box.exec(["sleep", "60"]))
                await asyncio.sleep(delay)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert time.monotonic() - began < 3
            for _ in range(100):
                if not [p for p in await box.processes() if p["state"] == "running"]:
                    break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("a process goes on")

    asyncio.run(main())


def test_a_cancelled_opening_leaves_no_sandbox() -> None:
    async def main() -> None:
        async with confine.AsyncClient() as client:
            before = len(await client.sandboxes(state="running"))
            for delay in (0, 0.001, 0.005, 0.02):
                task = asyncio.create_task(client.sandbox())
                await asyncio.sleep(delay)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).close()
            for _ in range(100):
                if len(await client.sandboxes(state="running")) == before:
                    return
                await asyncio.sleep(0.02)
            pytest.fail("a sandbox goes on")

    asyncio.run(main())


def test_waiting_can_be_taken_up_again_after_it_was_cancelled() -> None:
    async def main() -> None:
        async with confine.AsyncSandbox() as box:
            process = await box.start(["sh", "-c", "echo a; read x; echo b"], stdin=True)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 0.3)
            await process.write("\n")
            assert (await process.wait()).stdout == b"a\nb\n"

    asyncio.run(main())


def test_a_loop_that_is_closed_is_no_end_of_the_client() -> None:
    client = confine.AsyncClient()
    box = asyncio.run(client.sandbox())
    assert asyncio.run(box.exec(["echo", "1"])).stdout == b"1\n"
    assert asyncio.run(box.exec(["echo", "2"])).stdout == b"2\n"
    asyncio.run(box.close())
    client.close_now()


def test_a_sandbox_that_was_never_opened_says_so() -> None:
    box = confine.AsyncSandbox()
    with pytest.raises(ValueError, match="not open"):
        asyncio.run(box.exec(["true"]))
    asyncio.run(box.close())


def test_many_tasks_use_one_client() -> None:
    async def main() -> None:
        async with confine.AsyncSandbox("standard") as box:
            results = await asyncio.gather(*(box.exec(["echo", str(i)]) for i in range(400)))
            assert [int(r.stdout) for r in results] == list(range(400))

    asyncio.run(main())


def test_a_hundred_threads_use_one_client() -> None:
    with confine.Client() as client, client.sandbox("standard") as box:
        assert at_once(100, lambda i: int(box.exec(["echo", str(i)]).stdout)) == list(range(100))


def test_an_interrupt_ends_the_process() -> None:
    with confine.Sandbox() as box:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            box.exec(["sleep", "60"])
        timer.join()
        assert running(box) == []


def test_a_process_may_say_nothing_for_longer_than_the_server(api: Any) -> None:
    with api.client(request_timeout=0.5) as client, client.sandbox() as box:
        assert box.exec(["sleep", "1.5"]).ok


def test_a_limit_of_the_sandbox_is_what_ended_it(client: Any) -> None:
    need("program:python3")
    with client.sandbox({"profile": "standard", "memory_limit": "64M"}) as box:
        assert box.exec(["python3", "-c", "x = bytearray(300 << 20)"]).status == "MEM_LIMIT"
        with pytest.raises(confine.SandboxEnded) as caught:
            box.exec(["true"])
        assert caught.value.cause.startswith("memory")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed_in_the_middle() -> None:
    client = confine.AsyncClient()
    loop = asyncio.new_event_loop()
    box = loop.run_until_complete(client.sandbox())
    task = loop.create_task(box.exec(["sleep", "60"]))
    loop.run_until_complete(asyncio.sleep(0.1))
    loop.close()
    del task
    gc.collect()
    assert asyncio.run(box.exec(["echo", "on"])).stdout == b"on\n"
    asyncio.run(box.close())
    client.close_now()


def test_a_client_that_is_none() -> None:
    with pytest.raises(TypeError, match="client"):
        confine.Sandbox(client="unix:/x")  # type: ignore[arg-type]


def test_paths_in_a_policy(client: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("seen")
    with client.sandbox({"profile": "standard", "allow_read": [tmp_path]}) as box:
        assert box.exec(["cat", tmp_path / "x"]).stdout == b"seen"
