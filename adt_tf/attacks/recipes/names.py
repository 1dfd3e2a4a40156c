"""Attacks by name, as flags give them: "fgsm", "pgd-20", "pgd-20x10"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from adt_tf.attacks.autoattack_parts.apgd import apgd_ce, apgd_dlr, apgd_t
from adt_tf.attacks.autoattack_parts.fab import fab_t
from adt_tf.attacks.autoattack_parts.square import square
from adt_tf.attacks.base import Attack
from adt_tf.attacks.combinators import Restarts
from adt_tf.attacks.options import argument_names
from adt_tf.attacks.recipes.amortized import exp_am, imp_am
from adt_tf.attacks.recipes.explicit import exp
from adt_tf.attacks.recipes.points import (
    cw,
    fea,
    fgsm,
    langevin,
    mim,
    pgd,
    spsa,
    uniform,
)
from adt_tf.threat_models import ThreatModel

# The function of each name, and the argument that a number after it sets.
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

# Words after a name, and the argument that each sets.
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
        name: A name; then, optionally, a number of steps (of targets for
            "fea", of queries for "spsa" and "square") and a number of
            restarts. Words between name and number select a variant, either of
            the paper's released code: "mim-random" starts at random,
            "pgd-last", "mim-last" and "cw-last" return the last iterate,
            "fea-pooled" takes the features after the pooling; or another
            distribution: "exp-mixture", "exp-lowrank", "exp-am-flow",
            "imp-am-stein".
        epsilon: Radius of the ball, or a threat model.
        **context: Arguments that some attacks need or accept, and that the
            others ignore: `search_precision` for "pgd", "cw" and "exp",
            `targets` and `features` for "fea", `input_shape` and
            `width_factor` for "exp-am" and "imp-am".

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
            f"Argument `name` must be one of {list(_RECIPES)}, optionally "
            "with a number of steps, as in 'pgd-20' (FGSM has one step), and "
            f"of restarts, as in 'pgd-20x10'. Received: name={name!r}"
        )
    accepted = argument_names(function)
    arguments = {k: v for form in forms for k, v in _FORMS[form].items()}
    if not arguments.keys() <= set(accepted):
        raise ValueError(
            f"The attack {recipe!r} has no form {'-'.join(forms)!r}: the forms "
            "are 'mim-random', 'pgd-last', 'mim-last', 'cw-last', "
            "'fea-pooled', 'exp-mixture', 'exp-lowrank', 'exp-am-mixture', "
            "'exp-am-lowrank', 'exp-am-flow' and 'imp-am-stein'. Received: "
            f"name={name!r}"
        )
    context = {k: v for k, v in context.items() if k in accepted}
    arguments = context | arguments
    missing = [
        key
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
        and key not in (*arguments, "epsilon")
    ]
    if missing:
        raise ValueError(
            f"The attack {name!r} also needs {missing}: pass it to `get`, or "
            f"build the attack with `adt_tf.attacks.{function.__name__}`."
        )
    if number and counted:
        arguments[counted] = int(number)
    attack = function(epsilon, **arguments)
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
