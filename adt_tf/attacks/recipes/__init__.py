"""The named attacks, each one composition of the parts.

    pgd(8 / 255, num_steps=20)
    exp(8 / 255)

`epsilon` is a number, the radius of an l-infinity ball, or a threat model.
`points` has the attacks that move one image, `explicit` and `amortized` those
that search for a distribution, and `names` resolves names such as "pgd-20".
"""

from adt_tf.attacks.recipes.amortized import exp_am, imp_am, l2l
from adt_tf.attacks.recipes.explicit import exp
from adt_tf.attacks.recipes.names import autoattack, get, without_forms
from adt_tf.attacks.recipes.points import (
    cw,
    fea,
    fgsm,
    identity,
    langevin,
    mim,
    pgd,
    spsa,
    uniform,
)

__all__ = [
    "autoattack",
    "cw",
    "exp",
    "exp_am",
    "fea",
    "fgsm",
    "get",
    "identity",
    "imp_am",
    "l2l",
    "langevin",
    "mim",
    "pgd",
    "spsa",
    "uniform",
    "without_forms",
]
