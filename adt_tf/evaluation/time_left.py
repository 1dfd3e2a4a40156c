"""An upper estimate of the time that an attack still takes.

    clock = TimeLeft(attack.length)
    clock.batch(128, to_come=[128, 32])     # a batch of 128 begins
    clock.begun()                           # before its first step
    clock.stepped(10, left=90)              # after ten steps of it
    clock.ended()
    clock.seconds

Each batch is assumed to take all its steps at the pace of the slowest one.
Examples that fall end some batches early and make others smaller, so attacks
usually end sooner. Only the first batch of each size is traced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence


class TimeLeft:
    """A stopwatch for the batches of one attack.

    Args:
        length: Number of steps of a batch.
    """

    def __init__(self, length: int):
        self._length = length
        # Seconds of the slowest step, and the most seconds that a batch takes
        # beside its steps. `_new_*` are those of sizes that were traced.
        self._step = self._new_step = 0.0
        self._beside = self._new_beside = 0.0
        self._sizes: set[int] = set()
        self._to_come: Sequence[int] = ()
        self._is_new = self._is_first = True
        self._steps_left = 0
        self._before = 0.0
        self._lap_at = time.monotonic()

    def batch(self, size: int, to_come: Sequence[int]) -> None:
        """Begins a batch.

        Args:
            size: Number of its examples, padding included.
            to_come: Sizes of the further batches if no example falls.
        """
        self._is_new, self._is_first = size not in self._sizes, True
        self._sizes.add(size)
        self._to_come, self._steps_left = to_come, self._length

    def begun(self) -> None:
        """Starts the time of the first step."""
        self._before = self._lap()

    def stepped(self, num_steps: int, left: int) -> float:
        """Ends the time of some steps and returns their seconds.

        Args:
            num_steps: Number of steps taken; 0 if the batch ended early, after
                an unknown number.
            left: Number of steps that the batch has left.
        """
        seconds = self._lap()
        self._steps_left = left
        if num_steps and self._is_new and self._is_first:
            self._new_step = max(self._new_step, seconds)
        elif num_steps:
            self._step = max(self._step, seconds / num_steps)
        self._is_first = False
        return seconds

    def ended(self) -> None:
        """Ends the time of the batch."""
        beside = self._before + self._lap()
        self._steps_left = 0
        if self._is_new:
            self._new_beside = max(self._new_beside, beside)
        else:
            self._beside = max(self._beside, beside)

    @property
    def seconds(self) -> float | None:
        """Upper estimate of the time left; None before it can be estimated.

        A step with its tracing is much slower than the others, so it is not
        used before the batch has ended.
        """
        step = self._step
        if not step and not self._steps_left:
            step = self._new_step
        if not step:
            return None
        beside = self._beside or self._new_beside or self._before
        num_batches = len(self._to_come) + (self._steps_left > 0)
        num_steps = self._steps_left + len(self._to_come) * self._length
        num_new = len(set(self._to_come) - self._sizes)
        return (
            num_steps * step
            + num_batches * beside
            + num_new * (self._new_step + self._new_beside)
        )

    def _lap(self) -> float:
        """Returns the seconds since the last lap."""
        since, self._lap_at = self._lap_at, time.monotonic()
        return self._lap_at - since


def upper(seconds: float) -> str:
    """Returns a time as text, rounded up.

    >>> upper(3.2), upper(61), upper(7300)
    ('4 s', '2 min', '2.1 h')
    """
    if seconds <= 60:
        return f"{math.ceil(seconds)} s"
    if seconds <= 7200:
        return f"{math.ceil(seconds / 60)} min"
    return f"{math.ceil(seconds / 360) / 10:.1f} h"
