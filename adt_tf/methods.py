"""The named training methods: an attack and a loss, nothing else.

    method = adt_tf.methods.adt_exp(epsilon=8 / 255)
    trainer = adt_tf.AdversarialTrainer(classifier, method.attack, method.loss)

`list()` names them with one line each; `get(name, **arguments)` resolves a
name, as the scripts do with their flags.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from adt_tf import attacks, losses, objectives
from adt_tf.attacks import Attack
from adt_tf.threat_models import Linf


class Method(NamedTuple):
    """A training method: the inner maximiser and the outer loss."""

    attack: Attack
    loss: Callable[..., losses.RobustLoss]


def standard(epsilon: float | Linf = 8 / 255) -> Method:
    """Standard training on the images as they are (epsilon is not used)."""
    del epsilon
    return Method(attacks.identity(), losses.cross_entropy)


def at_fgsm(epsilon: float | Linf = 8 / 255) -> Method:
    """Adversarial training by one step towards a random wrong class.

    Reference: Kurakin et al., Adversarial Machine Learning at Scale, 2017.
    """
    attack = attacks.fgsm(
        epsilon,
        objective=objectives.targeted_cross_entropy,
        name="targeted FGSM",
    )
    return Method(attack, losses.cross_entropy)


def at_pgd(
    epsilon: float | Linf = 8 / 255,
    *,
    num_steps: int = 7,
    step_size: float | None = None,
) -> Method:
    """Adversarial training by projected gradient ascent (epsilon / 4 a step).

    Reference: Madry et al., Towards Deep Learning Models Resistant to
    Adversarial Attacks, 2018.
    """
    attack = attacks.pgd(epsilon, num_steps=num_steps, step_size=step_size)
    return Method(attack, losses.cross_entropy)


def adt_exp(
    epsilon: float | Linf = 8 / 255,
    *,
    num_steps: int = 7,
    num_samples: int = 5,
    **arguments: Any,
) -> Method:
    """ADT with explicit distributions: a squashed Gaussian for each image.

    Further arguments are those of `adt_tf.attacks.exp`: `step_size`,
    `entropy_weight`, `entropy_reduction`, `gradient_decay`.

    Reference: Dong et al., Adversarial Distributional Training, 2020, Alg. 2.
    """
    attack = attacks.exp(
        epsilon, num_steps=num_steps, num_samples=num_samples, **arguments
    )
    return Method(attack, losses.cross_entropy)


_METHODS = {
    function.__name__: function
    for function in (standard, at_fgsm, at_pgd, adt_exp)
}


def list() -> dict[str, str]:
    """Returns the methods' names, each with one line on what it is."""
    return {
        name: inspect.getdoc(function).splitlines()[0]
        for name, function in _METHODS.items()
    }


def get(name: str, **arguments: Any) -> Method:
    """Returns the method of that name.

    Args:
        name: One of `list()`.
        **arguments: The method's own; one that it does not take is an error.

    Example:

    >>> get("at_pgd", epsilon=0.1, num_steps=3).attack
    <PGD-3, Linf(epsilon=0.1, bounds=(0.0, 1.0))>
    """
    if name not in _METHODS:
        raise ValueError(
            f"Argument `name` must be one of {builtins.list(_METHODS)}. "
            f"Received: name={name!r}"
        )
    try:
        return _METHODS[name](**arguments)
    except TypeError as error:
        raise ValueError(
            f"Method {name!r} does not take these arguments: {error}"
        ) from error
