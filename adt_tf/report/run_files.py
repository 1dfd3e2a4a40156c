"""The files of a workdir that a report reads.

    evaluation(path), metrics(path), flags(path)

A file that is spoiled is named in one line, with the field that is.
"""

from __future__ import annotations

import csv
import math
import pathlib
from typing import Any

from adt_tf import files, json_files, threat_models
from adt_tf.runs import evaluation_files

# Fields that an evaluation without a report may leave out.
_NEEDED = {"dataset": str, "epsilon": float}
# The largest number of 32 bits: beyond, training has diverged.
_LARGEST = 3.4e38


def evaluation(path: pathlib.Path) -> dict[str, Any]:
    """Reads what adt-evaluate writes; "report" is its `Report`."""
    values = evaluation_files.read(path)
    json_files.check(values, _NEEDED, path=path)
    if not values["epsilon"] > 0:
        raise ValueError(
            f"{path}: `epsilon` is {values['epsilon']}, and a report on "
            "robustness needs one above 0. Evaluate with --epsilon."
        )
    if values.get("norm", "linf") not in threat_models.NORMS:
        raise ValueError(
            f"{path}: `norm` is {values['norm']!r:.80}, and a report, which "
            "attacks images itself, knows "
            f"{' and '.join(threat_models.NORMS)} only."
        )
    try:
        threat_models.from_norm(values.get("norm", "linf"), values["epsilon"])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return values


def flags(path: pathlib.Path) -> tuple[str, ...]:
    """Reads the lines of flags.txt; none where it is not there."""
    return tuple(files.read_text(path).splitlines()) if path.exists() else ()


def metrics(path: pathlib.Path) -> dict[str, list[float]]:
    """Reads the columns of metrics.csv; none where it is not there.

    Text, such as the NA that Keras writes where there is no value, becomes
    NaN.
    """
    if not path.exists():
        return {}
    try:
        rows = list(csv.DictReader(files.read_text(path).splitlines()))
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from error
    names = [name for name in (rows[0] if rows else ()) if name]
    columns = {name: [_number(row.get(name)) for row in rows] for name in names}
    if columns and "epoch" not in columns:
        raise ValueError(
            f"{path}: column epoch is missing. Keras' CSVLogger writes it: "
            "delete the file, and the report has no curves of training."
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
        value = float(text)
    except (TypeError, ValueError):
        return math.nan
    return value if abs(value) <= _LARGEST else math.copysign(math.inf, value)
