"""The paper's numbers.

    rows("table1")["AT-PGD"]["PGD-20"]        # 50.03

paper_numbers.json holds the tables, each with its label in the paper's source.
The paper prints Figures 2, 4, 5 and 6 without numbers.
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
            f"Argument `target` must be one of {', '.join(NUMBERS)}: the "
            f"paper prints no other numbers. Received: target={target!r}"
        )
    return NUMBERS[target]["rows"]
