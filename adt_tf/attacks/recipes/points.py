"""Named attacks that move one image: FGSM, PGD and their relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adt_tf import gradients, objectives, step_rules, threat_models
from adt_tf.attacks import keeping
from adt_tf.attacks.base import Identity
from adt_tf.attacks.chain import Chain
from adt_tf.attacks.combinators import Restarts
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.noise import Noise
from adt_tf.attacks.options import (
    LangevinOptions,
    PgdOptions,
    PrecisionOptions,
    takes,
)
from adt_tf.distributions import Dirac
from adt_tf.objectives import Objective
from adt_tf.threat_models import ThreatModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


def identity() -> Identity:
    """No attack: every image stays as it is."""
    return Identity()


def fgsm(
    epsilon: float | ThreatModel,
    *,
    objective: Objective | Callable[..., Any] = objectives.cross_entropy,
    name: str = "FGSM",
) -> GradientAscent:
    """One steepest step of size epsilon from the clean image.

    Reference: Goodfellow et al., Explaining and Harnessing Adversarial
    Examples, 2015.
    """
    return GradientAscent(
        Dirac(threat_models.get(epsilon), random_start=False),
        objective,
        step_rules.steepest(share=1.0),
        num_steps=1,
        name=name,
    )


@takes(PgdOptions)
def pgd(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    step_size: float | None = None,
    objective: Objective | Callable[..., Any] = objectives.cross_entropy,
    name: str | None = None,
    **options: Unpack[PgdOptions],
) -> GradientAscent:
    """Projected steepest steps from a random start; step size epsilon / 4.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default a share of epsilon.
        objective: Function to climb.
        name: Name in tables; by default "PGD-" and the number of steps.
        **options: `share`, the length of a step in epsilons where `step_size`
            is None, by default 1 / 4; `last_iterate`, whether a call returns
            the last image of the climb, as the paper's released code does, in
            place of the strongest image met; `search_precision`, the format of
            the search, see `gradients.backpropagation`.

    Reference: Madry et al., Towards Deep Learning Models Resistant to
    Adversarial Attacks, 2018.
    """
    gradient = _backpropagation(options)
    last_iterate = options.get("last_iterate", False)
    return GradientAscent(
        Dirac(threat_models.get(epsilon)),
        objective,
        step_rules.steepest(step_size, share=options.get("share", 1 / 4)),
        num_steps=num_steps,
        gradient=gradient,
        keep=keeping.last() if last_iterate else None,
        name=_with_forms(
            name or f"PGD-{num_steps}",
            ["last"] * last_iterate + gradient.describe(),
        ),
    )


def mim(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    step_size: float | None = None,
    decay: float = 1.0,
    random_start: bool = False,
    last_iterate: bool = False,
) -> GradientAscent:
    """Steepest steps along the accumulated gradient, from the clean image.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default epsilon / 4.
        decay: Weight of the earlier gradients.
        random_start: Whether to start at random, as the paper's released
            evaluation does; it was measured to be a little weaker.
        last_iterate: Whether a call returns the last image of the climb, see
            `pgd`.

    Reference: Dong et al., Boosting Adversarial Attacks with Momentum, 2018.
    """
    return GradientAscent(
        Dirac(threat_models.get(epsilon), random_start=random_start),
        objectives.cross_entropy,
        step_rules.momentum(step_size, decay),
        num_steps=num_steps,
        keep=keeping.last() if last_iterate else None,
        name=_with_forms(
            f"MIM-{num_steps}",
            ["random start"] * random_start + ["last"] * last_iterate,
        ),
    )


@takes(PgdOptions)
def cw(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 30,
    step_size: float | None = None,
    confidence: float = 50.0,
    **options: Unpack[PgdOptions],
) -> GradientAscent:
    """PGD on Carlini and Wagner's margin.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default epsilon / 4.
        confidence: Margin at which the climb ends, see `objectives.margin`.
        **options: Options of `pgd`.
    """
    return pgd(
        epsilon,
        num_steps=num_steps,
        step_size=step_size,
        objective=objectives.margin(confidence),
        name=f"C&W-{num_steps}",
        **options,
    )


def fea(
    epsilon: float | ThreatModel,
    *,
    targets: tuple[Any, Any],
    num_targets: int = 200,
    num_steps: int = 50,
    step_size: float | None = None,
    features: str = "map",
) -> Restarts:
    """PGD towards the features of images of other classes, one by one.

    Args:
        epsilon: Radius of the ball, or a threat model.
        targets: (images, labels) from which target images are drawn.
        num_targets: Number of target images tried for each example.
        num_steps: Number of steps for each target.
        step_size: Length of a step; by default epsilon / 8.
        features: "map", before the global pooling, as the paper says;
            "pooled", after it, as its released code does; or "logits", for a
            classifier that is not a functional Keras model.

    Reference: Lin et al., a feature attack on feature scattering, 2019.
    """
    objective = objectives.feature_similarity(targets, features=features)
    return Restarts(
        pgd(
            epsilon,
            num_steps=num_steps,
            step_size=step_size,
            share=1 / 8,
            objective=objective,
        ),
        num_targets,
        name=f"Fea-{num_steps}x{num_targets}{objective.features.suffix}",
    )


def spsa(
    epsilon: float | ThreatModel,
    *,
    num_samples: int = 256,
    num_steps: int = 100,
    learning_rate: float | None = None,
    radius: float = 0.001,
) -> GradientAscent:
    """Ascent on the margin with gradients estimated from queries alone.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_samples: Number of queries in a step, 256 to 2048 in the paper;
            even, since queries come in pairs.
        num_steps: Largest number of steps; the climb stops when the image is
            misclassified.
        learning_rate: Learning rate of Adam; by default a step covers 0.32
            epsilon, which is the paper's rate of 0.01 at an l-infinity epsilon
            of 8/255.
        radius: Distance of the queries from the image.

    Reference: Uesato et al., Adversarial Risk and the Dangers of Evaluating
    Against Weak Attacks, 2018.
    """
    return GradientAscent(
        Dirac(threat_models.get(epsilon), random_start=False),
        objectives.margin(),
        step_rules.adam(learning_rate, 0.9, 0.999, share=0.01 * 255 / 8),
        num_steps=num_steps,
        gradient=gradients.spsa(num_samples, radius),
        keep=keeping.first_wrong(),
        name=f"SPSA-{num_samples}",
    )


@takes(LangevinOptions)
def langevin(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    step_size: float | None = None,
    temperature: float = 0.01,
    num_points: int | None = None,
    objective: Objective | Callable[..., Any] = objectives.cross_entropy,
    **options: Unpack[LangevinOptions],
) -> Chain:
    """A Langevin chain: PGD with noise, and the distribution of its points.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default a share of epsilon.
        temperature: Temperature of the noise, in units of epsilon.
        num_points: Number of the last points that form the distribution; by
            default half of the steps.
        objective: Function to climb.
        **options: `share` and `search_precision`, see `pgd`.

    Reference: Robey et al., Adversarial Robustness with Semi-Infinite
    Constrained Learning, 2021 (DALE).
    """
    share = options.get("share", 1 / 4)
    return Chain(
        Dirac(threat_models.get(epsilon)),
        objective,
        step_rules.langevin(step_size, share=share, temperature=temperature),
        num_steps=num_steps,
        num_points=num_points or max(1, num_steps // 2),
        gradient=_backpropagation(options),
        name=f"Langevin-{num_steps}",
    )


def uniform(epsilon: float | ThreatModel) -> Noise:
    """Uniform noise in the ball: no attack, but a baseline for attacks."""
    return Noise(threat_models.get(epsilon))


def _backpropagation(options: PrecisionOptions) -> gradients.GradientEstimator:
    return gradients.backpropagation(
        precision=options.get("search_precision", gradients.FLOAT32)
    )


def _with_forms(name: str, forms: list[str]) -> str:
    """Appends the settings in which an attack differs from its usual form."""
    return f"{name} ({', '.join(forms)})" if forms else name
