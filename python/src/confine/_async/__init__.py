"""The client. It is awaited in _async, its one source; in _sync, which buildsystem/unasync.py makes of that, its calls block."""
