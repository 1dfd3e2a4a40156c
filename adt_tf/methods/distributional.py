"""Methods whose attack is a distribution or a generator network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adt_tf import attacks, losses, objectives
from adt_tf.attacks.options import (
    ExpAmOptions,
    ExpOptions,
    ImpAmOptions,
    takes,
)
from adt_tf.methods.method import Method
from adt_tf.objectives import Objective
from adt_tf.threat_models import ThreatModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


def l2l(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Method:
    """Learning to learn: a generator network outputs one perturbation.

    The arguments are those of `attacks.l2l`.

    Reference: Jiang et al., Learning to Defend by Learning to Attack, 2018.
    """
    attack = attacks.l2l(
        epsilon,
        input_shape=input_shape,
        width_factor=width_factor,
        gradient_scale=gradient_scale,
        seed=seed,
    )
    return Method(attack, losses.cross_entropy)


@takes(ExpOptions)
def adt_exp(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    num_samples: int = 5,
    step_size: float = 0.3,
    entropy_weight: float = 0.01,
    beta: float | None = None,
    **options: Unpack[ExpOptions],
) -> Method:
    """ADT with explicit distributions: a squashed Gaussian for each image.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps, T.
        num_samples: Number of samples in a step, k.
        step_size: Learning rate of Adam for mu and rho.
        entropy_weight: Weight lambda of the entropy.
        beta: None for the cross-entropy; or the weight of TRADES' loss.
        **options: Options of `attacks.exp`.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 2.
    """
    objective, loss = _robust_loss(beta)
    attack = attacks.exp(
        epsilon,
        num_steps=num_steps,
        num_samples=num_samples,
        step_size=step_size,
        entropy_weight=entropy_weight,
        objective=objective,
        **options,
    )
    return Method(attack, loss)


@takes(ExpAmOptions)
def adt_exp_am(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float = 0.01,
    beta: float | None = None,
    seed: int = 0,
    **options: Unpack[ExpAmOptions],
) -> Method:
    """ADT-EXP with distributions that a generator network outputs.

    The arguments are those of `attacks.exp_am`, and `beta`: None for the
    cross-entropy, or the weight of TRADES' loss.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 3.
    """
    attack = attacks.exp_am(
        epsilon,
        input_shape=input_shape,
        width_factor=width_factor,
        entropy_weight=_weighted(entropy_weight, beta),
        seed=seed,
        **options,
    )
    return Method(attack, _robust_loss(beta)[1])


@takes(ImpAmOptions)
def adt_imp_am(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float | None = None,
    beta: float | None = None,
    seed: int = 0,
    **options: Unpack[ImpAmOptions],
) -> Method:
    """ADT with implicit distributions: noise through a generator network.

    The arguments are those of `attacks.imp_am`, and `beta`: None for the
    cross-entropy, or the weight of TRADES' loss.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 4.
    """
    if entropy_weight is None:
        has_threshold = options.get("entropy_threshold") is not None
        entropy_weight = 1.0 if has_threshold else 0.01
    attack = attacks.imp_am(
        epsilon,
        input_shape=input_shape,
        width_factor=width_factor,
        entropy_weight=_weighted(entropy_weight, beta),
        seed=seed,
        **options,
    )
    return Method(attack, _robust_loss(beta)[1])


def _robust_loss(
    beta: float | None,
) -> tuple[Objective | Callable[..., Any], losses.Loss]:
    """Returns objective and loss: cross-entropy, or TRADES' with a weight."""
    if beta is None:
        return objectives.cross_entropy, losses.cross_entropy
    return objectives.kl_from_clean, losses.trades(beta)


def _weighted(entropy_weight: float, beta: float | None) -> float:
    """Returns the weight of the entropy in the one scalar.

    With TRADES' loss the scalar is CE + beta * (KL + lambda * H), so that
    networks climb KL + lambda * H, as a loop does.
    """
    return entropy_weight if beta is None else entropy_weight * beta
