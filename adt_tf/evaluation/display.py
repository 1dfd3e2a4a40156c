"""What an evaluation shows while it runs: a bar for each attack."""

from __future__ import annotations

import sys

import numpy as np
import tqdm

from adt_tf.evaluation import time_left
from adt_tf.evaluation.state import State


class Display:
    """Progress bars and lines about the examples that still stand.

    Args:
        state: Verdicts so far.
        verbose: Whether to show anything.
    """

    def __init__(self, state: State, verbose: bool):
        self.state = state
        self.verbose = verbose

    def bar(self, name: str, total: int, unit: str) -> tqdm.tqdm:
        """Returns the progress bar of an attack."""
        return tqdm.tqdm(
            total=total,
            desc=f"{name:<10}",
            unit=unit,
            disable=not self.verbose,
            bar_format="{desc} {bar:24} {n:.0f}/{total:.0f} {unit} "
            "[{elapsed}]{postfix}",
        )

    def show(
        self,
        bar: tqdm.tqdm,
        row: int,
        target: np.ndarray,
        clock: time_left.TimeLeft | None = None,
    ) -> None:
        """Shows beside a bar how many examples stand, and the time left."""
        bar.set_postfix_str(with_time_left(self._standing(row, target), clock))

    def say_finished(self, name: str, row: int, target: np.ndarray) -> None:
        """Prints, in place of a bar, that no image is left to attack."""
        text = "no image is left to attack"
        if target.any():
            text = f"finished before, {self._standing(row, target)}"
        if self.verbose:
            tqdm.tqdm.write(f"{name:<10} {text}", file=sys.stderr)

    def _standing(self, row: int, target: np.ndarray) -> str:
        standing = np.mean(target & (self.state.outcomes[row] != 0))
        return f"{100 * standing:.2f} % standing"


def with_time_left(text: str, clock: time_left.TimeLeft | None) -> str:
    """Adds an upper bound of the time left to a text, where it is known."""
    seconds = clock and clock.seconds
    if not seconds:
        return text
    return f"{text}, at most {time_left.upper(seconds)} left"
