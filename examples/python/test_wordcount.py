"""A suite that does what suites do: it writes where it stands, starts processes
and threads, and talks to a server of its own. Under --profile testing all of that
works, and nothing of it is left afterwards."""

import http.server
import os
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest

from wordcount import count

CONFINED = socket.gethostname() == "confine"


def test_counts():
    assert count("the cat and the dog") == {"the": 2, "cat": 1, "and": 1, "dog": 1}


def test_writes_beside_itself():
    path = os.path.join(os.path.dirname(__file__), "written-by-the-test.txt")
    with open(path, "w") as f:
        f.write("an overlay takes this\n")
    assert os.path.getsize(path) > 0
    if not CONFINED:
        os.remove(path)


def test_temporary_files(tmp_path):
    (tmp_path / "f").write_text("x")
    assert (tmp_path / "f").read_text() == "x"


def test_starts_processes():
    out = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    assert out.stdout == "42\n"


def test_server_on_loopback():
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen("http://127.0.0.1:%d/" % server.server_port) as answer:
        assert answer.status == 200
    server.shutdown()


@pytest.mark.skipif(not CONFINED, reason="only holds inside")
def test_nothing_else_is_reachable():
    with pytest.raises(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
