"""Attacks: the inner maximisers, for training and for evaluation alike.

Every attack is a composition of a distribution, an objective and a step rule:

    GradientAscent(
        Dirac(Linf(8 / 255)), cross_entropy, steepest(2 / 255), num_steps=20)
    GradientAscent(
        TanhGaussian(Linf(8 / 255)), cross_entropy, adam(0.3),
        num_steps=7, num_samples=5, entropy_weight=0.01)

The named attacks are one such expression each: `fgsm`, `pgd`, `mim`, `cw`,
`fea`, `spsa`, `exp`, and `identity`, which leaves the image as it is;
`langevin` is a `Chain`, and `uniform` draws noise. In the amortised attacks,
`exp_am`, `imp_am` and `l2l`, networks replace the loop.

`apgd_ce`, `apgd_t`, `fab_t` and `square` are the four parts of `autoattack`;
each is an algorithm of its own. `Restarts` and `Transfer` wrap other attacks.

`attack(classifier, x, y)` returns adversarial images, and
`attack.distribution(classifier, x, y)` returns the distribution.
"""

from adt_tf.attacks.amortized import Amortized
from adt_tf.attacks.autoattack_parts.apgd import APGD, apgd_ce, apgd_dlr, apgd_t
from adt_tf.attacks.autoattack_parts.fab import FAB, fab_t
from adt_tf.attacks.autoattack_parts.square import Square, square
from adt_tf.attacks.base import Attack, Identity, PointAttack
from adt_tf.attacks.chain import Chain
from adt_tf.attacks.combinators import Restarts, Transfer
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.noise import Noise
from adt_tf.attacks.recipes import (
    autoattack,
    cw,
    exp,
    exp_am,
    fea,
    fgsm,
    get,
    identity,
    imp_am,
    l2l,
    langevin,
    mim,
    pgd,
    spsa,
    uniform,
)
from adt_tf.attacks.results import AdversarialBatch, Problem, Progress

__all__ = [
    "APGD",
    "FAB",
    "AdversarialBatch",
    "Amortized",
    "Attack",
    "Chain",
    "GradientAscent",
    "Identity",
    "Noise",
    "PointAttack",
    "Problem",
    "Progress",
    "Restarts",
    "Square",
    "Transfer",
    "apgd_ce",
    "apgd_dlr",
    "apgd_t",
    "autoattack",
    "cw",
    "exp",
    "exp_am",
    "fab_t",
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
    "square",
    "uniform",
]
