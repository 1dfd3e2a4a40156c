"""The named training methods: an attack and a loss, nothing else.

    method = adt_tf.methods.adt_exp(epsilon=8 / 255)
    trainer = adt_tf.AdversarialTrainer(classifier, method.attack, method.loss)

`list()` names them with one line each; `get(name, **arguments)` resolves a
name, as the commands do with their flags. A method takes the options of its
attack, `**options`, and passes them on (`adt_tf.attacks.options`).
`adversarial` has the methods that train on one perturbation of each image,
`distributional` those that learn distributions or generators.
"""

from __future__ import annotations

import inspect
from typing import Any

from adt_tf.attacks.options import argument_names
from adt_tf.checks.arguments import one_of
from adt_tf.methods.adversarial import (
    alp,
    at_fgsm,
    at_pgd,
    fea_scatter,
    fgsm_rs,
    mart,
    n_fgsm,
    standard,
    trades,
)
from adt_tf.methods.distributional import (
    adt_exp,
    adt_exp_am,
    adt_imp_am,
    l2l,
)
from adt_tf.methods.method import Method

__all__ = [
    "Method",
    "adt_exp",
    "adt_exp_am",
    "adt_imp_am",
    "alp",
    "arguments",
    "at_fgsm",
    "at_pgd",
    "fea_scatter",
    "fgsm_rs",
    "get",
    "l2l",
    "list",
    "mart",
    "n_fgsm",
    "standard",
    "trades",
]

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
    """Returns the names of the methods, each with a one-line description."""
    return {
        name: (inspect.getdoc(function) or "").partition("\n")[0]
        for name, function in _METHODS.items()
    }


def arguments(name: str) -> tuple[str, ...]:
    """Returns the names of the arguments that a method takes.

    Example:

    >>> arguments("at_pgd")
    ('epsilon', 'num_steps', 'temperature', 'search_precision', 'step_size')
    """
    one_of(_METHODS, name=name)
    return argument_names(_METHODS[name])


def get(name: str, **settings: Any) -> Method:
    """Returns the method of a name.

    Args:
        name: One of `list()`.
        **settings: Arguments of the method; an unknown one is an error.

    Example:

    >>> get("at_pgd", epsilon=0.1, num_steps=3).attack
    <PGD-3: Dirac in Linf(epsilon=0.1, bounds=(0.0, 1.0)), cross_entropy,
    sign(0.025), num_steps=3, keep_best>
    """
    accepted = arguments(name)
    unknown = sorted(set(settings) - set(accepted))
    if unknown:
        raise ValueError(
            f"Method {name!r} does not take {', '.join(unknown)}; it takes "
            f"{', '.join(accepted)}."
        )
    return _METHODS[name](**settings)
