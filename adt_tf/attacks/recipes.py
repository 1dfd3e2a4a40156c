"""The named attacks, each one composition of the parts.

    pgd(8 / 255, num_steps=20)
    exp(8 / 255)

`epsilon` is a number, or a threat model with other pixel bounds.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from adt_tf import gradients, networks, objectives, step_rules, threat_models
from adt_tf.attacks import keeping
from adt_tf.attacks.amortized import Amortized
from adt_tf.attacks.autoattack_parts.apgd import apgd_ce, apgd_dlr, apgd_t
from adt_tf.attacks.autoattack_parts.fab import fab_t
from adt_tf.attacks.autoattack_parts.square import square
from adt_tf.attacks.base import Attack, Identity
from adt_tf.attacks.chain import Chain
from adt_tf.attacks.combinators import Restarts
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.noise import Noise
from adt_tf.checks import arguments
from adt_tf.distributions import (
    Dirac,
    Flow,
    Generated,
    Implicit,
    ImplicitStein,
    named,
)
from adt_tf.distributions.entropies import Entropy
from adt_tf.objectives import Objective
from adt_tf.threat_models import ThreatModel


def identity() -> Identity:
    """No attack at all."""
    return Identity()


def fgsm(
    epsilon: float | ThreatModel,
    *,
    objective: Objective = objectives.cross_entropy,
    name: str = "FGSM",
) -> GradientAscent:
    """One steepest step of size epsilon from the image itself.

    Reference: Goodfellow et al., Explaining and Harnessing Adversarial
    Examples, 2015.
    """
    threat_model = threat_models.get(epsilon)
    return GradientAscent(
        Dirac(threat_model, random_start=False),
        objective,
        step_rules.steepest(share=1.0),
        num_steps=1,
        name=name,
    )


def pgd(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    step_size: float | None = None,
    share: float = 1 / 4,
    objective: Objective = objectives.cross_entropy,
    last_iterate: bool = False,
    search_precision: str = "float32",
    name: str | None = None,
) -> GradientAscent:
    """Projected steepest steps from a random start; step size epsilon / 4.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default a share of epsilon.
        share: The share of epsilon, where no `step_size` is given.
        objective: What is climbed.
        last_iterate: Whether a call gives back where the climb ends, as the
            paper's released code does, rather than the strongest image that
            it has met.
        search_precision: Format of the search; see
            `gradients.backpropagation`.
        name: The attack's name in tables.

    Reference: Madry et al., Towards Deep Learning Models Resistant to
    Adversarial Attacks, 2018.
    """
    threat_model = threat_models.get(epsilon)
    return GradientAscent(
        Dirac(threat_model),
        objective,
        step_rules.steepest(step_size, share=share),
        num_steps=num_steps,
        gradient=gradients.backpropagation(precision=search_precision),
        keep=keeping.last() if last_iterate else None,
        name=_named(
            name or f"PGD-{num_steps}",
            last=last_iterate,
            bfloat16=search_precision == "bfloat16",
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
    """Steepest steps along the accumulated gradient, from the image.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default epsilon / 4.
        decay: The weight of the gradients before.
        random_start: Whether to start at random, as the paper's released
            evaluation does; it was measured to be a little weaker.
        last_iterate: Whether a call gives back where the climb ends; see
            `pgd`.

    Reference: Dong et al., Boosting Adversarial Attacks with Momentum, 2018.
    """
    threat_model = threat_models.get(epsilon)
    return GradientAscent(
        Dirac(threat_model, random_start=random_start),
        objectives.cross_entropy,
        step_rules.momentum(step_size, decay),
        num_steps=num_steps,
        keep=keeping.last() if last_iterate else None,
        name=_named(
            f"MIM-{num_steps}", random_start=random_start, last=last_iterate
        ),
    )


def cw(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 30,
    step_size: float | None = None,
    confidence: float = 50.0,
    last_iterate: bool = False,
    search_precision: str = "float32",
) -> GradientAscent:
    """PGD on Carlini and Wagner's margin; the last two as in `pgd`."""
    return pgd(
        epsilon,
        num_steps=num_steps,
        step_size=step_size,
        objective=objectives.margin(confidence),
        last_iterate=last_iterate,
        search_precision=search_precision,
        name=f"C&W-{num_steps}",
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
        epsilon: The radius of the ball, or a threat model.
        targets: (images, labels) to draw the target images from.
        num_targets: How many are tried for each example.
        num_steps: Steps for each of them.
        step_size: By default epsilon / 8.
        features: "map", before the global pooling, as the paper says;
            "pooled", after it, as its released code does; or "logits", for a
            classifier that is no functional Keras model.

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
        epsilon: The radius of the ball, or a threat model.
        num_samples: Number of queries a step, 256 to 2048 in the paper; even,
            since they are made in pairs.
        num_steps: At most; it stops when the image is misclassified.
        learning_rate: Adam's; by default a step covers 0.32 epsilon, which is
            the paper's rate of 0.01 at an l-infinity epsilon of 8/255.
        radius: How far from the image the queries lie.

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


def langevin(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    step_size: float | None = None,
    share: float = 1 / 4,
    temperature: float = 0.01,
    num_points: int | None = None,
    search_precision: str = "float32",
    objective: Objective = objectives.cross_entropy,
) -> Chain:
    """A Langevin chain: PGD with noise, and the distribution of its points.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: Number of steps.
        step_size: Length of a step; by default a share of epsilon.
        share: The share of epsilon, where no `step_size` is given.
        temperature: Temperature of the noise, in units of epsilon.
        num_points: Number of the last points that make up the distribution;
            by default half of the steps.
        search_precision: Format of the search; see
            `gradients.backpropagation`.
        objective: What is climbed.

    Reference: Robey et al., Adversarial Robustness with Semi-Infinite
    Constrained Learning, 2021 (DALE).
    """
    return Chain(
        Dirac(threat_models.get(epsilon)),
        objective,
        step_rules.langevin(step_size, share=share, temperature=temperature),
        num_steps=num_steps,
        num_points=num_points or max(1, num_steps // 2),
        gradient=gradients.backpropagation(precision=search_precision),
        name=f"Langevin-{num_steps}",
    )


def uniform(epsilon: float | ThreatModel) -> Noise:
    """One image of uniform noise in the ball: no attack, but a measure."""
    return Noise(threat_models.get(epsilon))


def exp(
    epsilon: float | ThreatModel,
    *,
    num_steps: int = 20,
    num_samples: int = 10,
    sample_chunk: int | None = None,
    step_size: float = 0.3,
    entropy_weight: float = 0.0,
    entropy_reduction: str = "mean",
    entropy: str | Entropy = "perturbation",
    family: str = "gaussian",
    gradient_decay: float = 0.0,
    adam_epsilon: float = 1e-8,
    search_precision: str = "float32",
    objective: Objective = objectives.cross_entropy,
) -> GradientAscent:
    """Ascent on the parameters of a squashed Gaussian, or of a richer family.

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: T; 7 in the paper's training, 20 in its evaluation.
        num_samples: k; 5 in training, 10 in evaluation.
        sample_chunk: Samples at once, a divisor of k; by default all.
        step_size: Adam's learning rate (betas 0, 0) for mu and rho.
        entropy_weight: lambda; 0.01 in training. As an attack the entropy
            only weakens it: where the loss is flat, it is all that is climbed.
        entropy_reduction: Over the dimensions, "mean" or "sum".
        entropy: "perturbation", as in Eq. 11; or "gaussian", before tanh.
        family: "gaussian"; "mixture" or "mixture-5", of five components;
            "low-rank" or "low-rank-8", of eight directions.
        gradient_decay: g <- gradient_decay * g + new; 1.0 is what the
            paper's released code does, 0.0 what the paper says.
        adam_epsilon: Adam's epsilon beside each example's own gradient, a
            mean over k. The released code has 1e-8 beside a mean over B
            images and a sum over k, which acts like 1e-8 * B / k here.
        search_precision: Format of the search; see
            `gradients.backpropagation`.
        objective: What is climbed beside the entropy.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 2.
    """
    rule = step_rules.adam(step_size, epsilon=adam_epsilon)
    if gradient_decay:
        rule = step_rules.accumulate(rule, gradient_decay)
    return GradientAscent(
        named.named(
            family,
            threat_models.get(epsilon),
            entropy_reduction=entropy_reduction,
            entropy=entropy,
        ),
        objective,
        rule,
        num_steps=num_steps,
        num_samples=num_samples,
        entropy_weight=entropy_weight,
        gradient=gradients.backpropagation(sample_chunk, search_precision),
        keep=keeping.last(),
        name=_of_family(f"EXP-{num_steps}", family),
    )


def exp_am(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float = 0.01,
    entropy_reduction: str = "mean",
    entropy: str | Entropy = "perturbation",
    family: str = "gaussian",
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Amortized:
    """Squashed Gaussians, or what is richer, that a generator gives.

    Args:
        epsilon: The radius of the ball, or a threat model.
        input_shape: Of an image: height, width, channels.
        width_factor: Of the generator; 1 is the paper's.
        entropy_weight: lambda.
        entropy_reduction: Over the dimensions, "mean" or "sum".
        entropy: "perturbation", as in Eq. 11; or "gaussian", before tanh.
        family: As in `exp`; or "flow", and "flow-4" of four coupling layers.
        gradient_scale: Factor of the gradients that the generator sees; 1 /
            64 is the released code's at a batch of 64. By default they are
            normalised.
        seed: Of the generator's weights.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 3.
    """
    build = _AMORTIZED.get(named.split(family)[0], _generated)
    return Amortized(
        build(
            family,
            threat_models.get(epsilon),
            input_shape,
            {"width_factor": width_factor, "seed": seed},
            {"entropy_reduction": entropy_reduction, "entropy": entropy},
        ),
        entropy_weight=entropy_weight,
        gradient_scale=gradient_scale,
        name=_of_family("EXP-AM", family),
    )


def _generated(family, threat_model, input_shape, sizes, settings) -> Generated:
    """An explicit family of a name whose parameters a generator gives."""
    family = named.named(family, threat_model, **settings)
    generator = networks.explicit_generator(
        input_shape, num_maps=family.num_maps, **sizes
    )
    return Generated(family, generator)


def _flow(family, threat_model, input_shape, sizes, settings) -> Flow:
    """A flow of the number of coupling layers in its name, by default two."""
    entropy = settings["entropy"]
    if entropy != "perturbation":
        raise arguments.error(
            f"be 'perturbation' where the family is {family!r}", entropy=entropy
        )
    _, number = named.split(family)
    couplings = [
        networks.coupling(input_shape, **{**sizes, "seed": sizes["seed"] + i})
        for i in range(2 if number is None else number)
    ]
    return Flow(
        threat_model,
        networks.explicit_generator(input_shape, **sizes),
        couplings,
        entropy_reduction=settings["entropy_reduction"],
    )


# Families that are more than a generator of an explicit one's parameters.
_AMORTIZED = {"flow": _flow}


def imp_am(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    entropy_weight: float | None = None,
    entropy_reduction: str = "mean",
    entropy: str = "posterior",
    entropy_threshold: float | None = None,
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Amortized:
    """Noise pushed through a generator; arguments as in `exp_am`.

    Args:
        epsilon: The radius of the ball, or a threat model.
        input_shape: Of an image: height, width, channels.
        width_factor: Of the generator and of q; 1 is the paper's.
        entropy_weight: lambda, of log q(z | delta); by default 0.01, and 1
            with a threshold.
        entropy_reduction: Over the dimensions of z, "mean" or "sum".
        entropy: "posterior", the bound of a network q; or "stein", Stein's
            estimate from samples, or "stein-16" from 16 of them: then there
            is no q, and the dimensions are those of the image.
        entropy_threshold: None is the paper's form; 0.9 is the hinge of its
            authors' code, on the mean over a batch, which couples its
            examples in training.
        gradient_scale: Factor of the gradients that the generator sees; 1 /
            64 is the released code's at a batch of 64. By default they are
            normalised.
        seed: Of the networks' weights.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 4.
    """
    if entropy_weight is None:
        entropy_weight = 0.01 if entropy_threshold is None else 1.0
    sizes = {"width_factor": width_factor, "seed": seed}
    kind, number = named.split(entropy)
    arguments.one_of(
        _IMPLICIT if number is None else ["stein"],
        entropy=entropy if number is None else kind,
    )
    family = _IMPLICIT[kind](
        threat_models.get(epsilon),
        networks.implicit_generator(input_shape, **sizes),
        input_shape,
        sizes,
        {"entropy_reduction": entropy_reduction},
        number,
    )
    return Amortized(
        family,
        entropy_weight=entropy_weight,
        entropy_threshold=entropy_threshold,
        gradient_scale=gradient_scale,
        name="IMP-AM" if kind == "posterior" else f"IMP-AM ({entropy})",
    )


def _bounded(
    threat_model, generator, input_shape, sizes, settings, number
) -> Implicit:
    """An implicit family whose entropy a network q bounds."""
    posterior = networks.posterior(input_shape, **sizes)
    return Implicit(threat_model, generator, posterior, **settings)


def _estimated(
    threat_model, generator, input_shape, sizes, settings, number
) -> ImplicitStein:
    """An implicit family with Stein's entropy, of 8 samples by default."""
    if number is not None:
        settings["num_particles"] = number
    return ImplicitStein(threat_model, generator, **settings)


_IMPLICIT = {"posterior": _bounded, "stein": _estimated}


def l2l(
    epsilon: float | ThreatModel,
    *,
    input_shape: tuple[int, int, int],
    width_factor: float = 1.0,
    gradient_scale: float | None = None,
    seed: int = 0,
) -> Amortized:
    """One perturbation for an image, given by a generator.

    Reference: Jiang et al., Learning to Defend by Learning to Attack, 2018.
    """
    generator = networks.point_generator(
        input_shape, width_factor=width_factor, seed=seed
    )
    family = Dirac(threat_models.get(epsilon), random_start=False)
    return Amortized(
        Generated(family, generator), gradient_scale=gradient_scale, name="L2L"
    )


def _of_family(name: str, family: str) -> str:
    """Adds the family where it is not the usual one."""
    return name if family == "gaussian" else f"{name} ({family})"


def _named(name: str, **forms: bool) -> str:
    """Adds what tells an attack from its usual form, for tables and reprs."""
    words = [form.replace("_", " ") for form, is_set in forms.items() if is_set]
    return f"{name} ({', '.join(words)})" if words else name


# What each name builds, and the argument that a number after it sets.
_RECIPES: dict[str, tuple[Callable[..., Attack], str | None]] = {
    "fgsm": (fgsm, None),
    "pgd": (pgd, "num_steps"),
    "mim": (mim, "num_steps"),
    "cw": (cw, "num_steps"),
    "fea": (fea, "num_targets"),
    "spsa": (spsa, "num_samples"),
    "langevin": (langevin, "num_steps"),
    "uniform": (uniform, None),
    "exp": (exp, "num_steps"),
    "exp-am": (exp_am, None),
    "imp-am": (imp_am, None),
    "apgd-ce": (apgd_ce, "num_steps"),
    "apgd-dlr": (apgd_dlr, "num_steps"),
    "apgd-t": (apgd_t, "num_steps"),
    "fab-t": (fab_t, "num_steps"),
    "square": (square, "num_queries"),
}

# Words after a name that stand for an argument which the recipe takes.
_FORMS: dict[str, dict[str, Any]] = {
    "random": {"random_start": True},
    "last": {"last_iterate": True},
    "pooled": {"features": "pooled"},
    "mixture": {"family": "mixture"},
    "lowrank": {"family": "low-rank"},
    "flow": {"family": "flow"},
    "stein": {"entropy": "stein"},
}


def get(name: str, epsilon: float | ThreatModel, **context: Any) -> Attack:
    """Returns the attack of a name such as "fgsm", "pgd-20" or "pgd-20x10".

    Args:
        name: A name, a number if you like (of steps; of targets for "fea", of
            queries for "spsa" and "square"), and restarts. Between name and
            number may stand forms of the paper's released code: "mim-random"
            starts at random, "pgd-last", "mim-last" and "cw-last" give the
            last iterate, "fea-pooled" takes the features after the pooling;
            or another distribution: "exp-mixture", "exp-lowrank",
            "exp-am-flow", "imp-am-stein".
        epsilon: The radius of the ball, or a threat model.
        **context: What some attacks need or take: `search_precision` of
            "pgd", "cw" and "exp", `targets` for "fea" (which takes
            `features` too), `input_shape` and `width_factor` for "exp-am" and
            "imp-am". Others ignore it.

    Example:

    >>> get("pgd-100", 8 / 255).name
    'PGD-100'
    >>> get("pgd-20x10", 8 / 255).num_parts
    10
    >>> get("mim-random-last-20", 8 / 255).name
    'MIM-20 (random start, last)'
    """
    match = re.fullmatch(
        r"([a-z]+(?:-[a-z]+)*)(?:-([1-9][0-9]*))?(?:x([1-9][0-9]*))?",
        name.lower(),
    )
    words, number, restarts = match.groups() if match else ("", None, None)
    recipe, forms = without_forms(words)
    function, counted = _RECIPES.get(recipe, (None, None))
    if function is None or (number and counted is None):
        raise ValueError(
            f"Argument `name` must be one of {list(_RECIPES)}, with a number "
            "of steps if you like, as in 'pgd-20' (FGSM has one), and of "
            f"restarts, as in 'pgd-20x10'. Received: name={name!r}"
        )
    wanted = inspect.signature(function).parameters
    fixed = {k: v for form in forms for k, v in _FORMS[form].items()}
    if not fixed.keys() <= wanted.keys():
        raise ValueError(
            f"The attack {recipe!r} has no form {'-'.join(forms)!r}: the forms "
            "are 'mim-random', 'pgd-last', 'mim-last', 'cw-last', "
            "'fea-pooled', 'exp-mixture', 'exp-lowrank', 'exp-am-mixture', "
            "'exp-am-lowrank', 'exp-am-flow' and 'imp-am-stein'. Received: "
            f"name={name!r}"
        )
    given = {k: v for k, v in context.items() if k in wanted} | fixed
    missing = [
        key
        for key, parameter in wanted.items()
        if parameter.default is parameter.empty
        and key not in (*given, "epsilon")
    ]
    if missing:
        raise ValueError(
            f"The attack {name!r} also needs {missing}: pass it to `get`, or "
            f"build it with `adt_tf.attacks.{function.__name__}`."
        )
    if number:
        given[counted] = int(number)
    attack = function(epsilon, **given)
    return Restarts(attack, int(restarts)) if restarts else attack


def without_forms(words: str) -> tuple[str, list[str]]:
    """Splits "mim-random-last" into "mim" and ["random", "last"]."""
    parts = words.split("-")
    forms: list[str] = []
    while len(parts) > 1 and parts[-1] in _FORMS:
        forms.insert(0, parts.pop())
    return "-".join(parts), forms


def autoattack(epsilon: float | ThreatModel) -> list[Attack]:
    """The standard version of AutoAttack: four attacks, run in this order.

        evaluate(classifier, test, autoattack(8 / 255))

    Reference: Croce and Hein, Reliable Evaluation of Adversarial Robustness
    with an Ensemble of Diverse Parameter-free Attacks, 2020.
    """
    return [
        get(name, epsilon) for name in ("apgd-ce", "apgd-t", "fab-t", "square")
    ]
