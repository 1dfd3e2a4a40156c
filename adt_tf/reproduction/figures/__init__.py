"""The figures, as data; a module for each figure measures and draws it.

    FIGURES["figure2"].figure      # the module `landscape`
    FURTHER["overfitting"].figure  # figures that the paper does not have

To add a figure, write a module with two functions, and an entry in `FIGURES` or
`FURTHER`. `measurements(study, rows)` returns the measurements of the figure;
`draw(study, rows, arrays)` draws their arrays, and returns the lines of
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
    failure_curves,
    landscape,
    overfitting,
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
    """Draws a figure and writes its document."""
    study = dataclasses.replace(study, seeds=study.seeds[:1])
    measurements = target.figure.measurements(study, target.runs)
    arrays = {each.name: each.load(study) for each in measurements}
    picture = study.file(f"{name}.png").name
    lines, values = target.figure.draw(study, target.runs, arrays)
    # Figure 7 is measured on untrained classifiers.
    runs = target.runs.values() if target.trained else ()
    values["classifiers"] = {
        run: Workdir(study.workdir(run, study.seeds[0])).fingerprint()
        for run in runs
    }
    number = name.removeprefix("figure")
    source = "Beyond the paper" if number == name else f"Figure {number}"
    documents.write(
        study,
        name,
        f"{source}: {target.title}",
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
        note="Around images of a standard classifier, as in the paper. Two "
        "axes hardly show perturbations that spread in all directions at once; "
        "compare the distances instead.",
    ),
    "figure2": _figure(
        "the loss around an image, and its curvature",
        FIVE,
        landscape,
        note="The paper gives the numbers of this figure only as a picture.",
    ),
    "figure4": _figure(
        "transfer-based black-box attacks",
        FIVE,
        transfer,
        note="Accuracy in %. The paper gives the numbers of this figure only "
        "as a picture.",
    ),
    "figure5": _figure(
        "the entropy weight lambda",
        _LAMBDAS,
        entropy,
        protocol="paper",
        note="ADT-EXP-AM, one run for each lambda. Accuracy in %, entropy in "
        "nats per pixel value. The paper: a larger lambda gives a larger "
        "entropy and better robustness, but a too large lambda reduces "
        "robustness.",
    ),
    "figure6": _figure(
        "how fast EXP converges",
        {"AT-PGD": "at_pgd", "ADT-EXP": "adt_exp"},
        convergence,
        note="The paper: EXP converges within a few iterations.",
    ),
    "figure7": _figure(
        "the time of an epoch",
        FIVE,
        epoch_time,
        trained=False,
        note="The methods take steps in turns, on random images. As in the "
        "paper, the generator has about twice the multiplications of the "
        "classifier.",
    ),
}
#: Figures that the paper does not have.
FURTHER: dict[str, Target] = {
    "overfitting": _figure(
        "robust overfitting",
        {
            "AT-PGD": "overfitting-at_pgd",
            "ADT-EXP-AM": "overfitting-adt_exp_am",
        },
        overfitting,
        note="Accuracy in %, on training images (10,000 of them are trained on "
        "where the data set has as many) and on test images; one run for each "
        'method, with three times the epochs of the scale. "Best" is the '
        "epoch with the highest robust accuracy on these test images, which "
        "makes the fall after it look larger than it is on new images; its "
        "interval (95 %, paired by image) does not correct for that. The "
        "workdirs keep the state after each epoch.",
    ),
    "probabilistic": _figure(
        "probabilistic robustness, from random noise to the worst case",
        {
            label: FIVE[label]
            for label in ("Standard", "AT-PGD", "ADT-EXP", "ADT-EXP-AM")
        },
        failure_curves,
        protocol="probabilistic",
        note="One run for each method. The entropy weight of EXP-20 follows "
        '"at": the lower it is, the worse are the samples. Intervals of '
        "the differences are not corrected for the number of comparisons; "
        "an interval of zero width means that no image differs.",
    ),
}
