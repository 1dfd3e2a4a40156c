"""Reads the files of a workdir for a report.

    evaluation(path), metrics(path), flags(path)

An error names the file and the invalid field in one line.
"""

from __future__ import annotations

import csv
import math
import pathlib
from typing import Any

from adt_tf import files, json_files, threat_models
from adt_tf.runs import evaluation_files

# Fields that are optional in an evaluation but required for a report.
_NEEDED = {"dataset": str, "epsilon": float}
# The largest float32; larger values mean that training has diverged.
_LARGEST = 3.4e38


def evaluation(path: pathlib.Path) -> dict[str, Any]:
    """Reads a file of adt-evaluate; its "report" becomes a `Report`."""
    values = evaluation_files.read(path)
    json_files.check(values, _NEEDED, path=path)
    if not values["epsilon"] > 0:
        raise ValueError(
            f"{path}: `epsilon` is {values['epsilon']}, but a report on "
            "robustness needs one above 0. Evaluate with --epsilon."
        )
    if values.get("norm", "linf") not in threat_models.NORMS:
        raise ValueError(
            f"{path}: `norm` is {values['norm']!r:.80}, but a report attacks "
            f"images in {' or '.join(threat_models.NORMS)} only."
        )
    try:
        threat_models.from_norm(values.get("norm", "linf"), values["epsilon"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return values


def flags(path: pathlib.Path) -> tuple[str, ...]:
    """Reads the lines of flags.txt; none if the file does not exist."""
    return tuple(files.read_text(path).splitlines()) if path.exists() else ()


def metrics(path: pathlib.Path) -> dict[str, list[float]]:
    """Reads the columns of metrics.csv; none if the file does not exist.

    Text becomes NaN, such as the NA that Keras writes for a missing value.
    """
    if not path.exists():
        return {}
    try:
        rows = list(csv.DictReader(files.read_text(path).splitlines()))
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file: {error}") from error
    names = [name for name in (rows[0] if rows else ()) if name]
    columns = {name: [_number(row.get(name)) for row in rows] for name in names}
    if columns and "epoch" not in columns:
        raise ValueError(
            f"{path}: column epoch, which Keras' CSVLogger writes, is missing. "
            "Delete the file to get a report without curves of training."
        )
    for i, epoch in enumerate(columns.get("epoch", ())):
        if not math.isfinite(epoch):
            raise ValueError(
                f"{path}: column epoch must hold numbers. Received in row "
                f"{i + 1}: {rows[i]['epoch']!r:.60}"
            )
    return columns


def _number(text: str | None) -> float:
    try:
        value = float(text or "")
    except (TypeError, ValueError):
        return math.nan
    return value if abs(value) <= _LARGEST else math.copysign(math.inf, value)
