"""Files that are either whole or not there."""

from __future__ import annotations

import os
import pathlib


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes beside, then renames: a killed process leaves no broken file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    partial.write_text(text, encoding="utf-8")
    sync(partial)
    os.replace(partial, path)


def sync(path: str | os.PathLike) -> None:
    """Waits until a file, or a directory's list, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
