"""The figures, one a file: which analysis is made of which runs.

Each module has two functions. `parts(study, rows)` lists measurements, which
are kept; `draw(study, rows, arrays)` draws what they hold, and returns the
lines of Markdown below the picture and what JSON holds of it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from adt_tf.reproduction import documents
from adt_tf.reproduction.figures import (
    convergence,
    diversity,
    entropy,
    epoch_time,
    landscape,
    transfer,
)
from adt_tf.reproduction.study import Study
from adt_tf.runs import workdir as workdirs

__all__ = [
    "convergence",
    "diversity",
    "entropy",
    "epoch_time",
    "landscape",
    "transfer",
    "write",
]


def write(study: Study, name: str, target: Any) -> None:
    """Draws a figure and writes its numbers below it."""
    study = dataclasses.replace(study, seeds=study.seeds[:1])
    pieces = target.figure.parts(study, target.rows)
    arrays = {part.name: part.load(study) for part in pieces}
    picture = study.file(f"{name}.png").name
    lines, values = target.figure.draw(study, target.rows, arrays)
    values["classifiers"] = {
        run: workdirs.fingerprint(study.workdir(run, study.seeds[0]))
        for part in pieces
        for run in part.runs
    }
    documents.write(
        study,
        name,
        f"Figure {name.removeprefix('figure')}: {target.title}",
        [f"![{target.title}]({picture})", "", *lines, "", target.note],
        values,
    )
