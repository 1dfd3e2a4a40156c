"""The loop of an evaluation: attacks in order, on the standing examples.

    loop = Loop(classifier, images, labels, state, ...)
    loop.natural()
    loop.attack(row, attack, np.all(state.outcomes[:row] == RIGHT, axis=0))

Verdicts go into the `State`, which saves them on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from adt_tf import checks
from adt_tf.attacks import Attack
from adt_tf.attacks.results import Progress
from adt_tf.attacks.resumable import Pieces
from adt_tf.data import DiskImages
from adt_tf.evaluation import time_left
from adt_tf.evaluation.batches import (
    batches,
    padded_index,
    sizes_at_most,
    total_size,
)
from adt_tf.evaluation.cohort import Cohort
from adt_tf.evaluation.display import Display, with_time_left
from adt_tf.evaluation.outcome import NATURAL
from adt_tf.evaluation.predictions import (
    check_finite,
    checked_logits,
    predict_function,
)
from adt_tf.evaluation.sharing import Workers
from adt_tf.evaluation.state import State

# Number of images that the classifier sees at once in attacks that show it many
# for each example, such as SPSA. Larger batches are not faster.
_IMAGES_AT_ONCE = 1024

# Longest piece of an attack, so that the progress bar moves and a killed
# evaluation loses little.
_PIECE_SECONDS = 5.0


class Loop:
    """Runs attacks on examples and records the verdicts.

    Args:
        classifier: Function from images to logits.
        images: Images [n, height, width, channels].
        labels: Integers [n].
        state: Verdicts so far, which it adds to.
        seed: Seed of the attacks' noise.
        batch_size: Number of images at once.
        verbose: Whether to show progress.
        is_over: Function that returns whether the time is over. It is asked
            between two pieces of an attack.
        workers: Processes and devices that share the examples.
    """

    def __init__(
        self,
        classifier: Any,
        images: np.ndarray | DiskImages,
        labels: np.ndarray,
        state: State,
        *,
        seed: int,
        batch_size: int,
        verbose: bool,
        is_over: Callable[[], bool] = lambda: False,
        workers: Workers | None = None,
    ):
        self.classifier = classifier
        self.images = images
        self.labels = labels
        self.state = state
        self.seed = seed
        self.batch_size = batch_size
        self.display = Display(state, verbose)
        self.predict = predict_function(classifier)
        self.is_over = is_over
        self.workers = workers or Workers()
        self._since = time.monotonic()
        # Number of steps of each attack that take a piece's time.
        self._pace: dict[str, int] = {}

    def agrees(self, bounds: tuple[float, float]) -> bool:
        """Returns whether the classifier confirms the saved natural verdicts.

        Args:
            bounds: Range of the pixels, which saved images must obey.
        """
        low, high = bounds[0] - checks.TOLERANCE, bounds[1] + checks.TOLERANCE
        examples = self.state.examples
        if (
            examples.size
            and not low <= examples.min() <= examples.max() <= high
        ):
            return False
        saved = np.flatnonzero(self.state.parts_done[0])
        for rows, size in batches(saved, self.batch_size):
            clean = self._padded(self.images, rows, size)
            logits = self.predict(clean).numpy()[: len(rows)]
            right = logits.argmax(-1) == self.labels[rows]
            if not np.array_equal(right, self.state.outcomes[0, rows]):
                return False
        return True

    def natural(self) -> None:
        """Classifies the clean images."""
        own = self.workers.own(np.ones(len(self.labels), bool))
        left = np.flatnonzero(own & (self.state.parts_done[0] == 0))
        if not len(left):
            self.display.say_finished(NATURAL, 0, own)
            return
        with self._bar(NATURAL, len(left)) as bar:
            for rows, size in batches(left, self.batch_size):
                clean = self._padded(self.images, rows, size)
                logits = self.predict(clean).numpy()[: len(rows)]
                images = clean.numpy()[: len(rows)]
                self._record(0, NATURAL, rows, images, logits)
                bar.update(len(rows))
            self.display.show(bar, 0, np.ones(len(self.labels), bool))
        self.state.save(now=True)

    def attack(self, row: int, attack: Attack, target: np.ndarray) -> bool:
        """Runs all parts of an attack on the examples of a mask.

        Args:
            row: Row of the attack in the state.
            attack: The attack.
            target: Mask of the examples to attack [n].

        Returns:
            Whether the attack has finished; False if the time is over.
        """
        state = self.state
        largest = max(1, _IMAGES_AT_ONCE // attack.images_per_example)
        largest = min(self.batch_size, largest)
        left = np.where(target, attack.num_parts - state.parts_done[row], 0)
        left = np.where(state.outcomes[row] == 0, 0, left)
        if not left.any():
            self.display.say_finished(attack.name, row, target)
            return True
        clock = time_left.TimeLeft(attack.length)
        unit = "images"
        if attack.num_parts > 1:
            unit = f"tries, {attack.num_parts} an image"
        with self._bar(attack.name, int(left.sum()), unit) as bar:
            passes = (
                f"{attack.passes:,} pass{'' if attack.passes == 1 else 'es'}"
            )
            bar.set_postfix_str(f"up to {passes} an image")
            for part in range(attack.num_parts):
                parts_left = attack.num_parts - part - 1
                rows = np.flatnonzero(
                    target
                    & (state.parts_done[row] == part)
                    & (state.outcomes[row] != 0)
                )
                batches_left = self._batches((row, part), rows, largest)
                for i, (batch_rows, size) in enumerate(batches_left):
                    standing = np.flatnonzero(
                        target & (state.outcomes[row] != 0)
                    )
                    clock.batch(
                        size,
                        [size for _, size in batches_left[i + 1 :]]
                        + parts_left * sizes_at_most(standing, largest),
                    )
                    cohort = self._cohort(
                        (row, part), attack, batch_rows, largest
                    )
                    num_fallen = self._run(cohort, (row, part), bar, clock)
                    clock.ended()
                    # The other parts do not attack fallen examples.
                    bar.total -= num_fallen * parts_left
                    self.display.show(bar, row, target, clock)
                    state.save()
                    if len(cohort.rows):
                        state.save(now=True)
                        return False
            self.display.show(bar, row, target)
        state.save(now=True)
        return True

    def _batches(
        self, place: tuple[int, int], rows: np.ndarray, largest: int
    ) -> list[tuple[np.ndarray, int]]:
        """Returns (rows, padded size); an interrupted batch comes first."""
        saved = self.state.batch_rows(place)
        saved = saved[np.isin(saved, rows)]
        others = rows[~np.isin(rows, saved)]
        first = [(saved, total_size(len(saved), largest))] * bool(len(saved))
        return [*first, *batches(others, largest)]

    def _cohort(
        self,
        place: tuple[int, int],
        attack: Attack,
        rows: np.ndarray,
        largest: int,
    ) -> Cohort:
        """Returns the examples under one part, with any earlier progress."""

        def begin(
            rows: np.ndarray, size: int, progress: Progress | None
        ) -> Pieces:
            return Pieces(
                attack,
                self.classifier,
                self._padded(self.images, rows, size),
                self._padded(self.labels, rows, size),
                seed=self.seed,
                part=place[1],
                progress=progress,
                spread=self.workers.spread,
            )

        cohort = Cohort(
            attack,
            rows,
            self.labels[rows],
            begin,
            largest=largest,
            # A kept image is the strongest one, so the search goes to its end.
            compacts=not self.state.examples.size,
        )
        if np.isin(rows, self.state.batch_rows(place)).all():
            progress = self.state.load_batch(place, rows, cohort.progress)
            if progress is not None:
                cohort.restore(rows, progress)
        return cohort

    def _run(
        self,
        cohort: Cohort,
        place: tuple[int, int],
        bar: tqdm.tqdm,
        clock: time_left.TimeLeft,
    ) -> int:
        """Attacks the examples until all have left, or the time is over.

        Args:
            cohort: Examples to attack. If the time is over, the rest is saved.
            place: Row of the attack, and its part.
            bar: Progress bar.
            clock: Stopwatch of the attack.

        Returns:
            Number of examples that have fallen.
        """
        attack, before = cohort.attack, bar.n
        length, num_rows = attack.length, len(cohort.rows)
        pace = self._pace.get(attack.name, 1)
        num_fallen = 0
        clock.begun()
        while True:
            for leaving in cohort.take_out(self.predict):
                num_fallen += self._record(place[0], attack.name, *leaving)
            if not len(cohort.rows):
                break
            step = cohort.step
            bar.n = before + num_rows * step // length
            if self.is_over():
                self._count_time(place[0])
                self.state.save_batch(place, cohort.rows, cohort.progress)
                return num_fallen
            # Short pieces at first, where most examples fall.
            longest = min(max(step, length // 16), length // 4)
            num_steps = max(1, min(pace, longest))
            cohort.advance(num_steps)
            num_taken = cohort.step - step
            # A batch in which all are decided goes to its end at once.
            seconds = clock.stepped(
                num_taken if num_taken <= num_steps else 0,
                length - cohort.step,
            )
            step = cohort.step
            bar.n = before + num_rows * step // length
            bar.set_postfix_str(
                with_time_left(f"step {step} of {length}", clock)
            )
            if step < length:
                if self.state.batch_is_due:
                    # Verdicts of examples that have left, then the others.
                    self.state.save()
                    self.state.save_batch(place, cohort.rows, cohort.progress)
                seconds = max(seconds, 1e-3)
                pace = max(1, int(num_steps * _PIECE_SECONDS / seconds))
        self._pace[attack.name] = pace
        bar.n = before
        bar.update(num_rows)
        return num_fallen

    def _record(
        self,
        row: int,
        name: str,
        rows: np.ndarray,
        x_adv: np.ndarray,
        logits: np.ndarray,
    ) -> int:
        """Counts the correct answers; returns the number of wrong ones."""
        state = self.state
        if row > 0:
            check_finite(logits, rows, name)
        logits = checked_logits(logits, self.labels)
        right = logits.argmax(-1) == self.labels[rows]
        if state.examples.size:
            unbroken = np.all(state.outcomes[:, rows] != 0, axis=0)
            state.examples[rows[unbroken]] = x_adv[unbroken]
        state.outcomes[row, rows] = right
        state.parts_done[row, rows] += 1
        self._count_time(row)
        return int(np.sum(~right))

    def _count_time(self, row: int) -> None:
        """Adds the time since the last call to that of an attack."""
        now = time.monotonic()
        self.state.seconds[row] += now - self._since
        self._since = now

    def _padded(
        self, array: np.ndarray | DiskImages, rows: np.ndarray, size: int
    ) -> tf.Tensor:
        """Repeats the last example up to a full batch: few shapes."""
        return tf.constant(array[rows[padded_index(len(rows), size)]])

    def _bar(self, name: str, total: int, unit: str = "images") -> tqdm.tqdm:
        self._since = time.monotonic()
        return self.display.bar(name, total, unit)
