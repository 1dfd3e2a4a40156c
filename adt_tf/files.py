"""Files that are either whole or not there.

    with atomic_write("run/best.keras") as partial:
        classifier.save(partial)
    write_text(path, text), read_text(path), sha256(path)

What a killed process leaves half written lies in a directory that is named
`.adt_tf-XXXXXXXX.partial`, which `remove_leftovers` recognises.
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
except ImportError:  # not a Unix: there two processes are not told apart
    fcntl = None

#: The format of the files that this version writes and reads.
FORMAT = 1
_PREFIX, _SUFFIX = ".adt_tf-", ".partial"
_LEFTOVER = re.compile(r"\.adt_tf-[a-z0-9_]{8}\.partial")
# Of a file that is read as a whole, in bytes.
_LARGEST = 256 << 20
# What libraries in C++ tell of a disk in the text of errors of their own.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class DiskError(OSError):
    """An error of the disk whose message names the file, in one line."""


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields where to write a file or a directory that then becomes `path`.

    That place is in a new directory beside `path`, whose random name nobody
    else has. If the block ends well, what was written is flushed to the disk
    and renamed. Otherwise it is removed, and `path` is as it was. An error of
    the disk is raised as a `DiskError`.
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
    """Makes a directory for the block, and holds its lock as long."""
    folder = tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _try_lock(descriptor)
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Whether the lock of a file could be taken, without waiting."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_leftovers(directory: pathlib.Path) -> None:
    """Removes what killed processes have left half written in a directory.

    Call it only on a directory that is the package's own. A process that is
    still writing holds a lock, and is not disturbed.
    """
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if not _LEFTOVER.fullmatch(path.name):
            continue
        if path.is_symlink() or not path.is_dir():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if _try_lock(descriptor):
                shutil.rmtree(path)
        finally:
            os.close(descriptor)


def is_leftover(path: pathlib.Path) -> bool:
    """Whether a path is named as what a killed process leaves."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_tree(directory: pathlib.Path) -> None:
    """Removes a directory; a killed process leaves it whole or not there."""
    # A full disk may have no room for another directory, but for a name.
    name = f"{_PREFIX}{secrets.token_hex(4)}{_SUFFIX}"
    os.rename(directory, directory.with_name(name))
    shutil.rmtree(directory.with_name(name), ignore_errors=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text file as it is, line ends included."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file, whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_bytes(content)


def sync(path: str | os.PathLike) -> None:
    """Waits until a file, or a directory's list, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: pathlib.Path) -> None:
    """Waits until a directory and all that is in it are on the disk."""
    for inside in [*path.rglob("*"), path]:
        sync(inside)


def is_taken(path: str | os.PathLike) -> bool:
    """Whether something lies at a path, be it a link that leads nowhere.

    Raises `OSError` where nothing can, such as for a name that is too long.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Opens a file to read it; refuses a pipe, a device or a directory.

    Those might have no end, or never answer.
    """
    # Without O_NONBLOCK a pipe that nobody writes is waited for.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is no regular file, so it is not read.")
    return open(descriptor, "rb")


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_bytes(path: str | os.PathLike, *, largest: int = _LARGEST) -> bytes:
    """Reads a file; refuses one that has more than `largest` bytes."""
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
        raise ValueError(f"{path} is no text file: {error}") from error


def disk_error(error: BaseException) -> str | None:
    """Returns what a disk refuses, in the system's words, or None."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    for code in _DISK_ERRORS:
        if os.strerror(code) in str(error):
            return os.strerror(code)
    return None


def first_line(error: Exception) -> str:
    """What an exception says, in one line."""
    return (str(error).strip() or repr(error)).splitlines()[0]
