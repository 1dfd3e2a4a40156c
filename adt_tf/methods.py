"""The named training methods: an attack and a loss, nothing else.

    method = adt_tf.methods.adt_exp(epsilon=8 / 255)
    trainer = adt_tf.AdversarialTrainer(classifier, method.attack, method.loss)

`list()` names them with one line each; `get(name, **arguments)` resolves a
name, as the scripts do with their flags.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from adt_tf import attacks, losses, objectives, step_rules, threat_models
from adt_tf.attacks import Attack
from adt_tf.checks.arguments import number_above, number_at_least, one_of
from adt_tf.distributions import Dirac
from adt_tf.distributions.entropies import Entropy
from adt_tf.threat_models import ThreatModel


class Method(NamedTuple):
    """A training method: the inner maximiser and the outer loss."""

    attack: Attack
    loss: Callable[..., losses.RobustLoss]


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

    A step of 1.25 epsilon from a uniform draw in the ball, back into the ball.
    It may overfit catastrophically: watch PGD accuracy
    (`callbacks.CatastrophicOverfitting`), or take `n_fgsm`.

    Args:
        epsilon: The radius of the ball, or a threat model.
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
    not projected: the images that it trains on may lie up to
    (noise_share + step_share) * epsilon away, and the radius of its attack
    says so. Without noise it is FGSM.

    Args:
        epsilon: The radius of the ball, or a threat model.
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


def at_pgd(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    step_size: float | None = None,
    temperature: float | None = None,
    search_precision: str = "float32",
) -> Method:
    """Adversarial training by projected gradient ascent (epsilon / 4 a step).

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default epsilon / 4.
        temperature: None for PGD; or the temperature of a Langevin chain, of
            whose points one is trained on; see `attacks.langevin`.

    Reference: Madry et al., Towards Deep Learning Models Resistant to
    Adversarial Attacks, 2018.
    """
    steps = {
        "num_steps": num_steps,
        "step_size": step_size,
        "search_precision": search_precision,
    }
    if temperature is None:
        return Method(attacks.pgd(epsilon, **steps), losses.cross_entropy)
    attack = attacks.langevin(epsilon, **steps, temperature=temperature)
    return Method(attack, losses.cross_entropy)


def alp(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    step_size: float | None = None,
    search_precision: str = "float32",
    pairing_weight: float = 0.5,
) -> Method:
    """Adversarial logit pairing: AT-PGD that draws the logits together.

    Reference: Kannan et al., Adversarial Logit Pairing, 2018.
    """
    attack = attacks.pgd(
        epsilon,
        num_steps=num_steps,
        step_size=step_size,
        search_precision=search_precision,
    )
    return Method(attack, losses.alp(pairing_weight))


def fea_scatter(
    epsilon: float | ThreatModel = 8 / 255, *, label_smoothing: float = 0.5
) -> Method:
    """Feature scattering: one step away from the clean batch as a whole.

    One step of size epsilon from a random start on the transport distance
    between the clean and the perturbed batch; a smoothed outer loss. Weights
    of examples count in the outer loss alone: every image has the same share
    of the transport.

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


def trades(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 10,
    step_size: float | None = None,
    search_precision: str = "float32",
    beta: float = 6.0,
) -> Method:
    """TRADES: clean cross-entropy and the divergence of attacked images.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    attack = attacks.pgd(
        epsilon,
        num_steps=num_steps,
        step_size=step_size,
        objective=objectives.kl_from_clean,
        search_precision=search_precision,
        name=f"KL PGD-{num_steps}",
    )
    return Method(attack, losses.trades(beta))


def mart(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 10,
    step_size: float | None = None,
    search_precision: str = "float32",
    beta: float = 5.0,
) -> Method:
    """MART: AT-PGD that weighs misclassified images more.

    Reference: Wang et al., Improving Adversarial Robustness Requires
    Revisiting Misclassified Examples, 2020.
    """
    attack = attacks.pgd(
        epsilon,
        num_steps=num_steps,
        step_size=step_size,
        search_precision=search_precision,
    )
    return Method(attack, losses.mart(beta))


def l2l(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Method:
    """Learning to learn: a generator network gives one perturbation.

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


def adt_exp(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    num_steps: int = 7,
    num_samples: int = 5,
    sample_chunk: int | None = None,
    step_size: float = 0.3,
    entropy_weight: float = 0.01,
    entropy_reduction: str = "mean",
    entropy: str | Entropy = "perturbation",
    family: str = "gaussian",
    gradient_decay: float = 0.0,
    adam_epsilon: float = 1e-8,
    search_precision: str = "float32",
    beta: float | None = None,
) -> Method:
    """ADT with explicit distributions: a squashed Gaussian for each image.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: T.
        num_samples: k.
        sample_chunk: Samples at once, a divisor of k, to save memory; by
            default all.
        step_size: Of Adam, betas 0, for mu and rho.
        entropy_weight: lambda.
        entropy_reduction: Over the dimensions, "mean" or "sum".
        entropy: "perturbation", as in Eq. 11; or "gaussian", before tanh.
        family: "gaussian", or a richer one: "mixture" or "low-rank"; see
            `attacks.exp`.
        gradient_decay: Of the gradients over the steps; see `attacks.exp`.
        adam_epsilon: Adam's epsilon for mu and rho; see `attacks.exp`.
        search_precision: Format of the search; see
            `gradients.backpropagation`.
        beta: None for the cross-entropy, or TRADES' loss with this weight.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 2.
    """
    objective, loss = _robust_loss(beta)
    attack = attacks.exp(
        epsilon,
        num_steps=num_steps,
        num_samples=num_samples,
        sample_chunk=sample_chunk,
        step_size=step_size,
        entropy_weight=entropy_weight,
        entropy_reduction=entropy_reduction,
        entropy=entropy,
        family=family,
        gradient_decay=gradient_decay,
        adam_epsilon=adam_epsilon,
        search_precision=search_precision,
        objective=objective,
    )
    return Method(attack, loss)


def adt_exp_am(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float = 0.01,
    entropy_reduction: str = "mean",
    entropy: str | Entropy = "perturbation",
    family: str = "gaussian",
    gradient_scale: float | None = None,
    beta: float | None = None,
    seed: int = 0,
) -> Method:
    """ADT-EXP with the distributions given by a generator network.

    Args:
        epsilon: The radius of the ball, or a threat model.
        input_shape: Of an image: height, width, channels.
        width_factor: Of the generator; 1 is the paper's.
        entropy_weight: lambda.
        entropy_reduction: Over the dimensions, "mean" or "sum".
        entropy: "perturbation", as in Eq. 11; or "gaussian", before tanh.
        family: "gaussian", or a richer one: "mixture", "low-rank" or "flow";
            see `attacks.exp_am`.
        gradient_scale: Factor of the gradients that the generator sees; see
            `attacks.exp_am`.
        beta: None for the cross-entropy, or TRADES' loss with this weight.
        seed: Of the generator's weights.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 3.
    """
    attack = attacks.exp_am(
        epsilon,
        input_shape=input_shape,
        width_factor=width_factor,
        entropy_weight=entropy_weight * (1.0 if beta is None else beta),
        entropy_reduction=entropy_reduction,
        entropy=entropy,
        family=family,
        gradient_scale=gradient_scale,
        seed=seed,
    )
    return Method(attack, _robust_loss(beta)[1])


def adt_imp_am(
    epsilon: float | ThreatModel = 8 / 255,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float | None = None,
    entropy_reduction: str = "mean",
    entropy: str = "posterior",
    entropy_threshold: float | None = None,
    gradient_scale: float | None = None,
    beta: float | None = None,
    seed: int = 0,
) -> Method:
    """ADT with implicit distributions: noise through a generator network.

    Arguments as in `adt_exp_am`, and:

    Args:
        epsilon: The radius of the ball, or a threat model.
        input_shape: Of an image: height, width, channels.
        width_factor: Of the generator and of q; 1 is the paper's.
        entropy_weight: lambda, of log q(z | delta); by default 0.01, and 1
            with a threshold.
        entropy_reduction: Over the dimensions of z, "mean" or "sum".
        entropy: "posterior", the bound of q; or "stein", an estimate from
            samples, without q; see `attacks.imp_am`.
        entropy_threshold: 0.9 is the hinge of the paper's released code, on
            the mean over a batch; None is the paper's own form.
        gradient_scale: Factor of the gradients that the generator sees; see
            `attacks.imp_am`.
        beta: None for the cross-entropy, or TRADES' loss with this weight.
        seed: Of the networks' weights.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 4.
    """
    if entropy_weight is None:
        entropy_weight = 0.01 if entropy_threshold is None else 1.0
    attack = attacks.imp_am(
        epsilon,
        input_shape=input_shape,
        width_factor=width_factor,
        entropy_weight=entropy_weight * (1.0 if beta is None else beta),
        entropy_reduction=entropy_reduction,
        entropy=entropy,
        entropy_threshold=entropy_threshold,
        gradient_scale=gradient_scale,
        seed=seed,
    )
    return Method(attack, _robust_loss(beta)[1])


def _robust_loss(beta: float | None) -> tuple[Any, Any]:
    """The objective and the loss: cross-entropy, or TRADES' with a weight.

    With TRADES' loss the one scalar is CE + beta * (KL + lambda * H), so that
    networks climb KL + lambda * H, as a loop does.
    """
    if beta is None:
        return objectives.cross_entropy, losses.cross_entropy
    return objectives.kl_from_clean, losses.trades(beta)


_METHODS = {
    function.__name__: function
    for function in (
        standard,
        at_fgsm,
        fgsm_rs,
        n_fgsm,
        at_pgd,
        alp,
        fea_scatter,
        trades,
        mart,
        l2l,
        adt_exp,
        adt_exp_am,
        adt_imp_am,
    )
}


def list() -> dict[str, str]:
    """Returns the methods' names, each with one line on what it is."""
    return {
        name: inspect.getdoc(function).splitlines()[0]
        for name, function in _METHODS.items()
    }


def arguments(name: str) -> tuple[str, ...]:
    """Returns the names of the arguments that a method takes.

    Example:

    >>> arguments("at_pgd")
    ('epsilon', 'num_steps', 'step_size', 'temperature', 'search_precision')
    """
    one_of(_METHODS, name=name)
    return tuple(inspect.signature(_METHODS[name]).parameters)


def get(name: str, **given: Any) -> Method:
    """Returns the method of that name.

    Args:
        name: One of `list()`.
        **given: The method's own arguments; another one is an error.

    Example:

    >>> get("at_pgd", epsilon=0.1, num_steps=3).attack
    <PGD-3: Dirac in Linf(epsilon=0.1, bounds=(0.0, 1.0)), cross_entropy,
    sign(0.025), num_steps=3, keep_best>
    """
    taken = arguments(name)
    unknown = sorted(set(given) - set(taken))
    if unknown:
        raise ValueError(
            f"Method {name!r} does not take {', '.join(unknown)}; it takes "
            f"{', '.join(taken)}."
        )
    return _METHODS[name](**given)
