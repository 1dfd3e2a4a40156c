"""The files of a workdir that a report reads.

    evaluation(path), lint(path), starts(path), metrics(path), flags(path)

A file that is spoiled is named in one line, with the field that is.
"""

from __future__ import annotations

import csv
import math
import pathlib
from typing import Any

from adt_tf import files
from adt_tf.evaluation.outcome import NATURAL
from adt_tf.linting.findings import STATUSES
from adt_tf.report.json_fields import Optional, read_json
from adt_tf.runs import evaluation_files

_EVALUATION = {
    "format": Optional(int),
    "dataset": str,
    "epsilon": float,
    "num_examples": int,
    "seed": int,
    "independent": bool,
    "attacks": {str: str},
    "outcomes": {str: frozenset("01-")},
    "seconds": {str: float},
    **{
        name: Optional(str)
        for name in (
            *("method", "network", "protocol", "command", "commit"),
            *("classifier", "data_dir", "examples_sha256"),
        )
    },
}
_LINT = {
    "format": Optional(int),
    "ok": bool,
    "num_examples": int,
    "epsilon": float,
    "seed": int,
    "findings": [
        {
            "check": str,
            "status": tuple(STATUSES),
            "evidence": str,
            "advice": Optional(str),
        }
    ],
    "classifier": Optional(str),
}
_START = {
    "started": Optional(str),
    "data": {"examples": int, "shape": [int], "classes": int, "sha256": str},
    "git commit": Optional(str),
    "Python": Optional(str),
    "tensorflow": Optional(str),
    "keras": Optional(str),
}
_STARTS = {"format": Optional(int), "starts": [_START]}
# The largest number of 32 bits: beyond, training has diverged.
_LARGEST = 3.4e38


def evaluation(path: pathlib.Path) -> dict[str, Any]:
    """Reads what adt-evaluate writes; "report" is its `Report`."""
    remedy = (
        f"Measure the run again: adt-evaluate --workdir={path.parent}, "
        "or from Python `adt_tf.runs.evaluation_job.assess`."
    )
    values = read_json(path, _EVALUATION, remedy)
    if not values["epsilon"] > 0:
        raise ValueError(
            f"{path}: field epsilon is {values['epsilon']}, and a report on "
            "robustness needs one above 0. Evaluate with --epsilon."
        )
    if set(values["outcomes"]) != {NATURAL, *values["attacks"]}:
        raise ValueError(
            f"{path}: fields attacks and outcomes must name the same attacks. "
            f"{remedy}"
        )
    counts = {len(verdicts) for verdicts in values["outcomes"].values()}
    if counts != {values["num_examples"]}:
        raise ValueError(
            f"{path}: field num_examples is {values['num_examples']}, but "
            f"field outcomes has verdicts on {sorted(counts)} examples. "
            f"{remedy}"
        )
    return evaluation_files.read(path)


def lint(path: pathlib.Path) -> dict[str, Any] | None:
    """Reads what adt-lint writes; None where it was not run."""
    if not path.is_file():
        return None
    remedy = f"Run it again: adt-lint --workdir={path.parent}"
    return read_json(path, _LINT, remedy)


def starts(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads provenance.json: an entry each time that training was started."""
    if not path.is_file():
        return []
    remedy = "Delete it: a result only loses the record of its origin."
    # Version 0.1.0 wrote the list alone.
    if files.read_text(path).lstrip().startswith("["):
        return read_json(path, [_START], remedy)
    return read_json(path, _STARTS, remedy)["starts"]


def flags(path: pathlib.Path) -> tuple[str, ...]:
    """Reads the lines of flags.txt; none where it is not there."""
    return tuple(files.read_text(path).splitlines()) if path.is_file() else ()


def metrics(path: pathlib.Path) -> dict[str, list[float]]:
    """Reads the columns of metrics.csv; none where it is not there.

    Text, such as the NA that Keras writes where there is no value, becomes
    NaN.
    """
    if not path.is_file():
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
