"""Mean differences of two measurements of the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Difference(NamedTuple):
    """A mean difference with its confidence interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"

    def in_points(self) -> str:
        """Formats a difference of shares in percentage points.

        Example:

        >>> Difference(0.05, -0.0001, 0.1).in_points()
        '+5.0 [+0.0, +10.0]'
        """
        # The sum with 0.0 turns -0.0 into 0.0.
        mean, low, high = (f"{round(100 * x, 1) + 0.0:+.1f}" for x in self)
        return f"{mean} [{low}, {high}]"


def difference(
    first: np.ndarray, second: np.ndarray, *, level: float = 0.95
) -> Difference:
    """Returns the mean of first - second over pairs, with Student's interval.

    Args:
        first: Measurements [pairs].
        second: Measurements of the same examples [pairs].
        level: Confidence level of the interval.

    Example:

    >>> difference([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    Difference(mean=1.0, low=1.0, high=1.0)
    """
    first, second = (np.asarray(x, np.float64) for x in (first, second))
    if first.shape != second.shape or first.ndim != 1 or first.size < 2:
        raise ValueError(
            "Arguments `first` and `second` must hold two or more pairs. "
            f"Received: shapes {first.shape} and {second.shape}"
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
    """Returns p of Student's two-sided test that the mean difference is 0.

    Example:

    >>> p_value([1.0, -1.0])
    1.0
    """
    values = np.asarray(differences, np.float64)
    if np.ptp(values) == 0:
        return 1.0 if values[0] == 0 else 0.0
    return float(stats.ttest_1samp(values, 0.0).pvalue)
