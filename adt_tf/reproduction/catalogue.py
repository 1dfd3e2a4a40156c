"""Every table and figure, by name.

TARGETS["table1"].title
choose(["table1", "figure2"])
"""

from __future__ import annotations

from collections.abc import Sequence

from adt_tf.reproduction import claims
from adt_tf.reproduction.figures import FIGURES
from adt_tf.reproduction.tables import FURTHER, TABLES
from adt_tf.reproduction.target import Target

TARGETS: dict[str, Target] = {
    **TABLES,
    **FIGURES,
    **FURTHER,
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
