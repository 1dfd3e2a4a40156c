"""The metrics of each epoch, as Keras' CSVLogger writes them."""

from __future__ import annotations

import csv
import math
import pathlib

from adt_tf import files


def read(path: pathlib.Path) -> dict[str, list[float]]:
    """Returns for each column a number an epoch; none without a file.

    NaN stands where there is no number: Keras writes NA.
    """
    if not path.exists():
        return {}
    lines = files.read_text(path).splitlines()
    try:
        rows = list(csv.DictReader(lines, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from error
    names = [name for name in (rows[0] if rows else ()) if name]
    return {name: [_number(row[name]) for row in rows] for name in names}


def _number(text: str | None) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def drop_epochs(path: pathlib.Path, epoch: int) -> None:
    """Drops what a killed run has logged of epochs that are run again.

    What stays is as it was, byte for byte. The last line may have been cut
    off, by a full disk or a kill.

    Args:
        path: The file; it may not be there.
        epoch: First epoch that is run again, counted from 0.
    """
    if not path.exists():
        return
    header, *rows = files.read_bytes(path).splitlines(keepends=True) or [b""]
    kept = []
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
            kept.append(row)
    files.write_bytes(path, b"".join([header, *kept]) if kept else b"")
