"""Locks between processes, which the system releases when a process ends.

with held(path):                     # raises if another process holds it
    ...
with held(directory, seconds=60):    # waits up to a minute for it
    ...
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import time
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Systems other than Unix run without locks.
    fcntl = None  # type: ignore[assignment]

_SECONDS_BETWEEN_TRIES = 0.05


class Locked(ValueError):
    """Signals that another process holds the lock."""


@contextlib.contextmanager
def held(path: pathlib.Path, *, seconds: float = 0.0) -> Iterator[None]:
    """Holds the lock of a file or a directory during the block.

    If the file system has no locks, the block runs without one.

    Args:
        path: Directory, or file. A file is created if it does not exist.
        seconds: Number of seconds to wait for another process before `Locked`
            is raised.
    """
    if fcntl is None:
        yield
        return
    flags = os.O_RDONLY
    if not path.is_dir():
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + seconds
        while not _take(descriptor):
            if time.monotonic() >= deadline:
                raise Locked(
                    f"Another process holds the lock of {path}, so nothing "
                    "was changed. Repeat the command when that process has "
                    "ended."
                )
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Takes the lock; returns False if another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
