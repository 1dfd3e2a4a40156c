"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping

import numpy as np

try:
    import fcntl
except ImportError:  # not a Unix: there two processes are not told apart
    fcntl = None


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes beside, then renames: a killed process leaves no broken file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.parent):
        partial = beside(path)
        partial.write_text(text, encoding="utf-8")
        sync(partial)
        os.replace(partial, path)


@contextlib.contextmanager
def _alone(directory: pathlib.Path) -> Iterator[None]:
    """Waits for other processes that write into the directory.

    Where the file system has no locks, the block is run without.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def sync(path: str | os.PathLike) -> None:
    """Waits until a file, or a directory's list, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def beside(path: pathlib.Path) -> pathlib.Path:
    """Where to write before renaming; nothing lies there.

    A link that somebody left there could lead out of the directory.
    """
    partial = path.with_name(f"partial-{path.name}")
    partial.unlink(missing_ok=True)
    return partial


def write_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes named arrays as .npz, beside, then renames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = beside(path)
    np.savez(partial, **arrays)
    os.replace(partial, path)


def read_arrays(path: pathlib.Path) -> dict[str, np.ndarray] | None:
    """Reads what `write_arrays` wrote; None where it is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        AttributeError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        return None


def read_text(path: pathlib.Path) -> str:
    """Reads a file, and names it where it is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text file: {error}") from error


def disk_error(error: BaseException) -> str | None:
    """What a disk refuses, in the system's words, or None if it is not that.

    Libraries in C++ tell it in the text of errors of their own.
    """
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        if os.strerror(code) in str(error):
            return os.strerror(code)
    return None


def first_line(error: Exception) -> str:
    """What an exception says, in one line."""
    return (str(error).strip() or repr(error)).splitlines()[0]
