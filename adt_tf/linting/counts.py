"""When a count of examples is more than chance, and how to say so.

    status, p = judged(count=9, n=128, tolerance=0.02)
    status, evidence = compared("FGSM", fallen, "PGD-20", fallen_to_pgd)

An attack that should be the stronger one may still miss a few examples which
the weaker one breaks. With a tolerance for their share, a count fails if

    P[Binomial(n, tolerance) >= count] < 0.01 / comparisons

and is worth a warning below 0.1 / comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

SIGNIFICANCE, SUSPICION = 0.01, 0.1

# What a stronger attack may miss.
TOLERANCE = 0.02


def at_least(count: int, n: int, share: float) -> float:
    """P[Binomial(n, share) >= count].

    >>> round(at_least(1, 2, 0.5), 6)
    0.75
    """
    return float(stats.binom.sf(count - 1, n, share))


def judged(
    count: int, n: int, tolerance: float = TOLERANCE, *, comparisons: int = 1
) -> tuple[str, float]:
    """Returns "pass", "warn" or "fail" and the probability p.

    Args:
        count: Of the examples that should not be there.
        n: Of all examples.
        tolerance: The share of them that is no news.
        comparisons: Of how many counts this is the largest (Bonferroni).
    """
    p = at_least(count, n, tolerance)
    for level, status in ((SIGNIFICANCE, "fail"), (SUSPICION, "warn")):
        if p < level / comparisons:
            return status, p
    return "pass", p


def compared(
    weak: str, fallen: np.ndarray, strong: str, fallen_to_strong: np.ndarray
) -> tuple[str, str]:
    """Judges what falls to a weak attack and not to a strong one.

    Args:
        weak: The attack that should find nothing of its own.
        fallen: Which examples it breaks, booleans [n].
        strong: The attack that it is compared with.
        fallen_to_strong: Which ones that breaks.
    """
    missed, n = int(np.sum(fallen & ~fallen_to_strong)), len(fallen)
    status, p = judged(missed, n)
    return status, (
        f"{weak} breaks {fallen.sum()} of {n} examples, {strong} "
        f"{fallen_to_strong.sum()}; {missed} fall to the former alone "
        f"(p = {p:.1g})."
    )


def monotone(fallen: np.ndarray, names: Sequence[str]) -> tuple[str, str]:
    """Judges what fell to a weaker attack and stands in a stronger one.

    Args:
        fallen: A row for each attack, from the weakest to the strongest,
            booleans [attacks, n].
        names: Of the rows.
    """
    before = np.logical_or.accumulate(fallen[:-1])
    missed = np.sum(before & ~fallen[1:], axis=1)
    worst = int(missed.argmax())
    n = fallen.shape[1]
    status, p = judged(int(missed[worst]), n, comparisons=len(missed))
    figures = ", ".join(
        f"{row.sum()} with {name}"
        for row, name in zip(fallen, names, strict=True)
    )
    return status, (
        f"PGD breaks, of {n} examples, {figures}; {missed[worst]} that fell "
        f"before stand again with {names[worst + 1]} (p = {p:.1g})."
    )
