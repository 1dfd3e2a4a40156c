"""The figures of the paper, as data; one module each measures and draws it.

    FIGURES["figure2"].figure      # the module `landscape`

To add a figure, write a module with two functions, and an entry in `FIGURES`:
`measurements(study, rows)` lists what is measured and kept;
`draw(study, rows, arrays)` draws what they hold, and returns the lines of
Markdown below the picture and the values for JSON.
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
from adt_tf.reproduction.registry import FIVE
from adt_tf.reproduction.study import Rows, Study
from adt_tf.reproduction.target import Target
from adt_tf.runs.workdir import Workdir

_LAMBDAS = {
    "0": "adt_exp_am-lambda0",
    "0.001": "adt_exp_am-lambda0.001",
    "0.01": "adt_exp_am",
    "0.1": "adt_exp_am-lambda0.1",
    "1": "adt_exp_am-lambda1",
}


def write(study: Study, name: str, target: Target) -> None:
    """Draws a figure and writes its numbers below it."""
    study = dataclasses.replace(study, seeds=study.seeds[:1])
    measurements = target.figure.measurements(study, target.rows)
    arrays = {each.name: each.load(study) for each in measurements}
    picture = study.file(f"{name}.png").name
    lines, values = target.figure.draw(study, target.rows, arrays)
    values["classifiers"] = {
        run: Workdir(study.workdir(run, study.seeds[0])).fingerprint()
        for each in measurements
        for run in each.runs
    }
    documents.write(
        study,
        name,
        f"Figure {name.removeprefix('figure')}: {target.title}",
        [f"![{target.title}]({picture})", "", *lines, "", target.note],
        values,
    )


def _figure(title: str, rows: Rows, figure: Any, **arguments: Any) -> Target:
    return Target(title, write, rows, figure=figure, **arguments)


FIGURES: dict[str, Target] = {
    "figure1": _figure(
        "how different the perturbations of an image are",
        {"Standard": "standard"},
        diversity,
        note="Around images of a standard classifier, as in the paper. What "
        "spreads in all directions at once hardly shows on two axes: the "
        "distances tell.",
    ),
    "figure2": _figure(
        "the loss around an image, and its curvature",
        FIVE,
        landscape,
        note="The paper prints this figure's numbers in the picture alone.",
    ),
    "figure4": _figure(
        "transfer-based black-box attacks",
        FIVE,
        transfer,
        note="Accuracy in %. The paper prints this figure's numbers in the "
        "picture alone.",
    ),
    "figure5": _figure(
        "the entropy's weight lambda",
        _LAMBDAS,
        entropy,
        protocol="paper",
        note="ADT-EXP-AM, one run for each lambda. Accuracy in %, entropy in "
        "nats per pixel value. The paper: a larger lambda has a larger entropy "
        "and better robustness, but a too large one reduces it.",
    ),
    "figure6": _figure(
        "how fast EXP converges",
        {"AT-PGD": "at_pgd", "ADT-EXP": "adt_exp"},
        convergence,
        note="The paper: EXP converges soon, within a few iterations.",
    ),
    "figure7": _figure(
        "the time of an epoch",
        FIVE,
        epoch_time,
        trained=False,
        note="Steps of all methods, in turns on random images; the generator "
        "stands to the classifier as in the paper, about two to one in "
        "multiplications.",
    ),
}
