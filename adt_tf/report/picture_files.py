"""Draws accuracy.png and images.png, for use in other documents."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from adt_tf.analysis import plots
from adt_tf.report.attacked_images import AttackedImages
from adt_tf.report.evaluated_runs import EvaluatedRun

_RIGHT, _WRONG = "#1b7837", "#b2182b"


def draw_accuracy(runs: Sequence[EvaluatedRun], path: pathlib.Path) -> None:
    """Draws a bar chart of the accuracy of each model under each attack."""
    names = list(runs[0].accuracy)
    figure = plots.make_figure(height=4, width=9)
    axes = figure.subplots()
    width = 0.8 / len(runs)
    for i, run in enumerate(runs):
        caveat = run.report.caveat.partition(":")[0]
        bars = axes.bar(
            np.arange(len(names)) + (i - (len(runs) - 1) / 2) * width,
            [100 * value for value in run.accuracy.values()],
            width,
            color=plots.color(i),
            label=_plain(run.name) + (f" (A_rob {caveat})" if caveat else ""),
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=plots.SMALL)
    axes.set_xticks(np.arange(len(names)), [_plain(name) for name in names])
    label = "accuracy (%)"
    if not runs[0].report.independent:
        label = "still standing after the attacks so far (%)"
    axes.set(ylim=(0, 107), ylabel=label)
    axes.set_title(
        f"{_plain(runs[0].result['dataset'])}: accuracy under attack, "
        f"{runs[0].threat_model.name} epsilon = "
        f"{runs[0].result['epsilon']:g}"
    )
    plots.tidy(axes)
    axes.legend(frameon=False, ncols=len(runs), loc="upper right")
    plots.save(figure, path)


def draw_images(
    runs: Sequence[EvaluatedRun], images: AttackedImages, path: pathlib.Path
) -> None:
    """Draws clean images and, for each model, attacks and perturbations."""
    largest = images.largest_change
    rows: list[tuple[str, np.ndarray, int | None]] = [
        ("clean", images.clean, None)
    ]
    for i, run in enumerate(runs):
        x_adv = images.attacked[i]
        magnified = 0.5 + (x_adv - images.clean) / (2 * largest)
        rows.append((f"{_plain(run.name)}\nattacked", x_adv, i))
        rows.append((f"perturbation\n(±{largest:.2g})", magnified, None))
    count = len(images.labels)
    figure = plots.make_figure(
        height=1.35 * len(rows), width=1.15 * count + 1.4
    )
    grid = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, pictures, model) in zip(grid, rows, strict=True):
        for i, axes in enumerate(line):
            image = np.clip(pictures[i], 0, 1)  # rounding
            axes.imshow(image, cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            label = images.labels[i]
            if model is not None:
                title = f"seen as {images.predicted[model, i]}"
                if images.natural[model, i] != label:
                    title += "\nclean: wrong"
                color = _RIGHT if images.right[model, i] else _WRONG
                axes.set_title(title, fontsize=plots.SMALL, color=color)
            elif name == "clean":
                axes.set_title(f"class {label}", fontsize=plots.SMALL)
        line[0].set_ylabel(
            name, rotation=0, ha="right", va="center", fontsize=plots.SMALL
        )
    plots.save(figure, path)


def _plain(text: str) -> str:
    """Escapes dollar signs, which Matplotlib would read as formulas."""
    return text.replace("$", r"\$")
