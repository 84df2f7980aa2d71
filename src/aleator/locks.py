"""Locks between processes: files that the system unlocks by itself when their process ends, also by a kill."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[bool]:
    """Inside, this process holds the lock of a file, or it holds nothing: the value says which.

    Several processes can hold a `shared` lock at once. It waits while a process holds the lock alone. The other kind does
    not wait. The file is empty, and is removed by a process that held it alone. Without file locks (Windows), every
    process gets the lock.
    """
    if importlib.util.find_spec("fcntl") is None:
        yield True
        return
    file = _open(path, shared)
    try:
        yield file is not None
    finally:
        if file is not None:
            if not shared:
                path.unlink(missing_ok=True)
            os.close(file)


def _open(path: Path, shared: bool) -> int | None:
    import fcntl

    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except FileNotFoundError:
            pass
        os.close(file)  # another process removed the file after it was opened: lock the one of that name
