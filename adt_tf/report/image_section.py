"""The page's table of images: clean, attacked, perturbation and sigma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf.report import inline_images
from adt_tf.report.attacked_images import AttackedImages
from adt_tf.report.evaluated_runs import EvaluatedRun
from adt_tf.report.wording import epsilon_text

# Quantile of sigma that is shown brightest.
_BRIGHTEST = 0.98


def image_grid(
    runs: Sequence[EvaluatedRun], images: AttackedImages
) -> dict[str, Any]:
    """Prepares the rows of images: clean and, for each model, attacked.

    Returns:
        The `rows`; whether the images are `small`; `highest`, the smallest
        sigma that is shown brightest; and `largest`, the change of a pixel
        that is shown as black or white.
    """
    largest = images.largest_change
    # With the maximum, one pixel of large sigma would make all others dark.
    highest = float(np.quantile(images.sigma.mean(axis=-1), _BRIGHTEST))
    clean = [
        {
            "source": inline_images.png(image),
            "alt": f"Clean image {k + 1}",
            "caption": f"class {label}",
        }
        for k, (image, label) in enumerate(
            zip(images.clean, images.labels, strict=True)
        )
    ]
    rows: list[dict[str, Any]] = [
        {"model": None, "content": "clean", "cells": clean}
    ]
    for i, run in enumerate(runs):
        model = {"index": i, "name": run.name}
        places = [f"{run.name}, image {k + 1}" for k in range(len(clean))]
        for content, cells in (
            ("attacked", _attacked(images, i, places)),
            ("perturbation", _perturbations(images, i, places, largest)),
            ("σ of EXP", _sigmas(images, i, places, highest)),
        ):
            rows.append({"model": model, "content": content, "cells": cells})
    return {
        "rows": rows,
        "small": max(images.clean.shape[1:3]) <= 64,
        "highest": highest,
        "largest": epsilon_text(largest),
    }


def _attacked(
    images: AttackedImages, index: int, places: Sequence[str]
) -> list[dict[str, Any]]:
    return [
        {
            "source": inline_images.png(image),
            "alt": f"{place}, attacked by PGD, class {label}",
            "caption": _caption(predicted, natural, label),
            "kind": "right" if right else "wrong",
        }
        for place, image, predicted, natural, label, right in zip(
            places,
            images.attacked[index],
            images.predicted[index],
            images.natural[index],
            images.labels,
            images.right[index],
            strict=True,
        )
    ]


def _caption(attacked: int, clean: int, label: int) -> str:
    """Describes the prediction, also of a misclassified clean image."""
    if clean == label:
        return f"seen as {attacked}"
    return f"seen as {attacked} (clean: {clean}, also wrong)"


def _perturbations(
    images: AttackedImages, index: int, places: Sequence[str], largest: float
) -> list[dict[str, Any]]:
    changes = images.attacked[index] - images.clean
    return [
        {
            "source": inline_images.perturbation(change, largest),
            "alt": f"{place}: perturbation by PGD",
            "caption": f"±{np.abs(change).max():.2g}",
        }
        for place, change in zip(places, changes, strict=True)
    ]


def _sigmas(
    images: AttackedImages, index: int, places: Sequence[str], highest: float
) -> list[dict[str, Any]]:
    return [
        {
            "source": inline_images.heat(sigma, highest),
            "alt": f"{place}: sigma of each pixel in EXP's distribution",
            "caption": f"mean {sigma.mean():.2f}",
        }
        for place, sigma in zip(places, images.sigma[index], strict=True)
    ]
