"""The findings of lint on disk: what adt-lint writes."""

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
    """Returns the path; refuses a file that holds something else."""
    path = pathlib.Path(path)
    if files.is_taken(path):
        try:
            read_json(path, _SCHEMA)
        except ValueError as error:
            raise ValueError(
                f"{path} is there and holds no findings of lint, so it is not "
                "overwritten. Move it away, or choose another --output."
            ) from error
    return path


def write(
    report: LintReport,
    path: str | os.PathLike,
    *,
    classifier: str | None = None,
) -> None:
    """Writes findings.

    Args:
        report: The findings.
        path: File to write.
        classifier: Fingerprint of the run's classifier, if it is one's.
    """
    write_json(path, {**report.to_dict(), "classifier": classifier})


def read(path: pathlib.Path) -> dict[str, Any] | None:
    """Reads findings; returns None without a file."""
    if not path.exists():
        return None
    try:
        return read_json(path, _SCHEMA)
    except ValueError as error:
        raise ValueError(
            f"{str(error).rstrip('.')}. This is not what adt-lint writes: run "
            f"it again, with --workdir={path.parent}"
        ) from error
