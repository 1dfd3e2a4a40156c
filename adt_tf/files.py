"""Atomic writing of files, and safe reading.

    with atomic_write("run/best.keras") as partial:
        classifier.save(partial)
    write_text(path, text), read_text(path), sha256(path)

A file is written to a directory `.adt_tf-XXXXXXXX.partial` and then renamed.
`remove_leftovers` deletes such directories of killed processes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pathlib
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Systems other than Unix run without locks.
    fcntl = None  # type: ignore[assignment]

#: The format of the files that this version writes and reads.
FORMAT = 1
_PREFIX, _SUFFIX = ".adt_tf-", ".partial"
_LEFTOVER = re.compile(r"\.adt_tf-[a-z0-9_]{8}\.partial")
# Largest size in bytes of a file that is read as a whole.
_LARGEST = 256 << 20
# Errors of the disk that C++ libraries mention in the text of their own errors.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class DiskError(OSError):
    """An error of the disk, with a message of one line that names the file."""


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path for a file or directory that becomes `path`.

    The temporary path is in a new directory beside `path` with a random name.
    If the block ends without an error, its content is flushed to disk and
    renamed to `path`. Otherwise it is deleted, and `path` is unchanged. An
    error of the disk is raised as a `DiskError`.

    Args:
        path: Path of the file or directory to write.
    """
    path = pathlib.Path(path)
    parents = [path.parent, *path.parent.parents]
    try:
        new_parents = [parent for parent in parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _partial_directory(path.parent) as folder:
                yield folder / path.name
                sync_tree(folder)
                os.replace(folder / path.name, path)
        except BaseException:
            for parent in new_parents:
                with contextlib.suppress(OSError):
                    parent.rmdir()
            raise
        with contextlib.suppress(OSError):
            sync(path.parent)
    except Exception as error:
        reason = disk_error(error)
        if reason is None or isinstance(error, DiskError):
            raise
        raise DiskError(f"{path} could not be written: {reason}") from error


@contextlib.contextmanager
def _partial_directory(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """Creates a directory for the block, and holds its lock."""
    folder = tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _try_lock(descriptor)
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Takes the lock of a file without waiting; returns whether it could."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_leftovers(directory: pathlib.Path) -> None:
    """Deletes the partial files of killed processes in a directory.

    Call it only on directories that adt_tf has created. The files of a process
    that is still writing are locked, and stay.
    """
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if not _LEFTOVER.fullmatch(path.name):
            continue
        if path.is_symlink() or not path.is_dir():
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # Its process has just finished it.
        try:
            if _try_lock(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def is_leftover(path: pathlib.Path) -> bool:
    """Returns whether the name of a path is that of a partial file."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_tree(directory: pathlib.Path) -> None:
    """Deletes a directory atomically: it is renamed first."""
    # On a full disk, renaming works where creating a directory may not.
    name = f"{_PREFIX}{secrets.token_hex(4)}{_SUFFIX}"
    os.rename(directory, directory.with_name(name))
    shutil.rmtree(directory.with_name(name), ignore_errors=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file atomically, without changing line ends."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file atomically."""
    with atomic_write(path) as partial:
        partial.write_bytes(content)


def sync(path: str | os.PathLike) -> None:
    """Flushes a file, or the list of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: pathlib.Path) -> None:
    """Flushes a directory and all its content to disk."""
    for inside in [*path.rglob("*"), path]:
        sync(inside)


def is_taken(path: str | os.PathLike) -> bool:
    """Returns whether a path exists, including broken links.

    Raises `OSError` for an impossible path, such as a name that is too long.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Opens a file for reading; raises for a pipe, a device or a directory.

    Reading a pipe or a device might never end.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file, so it is not read.")
    return open(descriptor, "rb")


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_bytes(path: str | os.PathLike, *, largest: int = _LARGEST) -> bytes:
    """Reads a file; raises if it has more than `largest` bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(largest + 1) if size <= largest else b""
    if max(size, len(content)) > largest:
        raise ValueError(
            f"{path} is larger than {largest} bytes, so it is not read."
        )
    return content


def read_text(path: str | os.PathLike) -> str:
    """Reads a text file."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from error


def disk_error(error: BaseException) -> str | None:
    """Returns the system's message of a disk error, or None for others."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    for code in _DISK_ERRORS:
        if os.strerror(code) in str(error):
            return os.strerror(code)
    return None


def first_line(error: Exception) -> str:
    """Returns the first line of the message of an exception."""
    return (str(error).strip() or repr(error)).splitlines()[0]
