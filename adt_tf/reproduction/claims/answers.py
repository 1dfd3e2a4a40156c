"""Yes, no or cannot be told: how a statistic becomes an answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adt_tf.reproduction import paired_differences

YES, NO, UNCLEAR = "yes", "no", "cannot be told"
ALPHA = 0.05


def sign(
    first: Any, second: Any, wanted: int, comparisons: int = 1
) -> tuple[str, paired_differences.Difference]:
    """Tells on which side of zero first - second lies, and how far.

    Args:
        first: Measurements.
        second: Measurements of the same images or rounds.
        wanted: +1 or -1, the side that the claim names.
        comparisons: Number of comparisons that the claim is about. One no
            refutes it, so the interval is at Bonferroni's level: equal models
            shall not fail for being compared often.
    """
    gap = paired_differences.difference(
        first, second, level=1 - ALPHA / comparisons
    )
    ends = wanted * gap.low, wanted * gap.high
    if min(ends) > 0:
        return YES, gap
    return NO if max(ends) < 0 else UNCLEAR, gap


def combine(answers: Iterable[str]) -> str:
    """Returns the answer of several: one no is a no, a yes needs all."""
    answers = set(answers)
    if NO in answers:
        return NO
    return YES if answers == {YES} else UNCLEAR
