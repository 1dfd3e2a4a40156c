"""Checkpoints that are whole or not there, and say so themselves.

    store = Checkpoints("run/checkpoints", trainer.checkpoint(), milestone=20)
    record = store.restore()                # the newest whole one, or None
    store.save(step=137, record={"metrics": [...]})

A checkpoint is a directory, `step-00000137`: TensorFlow's files and
`record.json`, which holds the caller's record and the SHA-256 of each file. It
is written by `files.atomic_write`, so a process that is killed, or a disk that
is full, leaves the one before. One that is found damaged is renamed to
`damaged-step-00000137`, and counts no more.
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
    """A checkpoint could not be written."""


class Checkpoints:
    """The checkpoints of one run.

    Newer is what has gone back more often, then what has taken more steps.

    Args:
        directory: Made when something is saved.
        state: All that is to be saved.
        keep: How many to keep.
        milestone: Of those at a multiple of so many steps the last is kept as
            well: `restore(milestone=True)` goes back to it.
        writes: False reads what another process writes, and changes nothing.
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
        """Writes a checkpoint, and drops those that are too old.

        Raises `SaveError` where it cannot; those before it are then untouched.
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
                f"after step {step} could not be saved there. Repeat the "
                "command with the --workdir that it is now."
            )
        try:
            with files.atomic_write(path) as partial:
                self._write(partial, record)
                if path.exists():
                    files.remove_tree(path)
        except (OSError, tf.errors.OpError) as error:
            kept = self._paths()
            before = f"{kept[-1]} is kept" if kept else "There is none before"
            reason = files.disk_error(error) or files.first_line(error)
            raise SaveError(
                f"The state after step {step} could not be saved in "
                f"{self.directory}: {reason}. {before}; make room, then repeat "
                "the command."
            ) from error
        self._drop_old(path)

    def restore(self, *, milestone: bool = False) -> dict[str, Any] | None:
        """Reads the newest that is whole into the state; returns its record.

        A damaged one is named in a warning and renamed, and the one before is
        read.

        Args:
            milestone: Whether to look at milestones first, and at others only
                where none of them is whole.
        """
        found = self._paths()[::-1]
        if milestone:
            found.sort(key=lambda path: not self._is_milestone(path))
        damaged = []
        for path in found:
            record = _checked(path)
            if record is None:
                damaged.append(path)
                continue
            self._read(path)
            for other in damaged:
                self._set_aside(other)
            if milestone and not self._is_milestone(path):
                print(
                    "warning: No checkpoint of an epoch's end is whole, so "
                    f"{path} is used.",
                    file=sys.stderr,
                )
            return record
        if found:
            raise ValueError(
                f"All checkpoints in {self.directory} are damaged, so nothing "
                "was changed. Choose another --workdir to start anew."
            )
        if (self.directory / "checkpoint").exists():
            raise ValueError(
                f"{self.directory} was written by an earlier version, which "
                "this one does not read, so nothing was changed. Choose "
                "another --workdir."
            )
        return None

    def _read(self, path: pathlib.Path) -> None:
        try:
            self.state.read(str(path / "state")).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                f"{path} is whole, but holds the state of another training "
                "run or version, so nothing was changed. Choose another "
                "--workdir."
            ) from error

    def _write(self, path: pathlib.Path, record: dict[str, Any]) -> None:
        path.mkdir()
        self.state.write(str(path / "state"))
        hashes = {f.name: files.sha256(f) for f in sorted(path.iterdir())}
        write_json(path / _RECORD, {**record, "sha256": hashes})
        files.sync_tree(path)  # before one of the same step is removed

    def _paths(self) -> list[pathlib.Path]:
        """Those that are there, the oldest first."""
        found = self.directory.glob("*step-*")
        return sorted((p for p in found if _NAME.fullmatch(p.name)), key=_key)

    def _is_milestone(self, path: pathlib.Path) -> bool:
        return _key(path)[1] % self.milestone == 0

    def _drop_old(self, saved: pathlib.Path) -> None:
        paths = self._paths()
        milestones = [p for p in paths if self._is_milestone(p)]
        kept = [*paths[-self.keep :], *milestones[-1:], saved]
        for path in paths:
            if path not in kept:
                files.remove_tree(path)

    def _set_aside(self, path: pathlib.Path) -> None:
        """Takes a damaged one out of the count; the last few stay to look at.

        Where they counted, they would push out those that are whole.
        """
        told = f"warning: {path} is damaged, so the one before is used."
        if self.writes:
            new = path.with_name(f"{_DAMAGED}{path.name}")
            if new.exists():
                files.remove_tree(new)
            os.rename(path, new)
            told += f" It is now {new.name}."
            aside = self.directory.glob(f"{_DAMAGED}*step-*")
            others = sorted((p for p in aside if p != new), key=_modified)
            for old in others[: 1 - self.keep or None]:
                files.remove_tree(old)
        print(told, file=sys.stderr)


def _key(path: pathlib.Path) -> tuple[int, int]:
    rollbacks, step = _NAME.fullmatch(path.name).groups()
    return int(rollbacks or 0), int(step)


def _modified(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


def _checked(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the record, or None where a file is not what was written."""
    try:
        record = read_json(path / _RECORD, _SCHEMA)
        expected = record["sha256"]
        found = {name: files.sha256(path / name) for name in expected}
    except (OSError, ValueError):
        return None
    return record if found and found == expected else None
