"""A workdir that a run has to itself, and that leads nowhere else.

claiming.claim("build/run", config)      # its flags.txt, or a refusal
with claiming.claimed("build/run", writes=True):
    ...                                  # train
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator

from adt_tf import files
from adt_tf.runs.config import FLAGS_FILE, Config

try:
    import fcntl
except ImportError:  # not a Unix: there two processes are not told apart
    fcntl = None

LOCK = ".lock"
# What a run adds to or deletes from, where it would follow a link.
_DIRECTORIES = ("checkpoints", "tensorboard")
_FILES = ("metrics.csv", LOCK)


def claim(workdir: str | pathlib.Path, config: Config) -> None:
    """Makes the workdir of a run and writes its flags; refuses another run's.

    Args:
        workdir: The directory.
        config: The run's.
    """
    path = pathlib.Path(workdir) / FLAGS_FILE
    if path.exists():
        ours = config.deciding_flags()
        theirs = Config.from_workdir(
            workdir, data_dir=config.data_dir
        ).deciding_flags()
        if ours != theirs:
            raise ValueError(
                f"{path} holds another configuration, so nothing was changed. "
                f"There, not here: {sorted(theirs - ours)}; here, not there: "
                f"{sorted(ours - theirs)}. Choose another --workdir."
            )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that was killed here has left its own part of a file.
    if not all(files.is_leftover(p) for p in path.parent.iterdir()):
        raise ValueError(
            f"{path.parent} is not empty and is no run's workdir, so nothing "
            "was changed. Choose another --workdir."
        )
    files.write_text(path, config.to_flags())


@contextlib.contextmanager
def claimed(workdir: pathlib.Path, *, writes: bool) -> Iterator[None]:
    """Keeps other processes out of a workdir inside the block.

    The system lets go of the lock when the process ends, however it does.
    Where the file system has no locks, the block is run without.

    Args:
        workdir: Is made where it is not there.
        writes: False for a process that reads what another one writes: it
            takes no lock.
    """
    _refuse_links(workdir)
    if not writes or fcntl is None:
        yield
        return
    workdir.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(workdir / LOCK, flags, 0o644)
    try:
        _lock(descriptor, workdir)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, workdir: pathlib.Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise ValueError(
                f"Another process is training in {workdir}, so nothing was "
                "changed. Wait until it has ended, or choose another "
                "--workdir."
            ) from error


def _refuse_links(workdir: pathlib.Path) -> None:
    directories = [workdir / name for name in _DIRECTORIES]
    inside = [
        path
        for directory in directories
        if directory.is_dir() and not directory.is_symlink()
        for path in directory.iterdir()
    ]
    plain_files = [workdir / name for name in _FILES]
    for path in [*directories, *plain_files, *inside]:
        if path.is_symlink():
            raise ValueError(
                f"{path} is a symbolic link, through which a run would write "
                "or delete elsewhere, so nothing was changed. Remove the "
                "link, or choose another --workdir."
            )
