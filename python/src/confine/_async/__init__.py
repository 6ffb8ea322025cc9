"""The client, to be awaited: the one source of truth. confine/_sync is made from it by scripts/unasync.py."""
