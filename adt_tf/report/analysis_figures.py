"""Runs the analyses of `adt_tf.analysis` on a few images, and explains them.

for figure in analyze(classifiers, x, y, epsilon=8 / 255, seed=0):
    figure.title, figure.text, figure.png
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adt_tf import attacks, methods
from adt_tf.analysis import (
    convergence,
    diversity,
    has_input_gradient,
    hessian,
    loss_surface,
    transfer,
)
from adt_tf.report.wording import listed
from adt_tf.threat_models import ThreatModel

# Number of images: for the clouds of perturbations, and for the curves.
_FEW, _SOME = 8, 32

# Results of an analysis, explanation and alternative text of its figure.
_Analysis = tuple[Any, str, str]


@dataclasses.dataclass(frozen=True)
class AnalysisFigure:
    """A figure with its explanation.

    Attributes:
        title: Heading.
        text: How to read the figure, in one or two sentences. If the analysis
            failed, the reason.
        alt: Description of the figure for readers who cannot see it.
        png: PNG file; None if the analysis failed.
    """

    title: str
    text: str
    alt: str
    png: bytes | None


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """Models, examples and settings of an analysis."""

    classifiers: Mapping[str, Any]
    x: np.ndarray
    y: np.ndarray
    epsilon: float | ThreatModel
    seed: int

    @property
    def examples(self) -> tuple[np.ndarray, np.ndarray]:
        """Images and labels."""
        return self.x, self.y

    def first(self, count: int) -> _Inputs:
        """Keeps the first examples."""
        return dataclasses.replace(self, x=self.x[:count], y=self.y[:count])

    def only(self, names: Sequence[str]) -> _Inputs:
        """Keeps the models of these names."""
        classifiers = {name: self.classifiers[name] for name in names}
        return dataclasses.replace(self, classifiers=classifiers)


def analyze(
    classifiers: Mapping[str, Any],
    x: np.ndarray,
    y: np.ndarray,
    *,
    epsilon: float | ThreatModel,
    seed: int,
) -> list[AnalysisFigure]:
    """Runs the analyses of `adt_tf.analysis` on the images.

    If an analysis fails, its figure gives the reason, and the others still run.
    Models without an input gradient have no loss surface and no curvature.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        x: Images [n, height, width, channels].
        y: Labels [n].
        epsilon: Radius of the attacks, or a threat model.
        seed: Seed of all noise.
    """
    inputs = _Inputs(classifiers, x, y, epsilon, seed)
    some = inputs.first(_SOME)
    smooth = [n for n, f in classifiers.items() if has_input_gradient(f, x)]
    left_out = ""
    if 0 < len(smooth) < len(classifiers):
        others = listed([n for n in classifiers if n not in smooth])
        left_out = f" (without {others}: no input gradient)"
    smooth = smooth or list(classifiers)
    figures = [
        _figure(
            f"Diversity of the perturbations: {name}",
            *(diversity.draw_diversity, _diversity),
            inputs.only([name]).first(_FEW),
        )
        for name in classifiers
    ]
    figures += [
        _figure(
            f"Loss surface{left_out}",
            *(loss_surface.draw_loss_surfaces, _loss_surface),
            inputs.only(smooth),
        ),
        _figure(
            f"Curvature of the loss{left_out}",
            *(hessian.draw_eigenvalues, _hessian),
            some.only(smooth),
        ),
        _figure(
            "Convergence of the EXP attack",
            *(convergence.draw_convergence, _convergence),
            some,
        ),
    ]
    # Transfer needs two models.
    if len(classifiers) > 1:
        figures.append(
            _figure(
                "Transfer between the models",
                *(transfer.draw_transfer, _transfer),
                inputs,
            )
        )
    return figures


def _figure(
    title: str,
    draw: Callable[[Any, pathlib.Path], None],
    analysis: Callable[[_Inputs], _Analysis],
    inputs: _Inputs,
) -> AnalysisFigure:
    """Runs and draws an analysis."""
    try:
        results, text, alt = analysis(inputs)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "figure.png"
            draw(results, path)
            return AnalysisFigure(title, text, alt, path.read_bytes())
    except Exception as error:
        reason = f"This analysis failed: {type(error).__name__}: {error}"
        print(f"{title}: {reason}")
        return AnalysisFigure(title, reason, "", None)


def _diversity(inputs: _Inputs) -> _Analysis:
    ((name, classifier),) = inputs.classifiers.items()
    adt_exp: Any = methods.adt_exp(inputs.epsilon).attack
    sources = [
        diversity.restarts(attacks.pgd(inputs.epsilon), "PGD, restarts"),
        diversity.samples(adt_exp, "ADT-EXP, samples"),
    ]
    results = diversity.measure_diversity(
        classifier,
        inputs.examples,
        sources,
        num_samples=20,
        seed=inputs.seed,
    )
    pgd, exp = results.mean_distance.values()
    return (
        results,
        "A dot is one perturbation of an image. The mean distance between the "
        f"results of two runs of PGD is {pgd:.2f}; between two samples of the "
        f"distribution that ADT-EXP trains on it is {exp:.2f} "
        f"({adt_exp.num_steps} steps of {adt_exp.num_samples} samples, lambda "
        f"{adt_exp.entropy_weight:g}). A model that is trained on a wider "
        "cloud sees more different attacks.",
        f"Scatter plots of perturbations of {name} on two principal axes: "
        f"mean distance {pgd:.2f} for restarts of PGD, {exp:.2f} for samples "
        "of ADT-EXP.",
    )


def _loss_surface(inputs: _Inputs) -> _Analysis:
    results = loss_surface.measure_loss_surfaces(
        inputs.classifiers,
        (inputs.x[0], inputs.y[0]),
        epsilon=inputs.epsilon,
        seed=inputs.seed,
    )
    ranges = "; ".join(
        f"{name} from {loss.min():.2f} to {loss.max():.2f}"
        for name, loss in zip(results.names, results.loss, strict=True)
    )
    return (
        results,
        "The loss around the first test image, along its gradient and along a "
        "random direction. An attack may reach the points inside the dashed "
        "line. A low, smooth surface is a sign of robustness; a cliff "
        "beside a flat area is a sign of masked gradients.",
        f"Surfaces of the loss around one image: {ranges} nats.",
    )


def _hessian(inputs: _Inputs) -> _Analysis:
    results = hessian.measure_eigenvalues(
        inputs.classifiers, inputs.examples, seed=inputs.seed
    )
    means = ", ".join(f"{k} {v:.3g}" for k, v in results.mean.items())
    return (
        results,
        "The largest eigenvalue of the Hessian at each image, a measure of how "
        f"fast the gradient changes. Mean: {means}. If it is small, a few "
        "steps of gradient ascent are enough to find the worst perturbation.",
        f"Dominant eigenvalues of {len(inputs.y)} images on a logarithmic "
        f"scale. Mean: {means}.",
    )


def _convergence(inputs: _Inputs) -> _Analysis:
    results = convergence.measure_convergence(
        inputs.classifiers,
        inputs.examples,
        attacks.exp(inputs.epsilon),
        seed=inputs.seed,
    )
    ends = ", ".join(
        f"{name} {loss[0]:.2f} to {loss[-1]:.2f}"
        for name, loss in zip(results.names, results.loss, strict=True)
    )
    return (
        results,
        "The loss after each step of the attack. If a curve is flat at its "
        "right end, the attack has converged; if it still rises, more steps "
        "would make the attack stronger.",
        f"Mean loss against the steps of EXP: {ends} nats.",
    )


def _transfer(inputs: _Inputs) -> _Analysis:
    results = transfer.measure_transfer(
        inputs.classifiers,
        inputs.examples,
        attacks.pgd(inputs.epsilon),
        seed=inputs.seed,
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
        results,
        f"Accuracy of each model on images that {results.attack} found on "
        "another model. The images found on the model itself (framed) should "
        "give the lowest accuracy. If the images of another model give a lower "
        "one, this is a sign that the gradients of the model mislead attacks.",
        f"Accuracy under transferred {results.attack}, {len(inputs.y)} images; "
        f"{accuracies}.",
    )
