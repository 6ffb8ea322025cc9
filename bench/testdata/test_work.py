"""Work of the kind that test suites do: compute, parse, write small files."""

import json
import re
import sqlite3
import subprocess
import sys

import pytest


@pytest.mark.parametrize("n", range(120))
def test_computes(n):
    primes = [p for p in range(2, 2500) if all(p % d for d in range(2, int(p**0.5) + 1))]
    assert len(primes) == 367


@pytest.mark.parametrize("n", range(120))
def test_parses(n):
    text = json.dumps([{"key": i, "value": [str(i)] * 20} for i in range(800)])
    assert len(json.loads(text)) == 800
    assert len(re.findall(r'"(\d+)"', text)) == 16000


@pytest.mark.parametrize("n", range(120))
def test_writes(n, tmp_path):
    for i in range(60):
        (tmp_path / f"{i}.txt").write_text("line\n" * i)
    assert sum(len(p.read_text()) for p in tmp_path.iterdir()) == 5 * sum(range(60))


@pytest.mark.parametrize("n", range(20))
def test_queries(n, tmp_path):
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("create table t (a integer, b text)")
        db.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(5000)))
    assert db.execute("select sum(a) from t").fetchone() == (12497500,)


@pytest.mark.parametrize("n", range(20))
def test_starts_programs(n):
    out = subprocess.run([sys.executable, "-S", "-c", "print(1)"], capture_output=True, check=True)
    assert out.stdout == b"1\n"
