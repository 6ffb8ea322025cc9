"""The client, whose calls block. Made by scripts/unasync.py of confine/_async: change that."""
