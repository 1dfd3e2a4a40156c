"""The paper's own numbers, as data.

    rows("table1")["AT-PGD"]["PGD-20"]        # 50.03

They are in paper_numbers.json, each table with the label that it has in the
paper's source. Figures 2, 4, 5 and 6 are printed there without numbers.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

NUMBERS: dict[str, dict[str, Any]] = json.loads(
    pathlib.Path(__file__).with_name("paper_numbers.json").read_text()
)


def rows(target: str) -> dict[str, dict[str, float]]:
    """Returns {row: {column: number}} of a table or figure.

    Example:

    >>> rows("table1")["AT-PGD"]["PGD-20"]
    50.03
    """
    if target not in NUMBERS:
        raise ValueError(
            f"The paper prints no numbers for {target!r}; it has those of "
            f"{', '.join(NUMBERS)}."
        )
    return NUMBERS[target]["rows"]
