"""Decides whether a count of examples is more than chance.

    status, p = judge(count=9, n=128, tolerance=0.02)
    status, evidence = compare("FGSM", fallen, "PGD-20", fallen_to_pgd)

The stronger of two attacks may still miss a few examples that the weaker one
breaks. With a tolerance for the share of such examples, a check fails if

    P[Binomial(n, tolerance) >= count] < 0.01 / comparisons

and warns if the probability is below 0.1 / comparisons.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

SIGNIFICANCE, SUSPICION = 0.01, 0.1

# Share of examples that a stronger attack may miss.
TOLERANCE = 0.02


def at_least(count: int, n: int, share: float) -> float:
    """Returns P[Binomial(n, share) >= count].

    >>> round(at_least(1, 2, 0.5), 6)
    0.75
    """
    return float(stats.binom.sf(count - 1, n, share))


def judge(
    count: int, n: int, tolerance: float = TOLERANCE, *, comparisons: int = 1
) -> tuple[str, float]:
    """Returns "pass", "warn" or "fail" and the probability p.

    Args:
        count: Number of examples that speak against the classifier.
        n: Number of all examples.
        tolerance: Share of such examples that is normal.
        comparisons: Number of counts of which this is the largest, for
            Bonferroni's correction.
    """
    p = at_least(count, n, tolerance)
    for level, status in ((SIGNIFICANCE, "fail"), (SUSPICION, "warn")):
        if p < level / comparisons:
            return status, p
    return "pass", p


def compare(
    weak: str, fallen: np.ndarray, strong: str, fallen_to_strong: np.ndarray
) -> tuple[str, str]:
    """Judges the examples that only the weaker of two attacks breaks.

    Args:
        weak: Name of the weaker attack.
        fallen: Whether the weaker attack breaks each example, booleans [n].
        strong: Name of the stronger attack.
        fallen_to_strong: Whether the stronger attack breaks each example.

    Returns:
        The status and the evidence.
    """
    missed, n = int(np.sum(fallen & ~fallen_to_strong)), len(fallen)
    status, p = judge(missed, n)
    return status, (
        f"{weak} breaks {fallen.sum()} of {n} examples, {strong} breaks "
        f"{fallen_to_strong.sum()}; {missed} fall only to the first attack "
        f"(p = {p:.1g})."
    )


def monotone(fallen: np.ndarray, names: Sequence[str]) -> tuple[str, str]:
    """Judges the examples that fall to a weaker attack but not to a stronger.

    Args:
        fallen: Whether each attack breaks each example, booleans
            [attacks, n]; attacks from the weakest to the strongest.
        names: Names of the attacks.

    Returns:
        The status and the evidence.
    """
    before = np.logical_or.accumulate(fallen[:-1])
    missed = np.sum(before & ~fallen[1:], axis=1)
    worst = int(missed.argmax())
    n = fallen.shape[1]
    status, p = judge(int(missed[worst]), n, comparisons=len(missed))
    figures = ", ".join(
        f"{row.sum()} with {name}"
        for row, name in zip(fallen, names, strict=True)
    )
    return status, (
        f"Of {n} examples, PGD breaks {figures}; {missed[worst]} of those "
        f"that fell to a weaker attack withstand {names[worst + 1]} "
        f"(p = {p:.1g})."
    )
