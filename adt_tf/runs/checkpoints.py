"""Checkpoints that are written atomically and verified when they are read.

    store = Checkpoints("run/checkpoints", trainer.checkpoint(), milestone=20)
    record = store.restore()                # the newest whole one, or None
    store.save(step=137, record={"metrics": [...]})

A checkpoint is a directory such as `step-00000137` with TensorFlow's files and
`record.json`, which holds the caller's record and the SHA-256 of each file. It
is written by `files.atomic_write`, so that a killed process or a full disk
leaves the previous checkpoint intact. A damaged checkpoint is renamed to
`damaged-step-00000137` and ignored.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
from typing import Any

import tensorflow as tf

from adt_tf import files
from adt_tf.json_files import Each, Maybe, read_json, write_json

_NAME = re.compile(r"(?:rollback-(\d+)-)?step-(\d+)")
_RECORD = "record.json"
_DAMAGED = "damaged-"
_SCHEMA = {"step": int, "metrics": Maybe([object]), "sha256": Each(str)}


class SaveError(files.DiskError):
    """Signals that a checkpoint cannot be written."""


class Checkpoints:
    """The checkpoints of a run.

    They are ordered by the number of rollbacks, then by the number of steps.

    Args:
        directory: Directory of the checkpoints. It is created when needed.
        state: Objects to save.
        keep: Number of checkpoints to keep.
        milestone: A checkpoint at a multiple of this number of steps is a
            milestone. The newest one is kept as well, for
            `restore(milestone=True)`.
        writes: Whether this process writes checkpoints. If False, it only
            reads those of another process.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        state: tf.train.Checkpoint,
        *,
        keep: int = 2,
        milestone: int = 1,
        writes: bool = True,
    ):
        self.directory = pathlib.Path(directory)
        self.state = state
        self.keep = keep
        self.milestone = milestone
        self.writes = writes
        if writes:
            files.remove_leftovers(self.directory)

    def save(
        self, *, step: int, rollbacks: int = 0, record: dict[str, Any]
    ) -> None:
        """Writes a checkpoint, and deletes those that are too old.

        Raises `SaveError` if it fails; earlier checkpoints are then unchanged.

        Args:
            step: Number of steps taken.
            rollbacks: Number of rollbacks before this step.
            record: Plain data to store with the checkpoint.
        """
        if not self.writes:
            return
        name = f"step-{step:08d}"
        if rollbacks:
            name = f"rollback-{rollbacks}-{name}"
        path = self.directory / name
        if not self.directory.parent.is_dir():
            raise SaveError(
                f"{self.directory.parent} was moved or removed, so the state "
                f"after step {step} cannot be saved there. Repeat the command "
                "with the new path as --workdir."
            )
        try:
            with files.atomic_write(path) as partial:
                self._write(partial, record)
                if path.exists():
                    files.remove_tree(path)
        except (OSError, tf.errors.OpError) as error:
            paths = self._paths()
            before = "No state was saved yet"
            if paths:
                before = f"{paths[-1]} is kept"
            reason = files.disk_error(error) or files.first_line(error)
            raise SaveError(
                f"The state after step {step} could not be saved in "
                f"{self.directory}: {reason}. {before}; free some space, then "
                "repeat the command."
            ) from error
        self._drop_old(path)

    def restore(self, *, milestone: bool = False) -> dict[str, Any] | None:
        """Restores the newest intact checkpoint, and returns its record.

        Renames damaged checkpoints, with a warning. Returns None if there are
        no checkpoints.

        Args:
            milestone: Whether to prefer milestones. Another checkpoint is used
                only if no milestone is intact.
        """
        paths = self._paths()[::-1]
        if milestone:
            paths.sort(key=lambda path: not self._is_milestone(path))
        damaged = []
        for path in paths:
            record = _checked(path)
            if record is None:
                damaged.append(path)
                continue
            self._read(path)
            for other in damaged:
                self._set_aside(other)
            if milestone and not self._is_milestone(path):
                print(
                    "warning: No checkpoint of an epoch's end is intact, so "
                    f"{path} is used.",
                    file=sys.stderr,
                )
            return record
        if paths:
            raise ValueError(
                f"All checkpoints in {self.directory} are damaged, so nothing "
                "was changed. Choose another --workdir to start anew."
            )
        if (self.directory / "checkpoint").exists():
            raise ValueError(
                f"{self.directory} was written by an earlier version of "
                "adt_tf, which this version does not read, so nothing was "
                "changed. Choose another --workdir."
            )
        return None

    def _read(self, path: pathlib.Path) -> None:
        try:
            self.state.read(str(path / "state")).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                f"{path} is intact, but holds the state of another training "
                "run or version, so nothing was changed. Choose another "
                "--workdir."
            ) from error

    def _write(self, path: pathlib.Path, record: dict[str, Any]) -> None:
        path.mkdir()
        self.state.write(str(path / "state"))
        hashes = {f.name: files.sha256(f) for f in sorted(path.iterdir())}
        write_json(path / _RECORD, {**record, "sha256": hashes})
        # An older checkpoint of the same step is deleted after this.
        files.sync_tree(path)

    def _paths(self) -> list[pathlib.Path]:
        """Returns the paths of all checkpoints, oldest first."""
        paths = self.directory.glob("*step-*")
        return sorted((p for p in paths if _NAME.fullmatch(p.name)), key=_key)

    def _is_milestone(self, path: pathlib.Path) -> bool:
        return _key(path)[1] % self.milestone == 0

    def _drop_old(self, saved: pathlib.Path) -> None:
        paths = self._paths()
        milestones = [p for p in paths if self._is_milestone(p)]
        paths_to_keep = [*paths[-self.keep :], *milestones[-1:], saved]
        for path in paths:
            if path not in paths_to_keep:
                files.remove_tree(path)

    def _set_aside(self, path: pathlib.Path) -> None:
        """Renames a damaged checkpoint, and deletes the oldest renamed ones.

        Under its old name it would count as one of those to keep.
        """
        message = f"warning: {path} is damaged, so an earlier one is used."
        if self.writes:
            new = path.with_name(f"{_DAMAGED}{path.name}")
            if new.exists():
                files.remove_tree(new)
            os.rename(path, new)
            message += f" It was renamed to {new.name}."
            renamed_paths = self.directory.glob(f"{_DAMAGED}*step-*")
            others = sorted(
                (p for p in renamed_paths if p != new), key=_modified
            )
            for old in others[: 1 - self.keep or None]:
                files.remove_tree(old)
        print(message, file=sys.stderr)


def _key(path: pathlib.Path) -> tuple[int, int]:
    """Returns the rollbacks and the step in the name of a checkpoint."""
    ((rollbacks, step),) = _NAME.findall(path.name)
    return int(rollbacks or 0), int(step)


def _modified(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


def _checked(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the record, or None if a file has changed since it was saved."""
    try:
        record = read_json(path / _RECORD, _SCHEMA)
        expected = record["sha256"]
        actual = {name: files.sha256(path / name) for name in expected}
    except (OSError, ValueError):
        return None
    return record if actual and actual == expected else None
