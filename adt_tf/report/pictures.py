"""The two pictures that stand beside the page, for texts that show them."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from adt_tf.analysis import plots
from adt_tf.report import measure
from adt_tf.report.collect import Run

_RIGHT, _WRONG = "#1b7837", "#b2182b"


def draw_accuracy(runs: Sequence[Run], path: pathlib.Path) -> None:
    """Draws bars: accuracy under each attack, for each model."""
    names = list(runs[0].accuracy)
    figure = plots.make_figure(height=4, width=9)
    axes = figure.subplots()
    width = 0.8 / len(runs)
    for i, run in enumerate(runs):
        bars = axes.bar(
            np.arange(len(names)) + (i - (len(runs) - 1) / 2) * width,
            [100 * value for value in run.accuracy.values()],
            width,
            color=plots.color(i),
            label=_plain(run.name),
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=plots.SMALL)
    axes.set_xticks(np.arange(len(names)), [_plain(name) for name in names])
    axes.set(ylim=(0, 107), ylabel="accuracy (%)")
    axes.set_title(
        f"{_plain(runs[0].result['dataset'])}: accuracy under attack, "
        f"epsilon = {runs[0].result['epsilon']:g}"
    )
    plots.tidy(axes)
    axes.legend(frameon=False, ncols=len(runs), loc="upper right")
    plots.save(figure, path)


def draw_images(
    runs: Sequence[Run], pictures: measure.Pictures, path: pathlib.Path
) -> None:
    """Draws clean images and, for each model, attacked ones and why."""
    epsilon = runs[0].result["epsilon"]
    rows = [("clean", pictures.clean, None)]
    for i, run in enumerate(runs):
        x_adv = pictures.attacked[i]
        magnified = 0.5 + (x_adv - pictures.clean) / (2 * epsilon)
        rows.append((f"{_plain(run.name)}\nattacked", x_adv, i))
        rows.append(("perturbation\n(-eps to +eps)", magnified, None))
    count = len(pictures.labels)
    figure = plots.make_figure(
        height=1.35 * len(rows), width=1.15 * count + 1.4
    )
    grid = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, images, model) in zip(grid, rows, strict=True):
        for i, axes in enumerate(line):
            shown = np.clip(images[i], 0, 1)  # rounding
            axes.imshow(shown, cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
            label = pictures.labels[i]
            if model is not None:
                title = f"seen as {pictures.seen[model, i]}"
                if pictures.natural[model, i] != label:
                    title += "\nclean: wrong"
                color = _RIGHT if pictures.right[model, i] else _WRONG
                axes.set_title(title, fontsize=plots.SMALL, color=color)
            elif name == "clean":
                axes.set_title(f"class {label}", fontsize=plots.SMALL)
        line[0].set_ylabel(
            name, rotation=0, ha="right", va="center", fontsize=plots.SMALL
        )
    plots.save(figure, path)


def _plain(text: str) -> str:
    """Keeps Matplotlib from reading dollar signs as formulas."""
    return text.replace("$", r"\$")
