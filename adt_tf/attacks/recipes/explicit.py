"""The attack of ADT-EXP: ascent on the parameters of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adt_tf import gradients, objectives, step_rules, threat_models
from adt_tf.attacks import keeping
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.options import (
    AdamOptions,
    ExpOptions,
    FamilyOptions,
    GradientOptions,
    pick,
    takes,
)
from adt_tf.distributions import named
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule
from adt_tf.threat_models import ThreatModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(ExpOptions)
def exp(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    num_samples: int = 10,
    step_size: float = 0.3,
    entropy_weight: float = 0.0,
    objective: Objective | Callable[..., Any] = objectives.cross_entropy,
    **options: Unpack[ExpOptions],
) -> GradientAscent:
    """Ascent on the parameters of a squashed Gaussian, or of a richer family.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps, T; 7 in the paper's training, 20 in its
            evaluation.
        num_samples: Number of samples in a step, k; 5 in training, 10 in
            evaluation.
        step_size: Learning rate of Adam (betas 0, 0) for mu and rho.
        entropy_weight: Weight lambda of the entropy; 0.01 in training. In an
            evaluation the entropy only weakens the attack: where the loss is
            flat, the ascent follows the entropy alone.
        objective: Function to climb in addition to the entropy.
        **options: Any of:

            - `family`: "gaussian"; "mixture", or "mixture-5" with five
              components; "low-rank", or "low-rank-8" with eight directions.
            - `entropy`: "perturbation", as in Eq. 11; or "gaussian", the
              entropy before tanh.
            - `entropy_reduction`: "mean" or "sum" over the dimensions.
            - `sample_chunk`: Number of samples that the classifier sees at
              once, a divisor of k; fewer need less memory. By default all.
            - `search_precision`: Format of the search, see
              `gradients.backpropagation`.
            - `gradient_decay`: Decay d in g <- d g + new; 1.0 in the paper's
              released code, 0.0 (the default) in the paper.
            - `adam_epsilon`: Adam's epsilon, by default 1e-8, next to each
              example's own gradient, a mean over k. The released code has 1e-8
              next to a mean over B images and a sum over k, which acts like
              1e-8 * B / k here.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 2.
    """
    family = {"family": named.DEFAULT, **pick(options, FamilyOptions)}
    return GradientAscent(
        named.named(threat_model=threat_models.get(epsilon), **family),
        objective,
        _adam(step_size, **pick(options, AdamOptions)),
        num_steps=num_steps,
        num_samples=num_samples,
        entropy_weight=entropy_weight,
        gradient=_backpropagation(**pick(options, GradientOptions)),
        keep=keeping.last(),
        name=f"EXP-{num_steps}" + named.suffix(family["family"]),
    )


def _adam(
    step_size: float, *, gradient_decay: float = 0.0, adam_epsilon: float = 1e-8
) -> StepRule:
    rule: StepRule = step_rules.adam(step_size, epsilon=adam_epsilon)
    if gradient_decay:
        rule = step_rules.accumulate(rule, gradient_decay)
    return rule


def _backpropagation(
    *,
    sample_chunk: int | None = None,
    search_precision: str = gradients.FLOAT32,
) -> gradients.GradientEstimator:
    return gradients.backpropagation(sample_chunk, search_precision)
