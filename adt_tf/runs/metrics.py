"""Reads and cuts metrics.csv, which Keras' CSVLogger writes."""

from __future__ import annotations

import csv
import math
import pathlib

from adt_tf import files


def read(path: pathlib.Path) -> dict[str, list[float]]:
    """Returns the values of each column, one for each epoch.

    Entries that are not numbers, such as Keras' NA, become NaN. The result is
    empty if the file does not exist.
    """
    if not path.exists():
        return {}
    lines = files.read_text(path).splitlines()
    try:
        rows = list(csv.DictReader(lines, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file: {error}") from error
    names = [name for name in (rows[0] if rows else ()) if name]
    return {name: [_number(row[name]) for row in rows] for name in names}


def _number(text: str | None) -> float:
    try:
        return float(text or "")
    except (TypeError, ValueError):
        return math.nan


def drop_epochs(path: pathlib.Path, epoch: int) -> None:
    """Drops the rows of epochs that a resumed run repeats.

    The remaining bytes are unchanged. An incomplete last line, left by a full
    disk or a killed process, is dropped too.

    Args:
        path: Path of the file; it need not exist.
        epoch: First epoch to repeat, counted from 0.
    """
    if not path.exists():
        return
    header, *rows = files.read_bytes(path).splitlines(keepends=True) or [b""]
    remaining_rows = []
    for row in rows:
        number = row.split(b",")[0]
        if not row.endswith(b"\n"):
            continue
        if not number.isdigit():
            raise ValueError(
                f"{path}: `epoch` must be a whole number. Received: "
                f"{number.decode(errors='replace')!r:.80}; move the file away."
            )
        if int(number) < epoch:
            remaining_rows.append(row)
    files.write_bytes(
        path, b"".join([header, *remaining_rows]) if remaining_rows else b""
    )
