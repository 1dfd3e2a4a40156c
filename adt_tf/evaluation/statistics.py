"""Intervals of shares, and a test of two classifiers."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import stats


def wilson_interval(
    successes: int, total: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Returns Wilson's interval for a share, which holds near 0 and 1 too.

    Example:

    >>> low, high = wilson_interval(50, 100)
    >>> round(low, 3), round(high, 3)
    (0.404, 0.596)
    """
    result = stats.binomtest(int(successes), int(total))
    interval = result.proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def clopper_pearson(
    successes: int | np.ndarray,
    total: int | np.ndarray,
    confidence: float = 0.95,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns Clopper and Pearson's interval, which is never too narrow.

    Reference: Clopper and Pearson, The Use of Confidence or Fiducial Limits
    Illustrated in the Case of the Binomial, 1934.

    Example:

    >>> low, high = clopper_pearson(0, 100)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0362)
    """
    successes, total = np.asarray(successes), np.asarray(total)
    tail = (1 - confidence) / 2
    none, every = successes == 0, successes == total
    low = stats.beta.ppf(
        tail, np.where(none, 1, successes), total - successes + 1
    )
    high = stats.beta.isf(
        tail, successes + 1, np.where(every, 1, total - successes)
    )
    return np.where(none, 0.0, low), np.where(every, 1.0, high)


@dataclasses.dataclass(frozen=True)
class PairedTest:
    """Comparison of two classifiers on the same examples.

    Attributes:
        num_examples: Number of examples.
        first_only: Number of examples that only the first gets right.
        second_only: Number of examples that only the second gets right.
        difference: Accuracy of the first minus accuracy of the second.
        p_value: p-value of the exact two-sided McNemar test.
    """

    num_examples: int
    first_only: int
    second_only: int
    difference: float
    p_value: float


def mcnemar(first: np.ndarray, second: np.ndarray) -> PairedTest:
    """Returns the exact McNemar test of two arrays of verdicts.

    If both classifiers are equally good, each of them is right on an example
    on which they differ with probability 1/2.

    Args:
        first: Whether the first classifier is right on each example [n].
        second: Whether the second classifier is right on each example [n].

    Reference: McNemar, Note on the sampling error of the difference between
    correlated proportions, 1947.
    """
    first, second = np.asarray(first, bool), np.asarray(second, bool)
    if first.shape != second.shape or first.ndim != 1 or not first.size:
        raise ValueError(
            "A paired test needs verdicts on the same examples. Received: "
            f"shapes {first.shape} and {second.shape}"
        )
    wins, losses = int(np.sum(first & ~second)), int(np.sum(second & ~first))
    p_value = 1.0
    if wins + losses:
        p_value = float(stats.binomtest(wins, wins + losses).pvalue)
    return PairedTest(
        len(first), wins, losses, (wins - losses) / len(first), p_value
    )
