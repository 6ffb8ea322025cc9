"""What nobody forks in the middle of: imports and starts of the private server.

A child would wait forever for the thread that imports, which it hasn't, and hold a pipe of the server that it doesn't know of.
It is here from the first import on: what a module registers while another thread forks already comes too late for that fork.

A fork takes the locks of those who registered last first. Imports for which this lock is held take the locks of logging and
concurrent.futures, too: these register before it, so that nobody who forks holds theirs while waiting for this one.
"""

import concurrent.futures.thread  # noqa: F401 # and with it logging
import os
from _thread import RLock

lock = RLock()


def _new() -> None:
    global lock
    lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: lock.acquire(), after_in_parent=lambda: lock.release(), after_in_child=_new)
