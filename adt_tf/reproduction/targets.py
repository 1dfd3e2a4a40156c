"""Every table and figure of the paper, as data.

TARGETS["table1"].rows["ADT-EXP"]      # "adt_exp", a name in `registry.RUNS`

The labels of a table's rows are those of the paper's numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adt_tf import networks
from adt_tf.reproduction import architectures, claims, figures, tables
from adt_tf.reproduction.registry import FIVE, OURS
from adt_tf.reproduction.study import Rows, Study


@dataclasses.dataclass(frozen=True)
class Target:
    """A table, a figure, or what is asked about them.

    Attributes:
        title: What it shows.
        write: Writes it from what is there: `write(study, name, target)`.
        rows: From a label to a run; None where the paper took another's model.
        protocol: How the rows are attacked; None for not at all.
        figure: A module of `figures`; None for a table.
        trained: Whether the rows have to be trained.
        compared: From a row to the one that it is paired with.
        networks: What Tables 7 and 8 list.
        note: Said below it.
    """

    title: str
    write: Callable[[Study, str, Any], None]
    rows: Rows = dataclasses.field(default_factory=dict)
    protocol: str | None = None
    figure: Any = None
    trained: bool = True
    compared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    networks: Mapping[str, Callable[..., Any]] = dataclasses.field(
        default_factory=dict
    )
    note: str = ""

    @property
    def is_table_of_runs(self) -> bool:
        """Whether `--rows` chooses from it."""
        return bool(self.rows) and self.figure is None


_TABLE1 = {
    "Standard": "standard",
    "AT-FGSM": "at_fgsm",
    "AT-PGD+": None,
    "AT-PGD": "at_pgd",
    "ALP": "alp",
    "FeaScatter": "fea_scatter",
    **OURS,
}
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
_LAMBDAS = {
    "0": "adt_exp_am-lambda0",
    "0.001": "adt_exp_am-lambda0.001",
    "0.01": "adt_exp_am",
    "0.1": "adt_exp_am-lambda0.1",
    "1": "adt_exp_am-lambda1",
}


def _table(
    title: str,
    rows: Rows,
    protocol: str,
    compared: Mapping[str, str] | None = None,
    note: str = "",
) -> Target:
    return Target(
        title, tables.write, rows, protocol, compared=compared or {}, note=note
    )


def _figure(title: str, rows: Rows, figure: Any, **given: Any) -> Target:
    return Target(title, figures.write, rows, figure=figure, **given)


def _against(baseline: str, section: str = "{}") -> dict[str, str]:
    return {section.format(label): section.format(baseline) for label in OURS}


_OTHER_PAIRS = {
    **_against("AT-PGD", "CIFAR-100, {}"),
    **_against("AT-PGD", "SVHN, {}"),
}
_TRADES_PAIRS = {
    **_against("TRADES", "{}, beta 1.0"),
    **_against("TRADES", "{}, beta 6.0"),
}
_PART = "A_rob is over the attacks of the full table, {}."
_GENERATOR = {
    "Generator of ADT-EXP-AM": networks.explicit_generator,
    "Generator of ADT-IMP-AM": networks.implicit_generator,
}

TARGETS: dict[str, Target] = {
    "table1": _table(
        "white-box attacks on CIFAR-10",
        _TABLE1,
        "paper",
        _against("AT-PGD"),
        "AT-PGD+ is a model released by Madry et al., which is not trained "
        "here; the paper took FeaScatter's from its authors, here it is "
        "trained. MIM starts at the image, where it is stronger, and ALP's "
        "terms are means; docs/design.md has the reasons.",
    ),
    "table2": _table(
        "CIFAR-100 and SVHN, part of the attacks",
        _OTHER_DATA,
        "paper",
        _OTHER_PAIRS,
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
        _TRADES_PAIRS,
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
        _OTHER_PAIRS,
    ),
    "table10": _table(
        "white-box attacks on ADT with TRADES' loss",
        _TRADES,
        "paper",
        _TRADES_PAIRS,
    ),
    "table11": _table(
        "L2L and the amortised methods on CIFAR-10",
        {"L2L": "l2l", **dict(list(OURS.items())[1:])},
        "paper",
        {"ADT-EXP-AM": "L2L", "ADT-IMP-AM": "L2L"},
    ),
    "figure1": _figure(
        "how different the perturbations of an image are",
        {"Standard": "standard"},
        figures.diversity,
        note="Around images of a standard classifier, as in the paper. What "
        "spreads in all directions at once hardly shows on two axes: the "
        "distances tell.",
    ),
    "figure2": _figure(
        "the loss around an image, and its curvature",
        FIVE,
        figures.landscape,
        note="The paper prints this figure's numbers in the picture alone.",
    ),
    "figure4": _figure(
        "transfer-based black-box attacks",
        FIVE,
        figures.transfer,
        note="Accuracy in %. The paper prints this figure's numbers in the "
        "picture alone.",
    ),
    "figure5": _figure(
        "the entropy's weight lambda",
        _LAMBDAS,
        figures.entropy,
        protocol="paper",
        note="ADT-EXP-AM, one run for each lambda. Accuracy in %, entropy in "
        "nats per pixel value. The paper: a larger lambda has a larger entropy "
        "and better robustness, but a too large one reduces it.",
    ),
    "figure6": _figure(
        "how fast EXP converges",
        {"AT-PGD": "at_pgd", "ADT-EXP": "adt_exp"},
        figures.convergence,
        note="The paper: EXP converges soon, within a few iterations.",
    ),
    "figure7": _figure(
        "the time of an epoch",
        FIVE,
        figures.epoch_time,
        trained=False,
        note="Steps of all methods, in turns on random images; the generator "
        "stands to the classifier as in the paper, about two to one in "
        "multiplications.",
    ),
    "claims": Target("what the paper says in words", claims.write),
}
#: What has nothing to run.
ABSENT = {
    "figure3": "Figure 3 is a drawing of the three ways to parameterise the "
    "distributions: there is nothing to run. docs/design.md says it in words.",
}


def choose(names: Sequence[str]) -> list[str]:
    """Returns the targets of names, "all" being every one.

    Example:

    >>> choose(["table1", "figure2"])
    ['table1', 'figure2']
    """
    chosen = list(TARGETS) if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        if name in ABSENT:
            raise ValueError(ABSENT[name])
        if name not in TARGETS:
            raise ValueError(
                f"--target must be some of {', '.join(TARGETS)}, or all. "
                f"Received: {name!r}"
            )
    return chosen
