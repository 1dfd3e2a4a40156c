"""Robust overfitting: accuracy on training and test images over the epochs.

Rice et al. (2020) found that robust accuracy on new images falls while it still
grows on training images. Each run trains for three times the scale's epochs.
PGD-20 attacks the classifier after each epoch, on the first training images and
on the first test images, both without augmentation.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from adt_tf import attacks, data, evaluation
from adt_tf.analysis import plots
from adt_tf.evaluation.outcome import RIGHT
from adt_tf.reproduction import paired_differences, train_runs
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.study import Runs, Study

_SPLITS = ("train", "test")


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement for each run and epoch."""
    seed, count = study.seeds[0], study.scale.images["overfitting"]

    @functools.cache
    def load(run):
        epochs = train_runs.Epochs(study, run, seed)
        images, labels = data.as_arrays(epochs.train_data)
        examples = {
            "train": (images[:count], labels[:count]),
            "test": data.as_arrays(study.images("overfitting", run)),
        }
        return epochs, examples, attacks.pgd(study.threat_model(run))

    def measure(run, epoch):
        epochs, examples, attack = load(run)
        classifier = epochs.classifier(epoch)
        verdicts = {}
        for split in _SPLITS:
            report = evaluation.evaluate(
                classifier, examples[split], attack, verbose=False
            )
            verdicts[f"{split}_natural"] = report.outcomes["natural"] == RIGHT
            verdicts[f"{split}_robust"] = report.robust == RIGHT
        return verdicts

    return [
        Measurement(
            f"{run}-epoch{epoch}",
            functools.partial(measure, run, epoch),
            (run,),
            {"images": count, "attack": "pgd-20"},
            gradients=2 * 22 * count,
        )
        for run in rows.values()
        for epoch in range(1, study.config(run, seed).epochs + 1)
    ]


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws both accuracies of each run against the epoch."""
    curves = {
        label: {
            name: np.stack(
                [
                    arrays[f"{run}-epoch{epoch}"][name]
                    for epoch in range(
                        1, study.config(run, study.seeds[0]).epochs + 1
                    )
                ]
            )
            for name in ("train_natural", "train_robust")
            + ("test_natural", "test_robust")
        }
        for label, run in rows.items()
    }
    _draw_curves(curves, study.file("overfitting.png"))
    body, values = [], {}
    for label, verdicts in curves.items():
        shares = {k: 100 * v.mean(axis=1) for k, v in verdicts.items()}
        best = int(shares["test_robust"].argmax())
        # The best epoch is chosen on the same images, so that the fall after
        # it is biased upwards; a paired interval does not correct for that.
        fall = paired_differences.difference(
            verdicts["test_robust"][best], verdicts["test_robust"][-1]
        )
        body.append(
            [
                label,
                str(best + 1),
                f"{shares['test_robust'][best]:.1f}",
                f"{shares['test_robust'][-1]:.1f}",
                fall.in_points(),
                f"{shares['train_robust'][best]:.1f}",
                f"{shares['train_robust'][-1]:.1f}",
                f"{shares['test_natural'][-1]:.1f}",
            ]
        )
        values[label] = {
            name: (share / 100).tolist() for name, share in shares.items()
        }
    lines = markdown_table(
        [
            "model",
            "best epoch",
            "test, best",
            "test, last",
            "fall (points)",
            "train, best",
            "train, last",
            "natural, last",
        ],
        body,
    )
    return lines, {"accuracy": values}


def _draw_curves(
    curves: dict[str, dict[str, np.ndarray]], path: str | os.PathLike
) -> None:
    figure = plots.make_figure(height=3.8)
    axes = figure.subplots()
    for i, (label, verdicts) in enumerate(curves.items()):
        for split, style in zip(_SPLITS, ("--", "-"), strict=True):
            shares = 100 * verdicts[f"{split}_robust"].mean(axis=1)
            axes.plot(
                np.arange(1, len(shares) + 1),
                shares,
                style,
                color=plots.color(i),
                marker=plots.marker(i),
                markersize=4,
                label=f"{label}, {split}",
            )
    axes.set(
        xlabel="epoch",
        ylabel="accuracy under PGD-20 (%)",
        title="Robust accuracy on training and test images",
    )
    axes.set_ylim(bottom=0)
    locator: Any = axes.xaxis.get_major_locator()
    locator.set_params(integer=True)
    axes.legend(frameon=False)
    plots.tidy(axes)
    count = len(next(iter(curves.values()))["test_robust"][0])
    plots.note(figure, f"{count} images of each kind, without augmentation.")
    plots.save(figure, path)
