"""The runs of all tables and figures, by name.

RUNS["at_pgd"].arguments(scales.get("mini"))
# ["--flagfile=flags/mini/at_pgd.flags"]

At the paper's scale a run has a flagfile. At a smaller scale it has the scale's
flagfile of its method, and flags for its own weight, recipe or data set.
"""

from __future__ import annotations

import dataclasses

from adt_tf.reproduction.scales import Scale


@dataclasses.dataclass(frozen=True)
class StudyRun:
    """A training run at any scale.

    Attributes:
        flagfile: Flagfile in flags/ at the paper's scale.
        twin: Flagfile in flags/SCALE/ at a smaller scale.
        data: Name of the data set.
        changes: Flags that the paper's flagfile has and the twin lacks.
        flags: Flags that both lack.
        schedule: Key of `Scale.schedules`, whose flags come last; None for
            the number of epochs of the flagfile.
        attack_epsilon: Epsilon of the attacks at the paper's scale; None for
            the epsilon of training.
    """

    flagfile: str
    twin: str
    data: str = "cifar10"
    changes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    schedule: str | None = None
    attack_epsilon: float | None = None

    def arguments(self, scale: Scale) -> list[str]:
        """Returns the flags of adt-train except workdir, seed and data."""
        flags = [*self.flags]
        if self.schedule:
            flags += scale.schedules[self.schedule]
        if scale.folder is None:
            return [f"--flagfile=flags/{self.flagfile}.flags", *flags]
        numbers = {
            "data_flagfile": scale.data_flagfile,
            "validation_examples": scale.validation_examples,
        }
        return [
            f"--flagfile=flags/{scale.folder}/{self.twin}.flags",
            *(flag.format(**numbers) for flag in self.changes),
            *scale.data.get(self.data, ()),
            *scale.flags,
            *flags,
        ]


#: Mapping from the labels of the paper's methods to their runs, and the same
#: for the five rows that most of its tables have.
OURS = {
    "ADT-EXP": "adt_exp",
    "ADT-EXP-AM": "adt_exp_am",
    "ADT-IMP-AM": "adt_imp_am",
}
FIVE = {"Standard": "standard", "AT-PGD": "at_pgd", **OURS}
# The scale's data flagfile overrides the recipe's network and epochs.
_RICE = (
    "--flagfile=flags/recipes/rice.flags",
    "--flagfile=flags/data/{data_flagfile}.flags",
    "--validation_examples={validation_examples}",
)

_MODERN = ("--flagfile=flags/recipes/modern.flags",)
#: Mapping from the labels of the methods with the modern recipe to their runs
#: without it.
MODERN = {"AT-PGD": "at_pgd", "TRADES": "trades", "ADT-EXP-AM": "adt_exp_am"}
#: Mapping from a part of the modern recipe to its flags there.
RECIPE_PARTS = {
    "EMA": ("--ema_momentum=0.999",),
    "AWP": ("--awp_size=0.005", "--awp_warmup=1"),
    "label smoothing": ("--label_smoothing=0.1",),
    "SiLU": ("--activation=silu",),
}
#: Mapping from the attack that a model is trained on to its run at equal cost.
EQUAL_COST = {
    "FGSM-RS": "equal_cost-fgsm_rs",
    "PGD": "at_pgd",
    "EXP-AM": "equal_cost-adt_exp_am",
    "IMP-AM": "equal_cost-adt_imp_am",
}
# Every epoch's state is kept, to be measured afterwards.
_EVERY_EPOCH = ("--keep_checkpoints=100000", "--checkpoint_minutes=0")


def recipe_run(part: str) -> str:
    """Returns the run of AT-PGD with one part of the modern recipe.

    Example:

    >>> recipe_run("label smoothing")
    'recipe-at_pgd-label_smoothing'
    """
    return f"recipe-at_pgd-{part.lower().replace(' ', '_')}"


RUNS: dict[str, StudyRun] = {
    **{
        name: StudyRun(f"cifar10/{name}", name)
        for name in (
            "standard",
            "at_fgsm",
            "at_pgd",
            "alp",
            "fea_scatter",
            "l2l",
            *OURS.values(),
        )
    },
    **{
        f"{data}-{name}": StudyRun(f"{folder}/{name}", name, data)
        for data, folder in (("cifar100", "cifar100"), ("svhn", "svhn_cropped"))
        for name in ("standard", "at_pgd", *OURS.values())
    },
    **{
        f"trades-{name}-beta{beta}": StudyRun(
            f"trades/{name}_beta{beta}",
            "trades" if name == "trades" else f"{name}_trades",
            changes=(f"--beta={beta}",),
            # From Table 10's caption; training has 0.031, as in TRADES.
            attack_epsilon=8 / 255,
        )
        for beta in (1, 6)
        for name in ("trades", *OURS.values())
    },
    "rice-at_pgd": StudyRun(
        "rice/at_pgd", "at_pgd", changes=(*_RICE, "--num_steps=10")
    ),
    **{
        f"rice-{name}": StudyRun(f"rice/{name}", name, changes=_RICE)
        for name in OURS.values()
    },
    **{
        f"modern-{name}": StudyRun(
            "trades/trades_beta6" if name == "trades" else f"cifar10/{name}",
            name,
            flags=_MODERN,
        )
        for name in MODERN.values()
    },
    **{
        f"adt_exp_am-lambda{weight}": StudyRun(
            "cifar10/adt_exp_am",
            "adt_exp_am",
            flags=(f"--entropy_weight={weight}",),
        )
        for weight in ("0", "0.001", "0.1", "1")
    },
    **{
        recipe_run(part): StudyRun("cifar10/at_pgd", "at_pgd", flags=flags)
        for part, flags in RECIPE_PARTS.items()
    },
    # The paper has no FGSM-RS, so flags/cifar10 has no flagfile of it.
    "equal_cost-fgsm_rs": StudyRun(
        "cifar10/standard",
        "fgsm_rs",
        flags=("--flagfile=flags/methods/fgsm_rs.flags",),
        schedule="fgsm_rs",
    ),
    **{
        f"equal_cost-{name}": StudyRun(f"cifar10/{name}", name, schedule=name)
        for name in ("adt_exp_am", "adt_imp_am")
    },
    **{
        f"overfitting-{name}": StudyRun(
            f"cifar10/{name}",
            name,
            flags=_EVERY_EPOCH,
            schedule="overfitting",
        )
        for name in ("at_pgd", "adt_exp_am")
    },
}
