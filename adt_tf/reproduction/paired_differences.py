"""The mean difference of two measurements of the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Difference(NamedTuple):
    """A mean with its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"


def difference(
    first: np.ndarray, second: np.ndarray, *, level: float = 0.95
) -> Difference:
    """The mean of first - second over pairs, with Student's interval.

    Example:

    >>> difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    Difference(mean=1.0, low=1.0, high=1.0)
    """
    first, second = (np.asarray(x, np.float64) for x in (first, second))
    if first.shape != second.shape or first.ndim != 1 or first.size < 2:
        raise ValueError(
            "A paired difference needs two or more pairs. Received: shapes "
            f"{first.shape} and {second.shape}"
        )
    values = first - second
    mean = float(values.mean())
    half = float(
        stats.t.ppf((1 + level) / 2, values.size - 1)
        * values.std(ddof=1)
        / np.sqrt(values.size)
    )
    return Difference(mean, mean - half, mean + half)


def p_value(differences: Sequence[float]) -> float:
    """Of Student's two-sided test that differences are 0 on average.

    Example:

    >>> p_value([1.0, -1.0])
    1.0
    """
    values = np.asarray(differences, np.float64)
    if np.ptp(values) == 0:
        return 1.0 if values[0] == 0 else 0.0
    return float(stats.ttest_1samp(values, 0.0).pvalue)
