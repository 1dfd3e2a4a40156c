"""All tables and figures, by name.

TARGETS["table1"].title
choose(["table1", "figure2"])
"""

from __future__ import annotations

from collections.abc import Sequence

from adt_tf.reproduction import claims, figures, tables
from adt_tf.reproduction.target import Target

TARGETS: dict[str, Target] = {
    **tables.TABLES,
    **figures.FIGURES,
    **tables.FURTHER,
    **figures.FURTHER,
    "claims": Target("the paper's claims in words", claims.write),
}
#: Figures that cannot be reproduced, with the reason.
ABSENT = {
    "figure3": "Figure 3 is a drawing of the three ways to parameterise the "
    "distributions, so there is nothing to run. docs/design.md describes them.",
}


def choose(names: Sequence[str]) -> list[str]:
    """Returns the names of targets without repeats; "all" names every target.

    Example:

    >>> choose(["table1", "figure2"])
    ['table1', 'figure2']
    """
    targets = list(TARGETS) if "all" in names else list(dict.fromkeys(names))
    for name in targets:
        if name in ABSENT:
            raise ValueError(ABSENT[name])
        if name not in TARGETS:
            raise ValueError(
                f"--target must be some of {', '.join(TARGETS)}, or all. "
                f"Received: {name!r}"
            )
    return targets
