"""Turns a statistic into an answer: yes, no or cannot be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adt_tf.reproduction import paired_differences

YES, NO, UNCLEAR = "yes", "no", "cannot be told"
ALPHA = 0.05


def sign(
    first: Any, second: Any, wanted: int, comparisons: int = 1
) -> tuple[str, paired_differences.Difference]:
    """Returns whether first - second has the sign of a claim, and its size.

    Args:
        first: Measurements.
        second: Measurements of the same images or rounds.
        wanted: Sign of the difference that the claim states, +1 or -1.
        comparisons: Number of comparisons of the claim. A single "no" refutes
            the claim, so the interval is at Bonferroni's level.
    """
    gap = paired_differences.difference(
        first, second, level=1 - ALPHA / comparisons
    )
    ends = wanted * gap.low, wanted * gap.high
    if min(ends) > 0:
        return YES, gap
    return NO if max(ends) < 0 else UNCLEAR, gap


def combine(answers: Iterable[str]) -> str:
    """Returns no if one answer is no, and yes if all answers are yes."""
    answers = set(answers)
    if NO in answers:
        return NO
    return YES if answers == {YES} else UNCLEAR
