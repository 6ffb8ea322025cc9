"""A judge: runs submissions on tests, each run in a sandbox of its own, and says what came of them.

$ python judge.py
right       accepted
wrong       wrong answer on test 2
endless     time limit on test 1
greedy      memory limit on test 1
crashing    runtime error on test 2 (exit code 1)
curious     runtime error on test 1 (exit code 1)
"""

from __future__ import annotations

import confine

POLICY = {"profile": "strict", "memory_limit": "64M", "time_limit": "2s", "output_limit": "64K"}

# Numbers in, their sum out.
TESTS = [("1 2 3\n", "6"), ("10 -20\n", "-10"), ("5\n", "5")]

SUBMISSIONS = {
    "right": "print(sum(map(int, input().split())))",
    "wrong": "print(sum(abs(int(n)) for n in input().split()))",
    "endless": "while True: pass",
    "greedy": "print(len(bytearray(10**9)))",
    "crashing": "numbers = input().split(); assert '-20' not in numbers; print(sum(map(int, numbers)))",
    "curious": "print(open('/etc/shadow').read())",
}

VERDICTS = {"TIMEOUT": "time limit", "CPU_LIMIT": "time limit", "MEM_LIMIT": "memory limit"}


def judge(client: confine.Client, source: str) -> str:
    """The verdict on a submission."""
    for number, (given, expected) in enumerate(TESTS, 1):
        result = client.run(["python3", "-I", "main.py"], policy=POLICY, stdin=given, files={"main.py": source})
        if result.status in VERDICTS:
            return f"{VERDICTS[result.status]} on test {number}"
        if not result.ok:
            return f"runtime error on test {number} (exit code {result.rc})"
        if result.stdout_text.split() != expected.split():
            return f"wrong answer on test {number}"
    return "accepted"


def main() -> None:
    """Judges them all."""
    with confine.Client() as client:
        for name, source in SUBMISSIONS.items():
            print(f"{name:12}{judge(client, source)}")


if __name__ == "__main__":
    main()
