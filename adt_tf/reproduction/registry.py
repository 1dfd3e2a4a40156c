"""Every run that a table or figure needs, by name.

RUNS["at_pgd"].arguments(scales.get("mini"))
# ["--flagfile=flags/mini/at_pgd.flags"]

At the paper's scale a run is its flagfile. At a smaller one it is the twin of
its method, with what sets it apart from that: a weight, a recipe, a data set.
"""

from __future__ import annotations

import dataclasses

from adt_tf.reproduction.scales import Scale


@dataclasses.dataclass(frozen=True)
class StudyRun:
    """A training run at any scale.

    Attributes:
        flagfile: In flags/, at the paper's scale.
        twin: In flags/SCALE/, at a smaller one.
        data: The data set.
        changes: Flags that the twin lacks; the paper's flagfile has them.
        flags: That both lack.
        attack_epsilon: Of the attacks at the paper's scale; None for that of
            training.
    """

    flagfile: str
    twin: str
    data: str = "cifar10"
    changes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    attack_epsilon: float | None = None

    def arguments(self, scale: Scale) -> list[str]:
        """Returns the flags of adt-train, but for workdir, seed and data."""
        if scale.folder is None:
            return [f"--flagfile=flags/{self.flagfile}.flags", *self.flags]
        numbers = {
            "data_flagfile": scale.data_flagfile,
            "validation_examples": scale.validation_examples,
        }
        return [
            f"--flagfile=flags/{scale.folder}/{self.twin}.flags",
            *(flag.format(**numbers) for flag in self.changes),
            *scale.data.get(self.data, ()),
            *scale.flags,
            *self.flags,
        ]


#: The paper's methods, and the five that most of its tables have: from their
#: labels to their runs.
OURS = {
    "ADT-EXP": "adt_exp",
    "ADT-EXP-AM": "adt_exp_am",
    "ADT-IMP-AM": "adt_imp_am",
}
FIVE = {"Standard": "standard", "AT-PGD": "at_pgd", **OURS}
# The recipe's network and epochs give way to those of the scale.
_RICE = (
    "--flagfile=flags/recipes/rice.flags",
    "--flagfile=flags/data/{data_flagfile}.flags",
    "--validation_examples={validation_examples}",
)

_MODERN = ("--flagfile=flags/recipes/modern.flags",)
#: The methods that the modern recipe is tried with.
MODERN = {"AT-PGD": "at_pgd", "TRADES": "trades", "ADT-EXP-AM": "adt_exp_am"}

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
            # Table 10's caption; they are trained with 0.031, as TRADES is.
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
}
