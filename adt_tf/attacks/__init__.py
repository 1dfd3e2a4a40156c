"""Attacks: the inner maximisers, for training and for evaluation alike.

Every attack is a composition of a distribution, an objective and a step rule:

    GradientAscent(
        Dirac(Linf(8 / 255)), cross_entropy, sign(2 / 255), num_steps=20)
    GradientAscent(
        TanhGaussian(Linf(8 / 255)), cross_entropy, adam(0.3),
        num_steps=7, num_samples=5, entropy_weight=0.01)

The named ones are one such expression each: `fgsm`, `pgd`, `mim`, `cw`, `exp`,
and `identity`, which leaves the image alone. In the amortised ones, `exp_am`,
`imp_am` and `l2l`, networks take the place of the loop.

`attack(classifier, x, y)` gives adversarial images, and
`attack.distribution(classifier, x, y)` the distribution.
"""

from adt_tf.attacks.amortized import Amortized
from adt_tf.attacks.base import (
    AdversarialBatch,
    Attack,
    Identity,
    PointAttack,
)
from adt_tf.attacks.combinators import Restarts, Transfer
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.recipes import (
    cw,
    exp,
    exp_am,
    fea,
    fgsm,
    get,
    identity,
    imp_am,
    l2l,
    mim,
    pgd,
    spsa,
)

__all__ = [
    "AdversarialBatch",
    "Amortized",
    "Attack",
    "GradientAscent",
    "Identity",
    "PointAttack",
    "Restarts",
    "Transfer",
    "cw",
    "exp",
    "exp_am",
    "fea",
    "fgsm",
    "get",
    "identity",
    "imp_am",
    "l2l",
    "mim",
    "pgd",
    "spsa",
]
