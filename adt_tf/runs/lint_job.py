"""Reads and writes lint.json, the results of adt-lint."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from adt_tf import files
from adt_tf.json_files import Maybe, read_json, write_json
from adt_tf.linting.findings import STATUSES, LintReport

FINDING = {
    "check": str,
    "status": set(STATUSES),
    "evidence": str,
    "advice": Maybe(str),
    "brief": Maybe(str),
}
_SCHEMA = {
    "ok": bool,
    "num_examples": int,
    "norm": Maybe(str),
    "epsilon": float,
    "seed": int,
    "classifier": Maybe(str),
    "findings": [FINDING],
}


def checked_output(path: str | os.PathLike) -> pathlib.Path:
    """Returns the path, or raises if it is a file of another kind."""
    path = pathlib.Path(path)
    if files.is_taken(path):
        try:
            read_json(path, _SCHEMA)
        except ValueError as error:
            raise ValueError(
                f"{path} exists and was not written by adt-lint, so it is not "
                "overwritten. Move it away, or choose another --output."
            ) from error
    return path


def write(
    report: LintReport,
    path: str | os.PathLike,
    *,
    classifier: str | None = None,
) -> None:
    """Writes the results of lint.

    Args:
        report: Results of lint.
        path: Path of the file.
        classifier: Fingerprint of the classifier of a run, or None.
    """
    write_json(path, {**report.to_dict(), "classifier": classifier})


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """Reads the results of lint; returns None if the file does not exist."""
    if not path.exists():
        return None
    try:
        return read_json(path, _SCHEMA)
    except ValueError as error:
        raise ValueError(
            f"{str(error).rstrip('.')}. adt-lint did not write this file: run "
            f"adt-lint --workdir={path.parent} again."
        ) from error
