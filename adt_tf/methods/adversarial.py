"""Methods that train on one perturbation of each image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adt_tf import attacks, losses, objectives, step_rules, threat_models
from adt_tf.attacks.options import StepOptions, takes
from adt_tf.checks.arguments import number_above, number_at_least
from adt_tf.distributions import Dirac
from adt_tf.methods.method import Method
from adt_tf.threat_models import ThreatModel

if TYPE_CHECKING:
    from typing_extensions import Unpack


def standard(epsilon: float | ThreatModel = 8 / 255) -> Method:
    """Standard training on the images as they are (epsilon is not used)."""
    del epsilon
    return Method(attacks.identity(), losses.cross_entropy)


def at_fgsm(epsilon: float | ThreatModel = 8 / 255) -> Method:
    """Adversarial training by one step towards a random wrong class.

    Reference: Kurakin et al., Adversarial Machine Learning at Scale, 2017.
    """
    attack = attacks.fgsm(
        epsilon,
        objective=objectives.targeted_cross_entropy,
        name="targeted FGSM",
    )
    return Method(attack, losses.cross_entropy)


def fgsm_rs(
    epsilon: float | ThreatModel = 8 / 255, *, step_size: float | None = None
) -> Method:
    """Fast adversarial training: one step from a random start.

    A step of 1.25 epsilon from a uniform draw in the ball, projected onto the
    ball. It may overfit catastrophically: watch PGD accuracy
    (`callbacks.CatastrophicOverfitting`), or use `n_fgsm`.

    Args:
        epsilon: Radius of the ball, or a threat model.
        step_size: Length of the step; by default 1.25 epsilon.

    Reference: Wong et al., Fast is Better than Free, 2020.
    """
    attack = attacks.pgd(
        epsilon, num_steps=1, step_size=step_size, share=1.25, name="FGSM-RS"
    )
    return Method(attack, losses.cross_entropy)


def n_fgsm(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    step_share: float = 1.0,
    noise_share: float = 2.0,
) -> Method:
    """Noise-FGSM: one step after strong noise, which prevents a collapse.

        x_adv = clip(x + eta + step_share * epsilon * sign(gradient at x + eta))

    with eta uniform in a ball of radius noise_share * epsilon. The result is
    not projected: training images may lie up to
    (noise_share + step_share) * epsilon away, and this is the radius of the
    attack's threat model. Without noise it is FGSM.

    Args:
        epsilon: Radius of the ball, or a threat model.
        step_share: Length of the step, in epsilons.
        noise_share: Radius of the noise, in epsilons.

    Reference: de Jorge et al., Make Some Noise: Reliable and Efficient
    Single-Step Adversarial Training, 2022.
    """
    number_above(0, step_share=step_share)
    number_at_least(0, noise_share=noise_share)
    reach = step_share + noise_share
    ball = threat_models.get(epsilon).scaled(reach)
    attack = attacks.GradientAscent(
        Dirac(ball, start_share=noise_share / reach),
        objectives.cross_entropy,
        step_rules.steepest(share=step_share / reach),
        num_steps=1,
        name="N-FGSM",
    )
    return Method(attack, losses.cross_entropy)


@takes(StepOptions)
def at_pgd(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    temperature: float | None = None,
    **options: Unpack[StepOptions],
) -> Method:
    """Adversarial training by projected gradient ascent (epsilon / 4 a step).

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        temperature: None for PGD; or the temperature of a Langevin chain, one
            of whose points is trained on; see `attacks.langevin`.
        **options: `step_size` and `search_precision`, see `attacks.pgd`.

    Reference: Madry et al., Towards Deep Learning Models Resistant to
    Adversarial Attacks, 2018.
    """
    if temperature is None:
        attack = attacks.pgd(epsilon, num_steps=num_steps, **options)
    else:
        attack = attacks.langevin(
            epsilon, num_steps=num_steps, temperature=temperature, **options
        )
    return Method(attack, losses.cross_entropy)


@takes(StepOptions)
def alp(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    pairing_weight: float = 0.5,
    **options: Unpack[StepOptions],
) -> Method:
    """Adversarial logit pairing: AT-PGD that draws the logits together.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        pairing_weight: Weight of the logit pairing, see `losses.alp`.
        **options: `step_size` and `search_precision`, see `attacks.pgd`.

    Reference: Kannan et al., Adversarial Logit Pairing, 2018.
    """
    attack = attacks.pgd(epsilon, num_steps=num_steps, **options)
    return Method(attack, losses.alp(pairing_weight))


def fea_scatter(
    epsilon: float | ThreatModel = 8 / 255, *, label_smoothing: float = 0.5
) -> Method:
    """Feature scattering: one step away from the clean batch as a whole.

    One step of size epsilon from a random start on the transport distance
    between the clean and the perturbed batch; a smoothed outer loss. Example
    weights count in the outer loss alone: every image has the same share of
    the transport.

    Args:
        epsilon: Radius of the ball, or a threat model.
        label_smoothing: Share of the wrong classes in the smoothed labels.

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    attack = attacks.pgd(
        epsilon,
        num_steps=1,
        share=1.0,
        objective=objectives.transport_distance,
        name="feature scattering",
    )
    return Method(attack, losses.smoothed_cross_entropy(label_smoothing))


@takes(StepOptions)
def trades(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 10,
    beta: float = 6.0,
    **options: Unpack[StepOptions],
) -> Method:
    """TRADES: clean cross-entropy and the divergence of attacked images.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        beta: Weight of the divergence.
        **options: `step_size` and `search_precision`, see `attacks.pgd`.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    attack = attacks.pgd(
        epsilon,
        num_steps=num_steps,
        objective=objectives.kl_from_clean,
        name=f"KL PGD-{num_steps}",
        **options,
    )
    return Method(attack, losses.trades(beta))


@takes(StepOptions)
def mart(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 10,
    beta: float = 5.0,
    **options: Unpack[StepOptions],
) -> Method:
    """MART: AT-PGD that weighs misclassified images more.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
        beta: Weight of the divergence, see `losses.mart`.
        **options: `step_size` and `search_precision`, see `attacks.pgd`.

    Reference: Wang et al., Improving Adversarial Robustness Requires
    Revisiting Misclassified Examples, 2020.
    """
    attack = attacks.pgd(epsilon, num_steps=num_steps, **options)
    return Method(attack, losses.mart(beta))
