"""The analyses of `adt_tf.analysis` on a few images, each with its reading.

for figure in analyze(classifiers, x, y, epsilon=8 / 255, seed=0):
    figure.title, figure.text, figure.png
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adt_tf import attacks, methods
from adt_tf.analysis import (
    convergence,
    diversity,
    hessian,
    loss_surface,
    transfer,
)
from adt_tf.threat_models import ThreatModel

#: How many images: for clouds of perturbations, and for the curves.
_FEW, _SOME = 8, 32


@dataclasses.dataclass(frozen=True)
class AnalysisFigure:
    """One picture, and how to read it.

    Attributes:
        title: Its heading.
        text: One or two sentences.
        alt: What the picture shows, for those who cannot see it.
        png: The picture; None if the analysis failed, and the text says why.
    """

    title: str
    text: str
    alt: str
    png: bytes | None


def analyze(
    classifiers: Mapping[str, Any],
    x: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float | ThreatModel,
    seed: int,
) -> list[AnalysisFigure]:
    """Runs the analyses of `adt_tf.analysis` on the images.

    One that fails says why in its place: it does not cost the others.
    """
    few, some = (x[:_FEW], y[:_FEW]), (x[:_SOME], y[:_SOME])
    figures = [
        _figure(
            f"Diversity of the perturbations: {name}",
            *(_diversity, name, classifier, *few, epsilon, seed),
        )
        for name, classifier in classifiers.items()
    ]
    figures += [
        _figure(
            "Loss surface", _loss_surface, classifiers, x, y, epsilon, seed
        ),
        _figure("Curvature of the loss", _hessian, classifiers, *some, seed),
        _figure(
            "Convergence of the EXP attack",
            *(_convergence, classifiers, *some, epsilon, seed),
        ),
    ]
    # From one model to itself would be the white box alone.
    if len(classifiers) > 1:
        title = "Transfer between the models"
        figures.append(
            _figure(title, _transfer, classifiers, x, y, epsilon, seed)
        )
    return figures


def _figure(title: str, analysis: Callable, *arguments: Any) -> AnalysisFigure:
    try:
        return AnalysisFigure(title, *analysis(*arguments))
    except Exception as error:
        reason = f"This analysis failed: {type(error).__name__}: {error}"
        print(f"{title}: {reason}")
        return AnalysisFigure(title, reason, "", None)


def _diversity(name, classifier, x, y, epsilon, seed):
    learned = methods.adt_exp(epsilon).attack
    sources = [
        diversity.restarts(attacks.pgd(epsilon), "PGD, restarts"),
        diversity.samples(learned, "ADT-EXP, samples"),
    ]
    results = diversity.measure_diversity(
        classifier, (x, y), sources, num_samples=20, seed=seed
    )
    pgd, exp = results.mean_distance.values()
    return (
        "A dot is one perturbation of an image. Where PGD is started again and "
        f"again, two of its ends lie {pgd:.2f} apart on average; two samples "
        f"of a distribution that ADT-EXP would train on {exp:.2f} "
        f"({learned.num_steps} steps of {learned.num_samples} samples, lambda "
        f"{learned.entropy_weight:g}). The wider the cloud, the more attacks a "
        "model trained on it has met.",
        f"Scatter plots of perturbations against {name} on two principal axes: "
        f"mean distance {pgd:.2f} for PGD's restarts, {exp:.2f} for samples of "
        "ADT-EXP.",
        _draw(diversity.draw_diversity, results),
    )


def _loss_surface(classifiers, x, y, epsilon, seed):
    results = loss_surface.measure_loss_surfaces(
        classifiers, (x[0], y[0]), epsilon=epsilon, seed=seed
    )
    ranges = "; ".join(
        f"{name} from {loss.min():.2f} to {loss.max():.2f}"
        for name, loss in zip(results.names, results.loss, strict=True)
    )
    return (
        "The loss around the first test image, along its gradient and along a "
        "random direction; an attack may go as far as the dashed diamond. Low "
        "and smooth is robust; a cliff beside a plain hides the gradient from "
        "attacks.",
        f"Surfaces of the loss around one image: {ranges} nats.",
        _draw(loss_surface.draw_loss_surfaces, results),
    )


def _hessian(classifiers, x, y, seed):
    results = hessian.measure_eigenvalues(classifiers, (x, y), seed=seed)
    means = ", ".join(f"{k} {v:.3g}" for k, v in results.mean.items())
    return (
        "The largest eigenvalue of the Hessian at each image: how fast the "
        f"gradient turns. Mean: {means}. The smaller, the better a "
        "few steps of gradient ascent know the whole ball.",
        f"Dominant eigenvalues on a logarithmic scale, {len(y)} images. Mean: "
        f"{means}.",
        _draw(hessian.draw_eigenvalues, results),
    )


def _convergence(classifiers, x, y, epsilon, seed):
    results = convergence.measure_convergence(
        classifiers, (x, y), attacks.exp(epsilon), seed=seed
    )
    ends = ", ".join(
        f"{name} {loss[0]:.2f} to {loss[-1]:.2f}"
        for name, loss in zip(results.names, results.loss, strict=True)
    )
    return (
        "The loss after each step of the ascent. A curve that has levelled off "
        "at its right end has found what it can; one that still climbs would "
        "find more with more steps.",
        f"Mean loss against the steps of EXP: {ends} nats.",
        _draw(convergence.draw_convergence, results),
    )


def _transfer(classifiers, x, y, epsilon, seed):
    results = transfer.measure_transfer(
        classifiers, (x, y), attacks.pgd(epsilon), seed=seed
    )
    accuracies = "; ".join(
        f"found on {source}: "
        + ", ".join(
            f"{target} {100 * value:.1f} %"
            for target, value in zip(results.names, row, strict=True)
        )
        for source, row in zip(results.names, results.accuracy, strict=True)
    )
    return (
        f"Images that {results.attack} finds on one model, shown to all of "
        "them. A model's own images, framed, should hurt it most: if another's "
        "hurt it more, that is a sign that its gradients mislead attacks on "
        "it.",
        f"Accuracy under transferred {results.attack}, {len(y)} images; "
        f"{accuracies}.",
        _draw(transfer.draw_transfer, results),
    )


def _draw(draw: Callable[[Any, pathlib.Path], None], results: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figure.png"
        draw(results, path)
        return path.read_bytes()
