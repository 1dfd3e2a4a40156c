"""The public parts of the core: one table each, shared by all tests.

`tests/test_conformance.py` checks the interface of every entry, and that no
public attack, method, norm, family, objective, step rule or gradient estimator
is missing from its table. `test_every_attack.py` and `test_every_method.py`
check the shared properties.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from adt_tf import (
    attacks,
    gradients,
    methods,
    networks,
    objectives,
    step_rules,
)
from adt_tf.distributions import (
    Dirac,
    Empirical,
    Flow,
    Generated,
    Implicit,
    ImplicitStein,
    TanhGaussian,
    TanhLowRank,
    TanhMixture,
)
from adt_tf.threat_models import L2, Linf
from tests.support.models import make_convolutional

SHAPE = (8, 8, 1)
WIDTH = 0.03125


def targets(shape=SHAPE, num_classes=3):
    """Images and labels that a feature attack may move to."""
    generator = np.random.default_rng(9)
    x = generator.uniform(size=(40, *shape)).astype("float32")
    return x, (np.arange(40) % num_classes).astype("int32")


@dataclasses.dataclass(frozen=True)
class AttackCase:
    """How an attack is built for tests.

    Attributes:
        function: A recipe of `adt_tf.attacks`; if `composed`, a function of
            (ball, shape, source, **settings).
        covers: Names of `adt_tf.attacks` that the case covers.
        few: Settings of a quick run, in which the first step is as long as the
            last.
        many: Settings of a run that succeeds; None if no run succeeds.
        climbs: Whether it follows gradients to the closed form on a linear
            classifier.
        grows: Argument whose larger values only add steps or parts to the same
            attack; None if there is none.
        takes_shape: Whether the recipe takes `input_shape`.
        composed: Whether it needs more than a recipe's own arguments.
    """

    function: Callable
    covers: tuple[str, ...]
    few: dict = dataclasses.field(default_factory=dict)
    many: dict | None = dataclasses.field(default_factory=dict)
    climbs: bool = False
    grows: str | None = None
    takes_shape: bool = False
    composed: bool = False


def _restarts(ball, shape, source, num_restarts, **settings):
    return attacks.Restarts(attacks.pgd(ball, **settings), num_restarts)


def _transfer(ball, shape, source, **settings):
    return attacks.Transfer(source, attacks.pgd(ball, **settings))


def _fea(ball, shape, source, **settings):
    return attacks.fea(ball, targets=targets(shape), **settings)


def _identity(ball, shape, source):
    return attacks.identity()


def _generated(function, **settings):
    settings |= {"width_factor": WIDTH}
    return AttackCase(
        function,
        (function.__name__, "Amortized"),
        settings,
        settings,
        takes_shape=True,
    )


ATTACKS = {
    "identity": AttackCase(_identity, ("identity", "Identity"), composed=True),
    "fgsm": AttackCase(attacks.fgsm, ("fgsm", "GradientAscent"), climbs=True),
    "pgd": AttackCase(
        attacks.pgd,
        ("pgd",),
        {"num_steps": 3},
        climbs=True,
        grows="num_steps",
    ),
    "pgd far": AttackCase(
        attacks.pgd, (), {"num_steps": 2, "step_size": 1e6}, None
    ),
    "mim": AttackCase(
        attacks.mim,
        ("mim",),
        {"num_steps": 3},
        climbs=True,
        grows="num_steps",
    ),
    "cw": AttackCase(
        attacks.cw,
        ("cw",),
        {"num_steps": 3},
        climbs=True,
        grows="num_steps",
    ),
    "exp": AttackCase(
        attacks.exp,
        ("exp",),
        {"num_steps": 2, "num_samples": 2, "step_size": 30.0},
        climbs=True,
    ),
    "exp mixture": AttackCase(
        attacks.exp,
        (),
        {
            "family": "mixture-2",
            "num_steps": 2,
            "num_samples": 4,
            "step_size": 30.0,
        },
        {"family": "mixture-2"},
    ),
    "exp low-rank": AttackCase(
        attacks.exp,
        (),
        {"family": "low-rank-2", "num_steps": 2, "num_samples": 2},
        {"family": "low-rank-2"},
    ),
    "langevin": AttackCase(
        attacks.langevin,
        ("langevin", "Chain"),
        {"num_steps": 3},
        grows="num_steps",
    ),
    "uniform": AttackCase(attacks.uniform, ("uniform", "Noise"), {}, None),
    "restarts": AttackCase(
        _restarts,
        ("Restarts",),
        {"num_restarts": 2, "num_steps": 2},
        {"num_restarts": 3},
        climbs=True,
        grows="num_restarts",
        composed=True,
    ),
    "transfer": AttackCase(
        _transfer, ("Transfer",), {"num_steps": 2}, composed=True
    ),
    "fea": AttackCase(
        _fea,
        ("fea",),
        {"num_targets": 2, "num_steps": 2},
        {"num_targets": 3, "num_steps": 10},
        grows="num_targets",
        composed=True,
    ),
    "spsa": AttackCase(
        attacks.spsa,
        ("spsa",),
        {"num_samples": 4, "num_steps": 2},
        {"num_samples": 64, "num_steps": 20, "learning_rate": 0.03},
        grows="num_steps",
    ),
    "apgd_ce": AttackCase(
        attacks.apgd_ce,
        ("apgd_ce", "APGD"),
        {"num_steps": 5},
        {"num_steps": 30},
        climbs=True,
    ),
    "apgd_dlr": AttackCase(
        attacks.apgd_dlr,
        ("apgd_dlr",),
        {"num_steps": 5},
        {"num_steps": 30},
        climbs=True,
    ),
    "apgd_t": AttackCase(
        attacks.apgd_t,
        ("apgd_t",),
        {"num_steps": 5, "num_targets": 2},
        {"num_steps": 30, "num_targets": 2},
        climbs=True,
        grows="num_targets",
    ),
    "fab_t": AttackCase(
        attacks.fab_t,
        ("fab_t", "FAB"),
        {"num_steps": 4, "num_targets": 2},
        {"num_steps": 20, "num_targets": 3},
        grows="num_steps",
    ),
    "square": AttackCase(
        attacks.square,
        ("square", "Square"),
        {"num_queries": 20},
        {"num_queries": 200},
    ),
    "exp_am": _generated(attacks.exp_am),
    "exp_am mixture": _generated(attacks.exp_am, family="mixture-2"),
    "exp_am low-rank": _generated(attacks.exp_am, family="low-rank-2"),
    "exp_am flow": _generated(attacks.exp_am, family="flow"),
    "imp_am": _generated(attacks.imp_am),
    "imp_am stein": _generated(attacks.imp_am, entropy="stein-4"),
    "l2l": _generated(attacks.l2l),
}

#: Attacks that should succeed with their settings `many`.
STRONG = [name for name, case in ATTACKS.items() if case.many is not None]
#: Attacks that reach the closed form on a linear classifier.
CLIMBING = [name for name, case in ATTACKS.items() if case.climbs]
#: Attacks that never get weaker when the argument `grows` is increased.
GROWING = [name for name, case in ATTACKS.items() if case.grows]
#: Attacks and objectives that hold arrays or a user's models.
NOT_SAVED = (
    "fea",
    "feature_similarity",
    "pooled_feature_similarity",
    "transfer",
)


def make_attack(name, ball, shape=SHAPE, *, many=False, source=None, **changes):
    """Builds an attack of the table in a ball (a threat model or a number)."""
    case = ATTACKS[name]
    settings = {**(case.many if many else case.few), **changes}
    if case.composed:
        if source is None and name == "transfer":
            source = make_convolutional(1)
        return case.function(ball, shape, source, **settings)
    if case.takes_shape:
        settings["input_shape"] = shape
    return case.function(ball, **settings)


THREAT_MODELS = {"Linf": Linf(0.1), "L2": L2(0.5)}

#: Families for `GradientAscent`, as functions of a threat model.
FAMILIES = {
    "Dirac": Dirac,
    "TanhGaussian": TanhGaussian,
    "TanhGaussian, sum": lambda ball: TanhGaussian(
        ball, entropy_reduction="sum"
    ),
    "TanhMixture": lambda ball: TanhMixture(ball, num_components=2),
    "TanhLowRank": lambda ball: TanhLowRank(ball, rank=2),
    "Empirical": lambda ball: Empirical(ball, num_points=3),
}

#: Families for `Amortized`, as functions of a threat model.
AMORTIZED_FAMILIES = {
    "Generated": lambda ball: Generated(
        TanhGaussian(ball),
        networks.explicit_generator(SHAPE, width_factor=WIDTH),
    ),
    "Generated, point": lambda ball: Generated(
        Dirac(ball, random_start=False),
        networks.point_generator(SHAPE, width_factor=WIDTH),
    ),
    "Implicit": lambda ball: Implicit(
        ball,
        networks.implicit_generator(SHAPE, width_factor=WIDTH),
        networks.posterior(SHAPE, width_factor=WIDTH),
    ),
    "Flow": lambda ball: Flow(
        ball,
        networks.explicit_generator(SHAPE, width_factor=WIDTH),
        [networks.coupling(SHAPE, width_factor=WIDTH)] * 2,
    ),
    "ImplicitStein": lambda ball: ImplicitStein(
        ball,
        networks.implicit_generator(SHAPE, width_factor=WIDTH),
        num_particles=4,
    ),
}

OBJECTIVES = {
    "cross_entropy": objectives.cross_entropy,
    "targeted_cross_entropy": objectives.targeted_cross_entropy,
    "margin": objectives.margin(5.0),
    "dlr": objectives.dlr,
    "targeted_dlr": objectives.targeted_dlr,
    "kl_from_clean": objectives.kl_from_clean,
    "transport_distance": objectives.transport_distance,
    "feature_similarity": objectives.feature_similarity(targets()),
    "pooled_feature_similarity": objectives.pooled_feature_similarity(
        targets()
    ),
}

STEP_RULES = {
    "steepest": step_rules.steepest(share=0.5),
    "sign": step_rules.sign(0.02),
    "momentum": step_rules.momentum(0.02, decay=0.5),
    "accumulate": step_rules.accumulate(step_rules.adam(0.1), 1.0),
    "adam": step_rules.adam(0.1, 0.9, 0.999),
    "langevin": step_rules.langevin(0.02, temperature=0.1),
}

GRADIENTS = {
    "backpropagation": gradients.backpropagation(),
    "spsa": gradients.spsa(512),
}

_GENERATED = {"input_shape": SHAPE, "width_factor": WIDTH}

#: Arguments of each method; "x trades" is the method with TRADES' loss, and
#: the others with another distribution.
METHODS = {
    "standard": {},
    "at_fgsm": {},
    "fgsm_rs": {},
    "n_fgsm": {},
    "at_pgd": {},
    "at_pgd x langevin": {"temperature": 0.01, "num_steps": 3},
    "alp": {},
    "fea_scatter": {},
    "trades": {"num_steps": 3},
    "mart": {"num_steps": 3},
    "l2l": _GENERATED,
    "adt_exp": {"num_steps": 2, "num_samples": 2},
    "adt_exp x trades": {"num_steps": 2, "num_samples": 2, "beta": 6.0},
    "adt_exp x mixture": {"num_steps": 2, "family": "mixture-2"},
    "adt_exp x low-rank": {"num_steps": 2, "family": "low-rank-2"},
    "adt_exp_am": _GENERATED,
    "adt_exp_am x flow": {**_GENERATED, "family": "flow"},
    "adt_exp_am x trades": {**_GENERATED, "beta": 6.0},
    "adt_imp_am": _GENERATED,
    "adt_imp_am x stein": {**_GENERATED, "entropy": "stein"},
    "adt_imp_am x trades": {**_GENERATED, "beta": 6.0},
}


def make_method(name, ball):
    """Builds a method of the table in a ball (a threat model or a number)."""
    return methods.get(name.split(" ")[0], epsilon=ball, **METHODS[name])
