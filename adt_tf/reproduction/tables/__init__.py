"""The tables, as data; `accuracies` writes them.

    TABLES["table1"].rows["ADT-EXP"]      # "adt_exp", a name in `registry.RUNS`
    FURTHER["autoattack"]                 # tables that the paper does not have

To add a table of accuracies:

1. Put the paper's numbers into paper_numbers.json under the table's name: a row
   for each label, a number for each column.
2. Add an entry to `TABLES` with the same labels, their runs (`registry`) and
   the protocol that attacks them (`scales`).
3. Add the attack of each new column to `accuracies.COLUMNS`.

`architectures` writes Tables 7 and 8, which list the layers of networks;
`matrix` writes the accuracies of models under attacks of other methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adt_tf import networks
from adt_tf.reproduction.registry import (
    EQUAL_COST,
    FIVE,
    MODERN,
    OURS,
    RECIPE_PARTS,
    recipe_run,
)
from adt_tf.reproduction.study import Rows
from adt_tf.reproduction.tables import accuracies, architectures, matrix
from adt_tf.reproduction.target import Target

_TABLE1 = {
    "Standard": "standard",
    "AT-FGSM": "at_fgsm",
    "AT-PGD+": None,
    "AT-PGD": "at_pgd",
    "ALP": "alp",
    "FeaScatter": "fea_scatter",
    **OURS,
}
_MODERN = {f"{label}, modern": f"modern-{run}" for label, run in MODERN.items()}
_PARTS = {f"AT-PGD, {part}": recipe_run(part) for part in RECIPE_PARTS}
_OTHER_DATA = {
    f"{name}, {label}": f"{data}-{run}"
    for name, data in (("CIFAR-100", "cifar100"), ("SVHN", "svhn"))
    for label, run in FIVE.items()
}
_TRADES = {
    f"{label}, beta {beta}.0": f"trades-{run}-beta{beta}"
    for beta in (1, 6)
    for label, run in {"TRADES": "trades", **OURS}.items()
}
_RICE = {
    label: f"rice-{run}" for label, run in {"AT-PGD": "at_pgd", **OURS}.items()
}


def _table(
    title: str,
    rows: Rows,
    protocol: str,
    baselines: Mapping[str, str] | None = None,
    note: str = "",
    takes_released: bool = False,
) -> Target:
    return Target(
        title,
        accuracies.write,
        rows,
        protocol,
        baselines=baselines or {},
        takes_released=takes_released,
        note=note,
    )


def _against(baseline: str, section: str = "{}") -> dict[str, str]:
    return {section.format(label): section.format(baseline) for label in OURS}


_OTHER_BASELINES = {
    **_against("AT-PGD", "CIFAR-100, {}"),
    **_against("AT-PGD", "SVHN, {}"),
}
_TRADES_BASELINES = {
    **_against("TRADES", "{}, beta 1.0"),
    **_against("TRADES", "{}, beta 6.0"),
}
_PART = "A_rob is over the attacks of the full table, {}."
_GENERATOR: dict[str, Callable[..., Any]] = {
    "Generator of ADT-EXP-AM": networks.explicit_generator,
    "Generator of ADT-IMP-AM": networks.implicit_generator,
}

#: Tables that the paper does not have.
FURTHER: dict[str, Target] = {
    "autoattack": _table(
        "AutoAttack, and the modern recipe, on CIFAR-10",
        {**FIVE, "TRADES": "trades-trades-beta6", **_MODERN},
        "autoattack",
        {
            **_against("AT-PGD"),
            **{f"{label}, modern": label for label in MODERN},
        },
        "A_rob is the accuracy under AutoAttack, standard version. The rows "
        "named modern add flags/recipes/modern.flags.",
    ),
    "recipe": _table(
        "the parts of the modern recipe, one by one, with AT-PGD on CIFAR-10",
        {"AT-PGD": "at_pgd", **_PARTS},
        "autoattack",
        dict.fromkeys(_PARTS, "AT-PGD"),
        "A_rob is the accuracy under AutoAttack, standard version. Each row "
        "adds one part of flags/recipes/modern.flags to AT-PGD and changes "
        "nothing else: epochs and learning rate are the scale's, no epoch is "
        "selected. The p-values are not corrected for the four comparisons.",
    ),
    "generalisation": Target(
        "generalisation across attacks on CIFAR-10, at equal training cost",
        matrix.write,
        EQUAL_COST,
        *matrix.PROTOCOLS[:1],
        further_protocols=matrix.PROTOCOLS[1:],
        note="The costs are equal in multiplications of convolutions, counted "
        "from the networks: a training image costs AT-PGD 17 forward passes of "
        "the classifier, FGSM-RS 5, and the amortised methods 7 and three "
        "forward passes of their networks. The epochs are AT-PGD's times the "
        "ratio of these costs. The training time is the number of steps times "
        "the smallest time of a step on this machine, and is no part of the "
        "definition.",
    ),
}

TABLES: dict[str, Target] = {
    "table1": _table(
        "white-box attacks on CIFAR-10",
        _TABLE1,
        "paper",
        _against("AT-PGD"),
        "AT-PGD+ is a model released by Madry et al., which is not trained "
        "here (--released=DIR measures it); the paper took FeaScatter's from "
        "its authors, here it is trained. MIM starts at random, as in the "
        "released code, and ALP's terms are means; docs/design.md has the "
        "reasons.",
        takes_released=True,
    ),
    "table2": _table(
        "CIFAR-100 and SVHN, part of the attacks",
        _OTHER_DATA,
        "paper",
        _OTHER_BASELINES,
        _PART.format("Table 9"),
    ),
    "table3": _table("SPSA on CIFAR-10", FIVE, "spsa", _against("AT-PGD")),
    "table4": _table(
        "the adversarial distributions as attacks on CIFAR-10",
        FIVE,
        "distributional",
        _against("AT-PGD"),
        "PGD keeps the strongest image that its climb has met; EXP, EXP-AM and "
        "IMP-AM are judged by one draw from the distribution that they end "
        "with.",
    ),
    "table5": _table(
        "ADT with TRADES' loss on CIFAR-10, part of the attacks",
        _TRADES,
        "paper",
        _TRADES_BASELINES,
        _PART.format("Table 10"),
    ),
    "table6": _table(
        "the recipe of Rice et al. on CIFAR-10",
        _RICE,
        "rice",
        _against("AT-PGD"),
        "The best epoch by robust accuracy on held-out training images.",
    ),
    "table7": Target(
        "the generators",
        architectures.write,
        networks=_GENERATOR,
        note="The paper: a 3x3 convolution of 256 filters, three residual "
        "blocks of 512 filters, a 3x3 convolution of 6 (IMP-AM: 3) filters; "
        "for IMP-AM z first passes two dense layers, of 256 and 1024 units. "
        "Its released code has 256 filters in the last block, as here. 1x1 "
        "convolutions are shortcuts. Full width, whatever the scale.",
    ),
    "table8": Target(
        "the variational distribution q",
        architectures.write,
        networks={"q(z given delta) of ADT-IMP-AM": networks.posterior},
        note="The paper: 32x5x5, 64x4x4 with stride 2, 128x4x4, 256x4x4 with "
        "stride 2, global average pooling, 128 outputs (64 means, 64 "
        "variances). Full width, whatever the scale.",
    ),
    "table9": _table(
        "white-box attacks on CIFAR-100 and SVHN",
        _OTHER_DATA,
        "paper",
        _OTHER_BASELINES,
    ),
    "table10": _table(
        "white-box attacks on ADT with TRADES' loss",
        _TRADES,
        "paper",
        _TRADES_BASELINES,
    ),
    "table11": _table(
        "L2L and the amortised methods on CIFAR-10",
        {"L2L": "l2l", **dict(list(OURS.items())[1:])},
        "paper",
        {"ADT-EXP-AM": "L2L", "ADT-IMP-AM": "L2L"},
    ),
}
