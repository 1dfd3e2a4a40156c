"""The examples of one batch under attack, fewer as they are decided.

    cohort = Cohort(attack, rows, largest, begin)
    while len(cohort.rows):
        cohort.advance(10)
        for leaving in cohort.take_out(predict):
            ...                               # a verdict for each of its rows

Without a cohort, a long attack would continue with all examples of its batch
until the last step, although most of them may have fallen after a few steps.
Between two pieces the examples that no further step can change
(`Attack.decided`) leave the batch, and the others move into batches of the next
smaller sizes. Noise is a function of (seed, step, image), so the verdicts are
those of whole batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from adt_tf.attacks import Attack
from adt_tf.attacks.results import Progress
from adt_tf.attacks.resumable import Pieces
from adt_tf.evaluation.batches import batches, padded_index, total_size


class Leaving(NamedTuple):
    """Examples for which an attack has finished.

    Attributes:
        rows: Indices of the examples [n].
        x_adv: Images that the attack returns for them [n, ...].
        logits: Logits of these images [n, classes].
    """

    rows: np.ndarray
    x_adv: np.ndarray
    logits: np.ndarray


class Cohort:
    """Examples that are at the same step of one part of an attack.

    Args:
        attack: The attack.
        rows: Indices of the examples.
        labels: Labels of these examples.
        begin: Function of rows, a padded size and a `Progress` or None that
            returns the `Pieces` of that batch.
        largest: Size of a full batch.
        compacts: Whether examples leave before the last step.

    Attributes:
        rows: Indices of the examples that have not left.
    """

    def __init__(
        self,
        attack: Attack,
        rows: np.ndarray,
        labels: np.ndarray,
        begin: Callable[[np.ndarray, int, Progress | None], Pieces],
        *,
        largest: int,
        compacts: bool = True,
    ):
        self.attack = attack
        self._labels = dict(zip(rows.tolist(), labels.tolist(), strict=True))
        self._begin = begin
        self._largest = largest
        self._compacts = compacts
        self._groups = [
            (group, begin(group, size, None))
            for group, size in batches(rows, largest)
        ]

    @property
    def rows(self) -> np.ndarray:
        """Indices of the examples that have not left."""
        groups = [rows for rows, _ in self._groups]
        return np.concatenate(groups) if groups else np.zeros(0, int)

    @property
    def step(self) -> int:
        """Number of steps taken; the attack's length when all have left."""
        steps = [pieces.step for _, pieces in self._groups]
        return min(steps, default=self.attack.length)

    @property
    def progress(self) -> Progress:
        """Progress of the examples in the order of `rows`, without padding."""
        step = self._groups[0][1].progress.step
        parts = [
            _gathered(pieces.progress, np.arange(len(rows)))[1:]
            for rows, pieces in self._groups
        ]
        return Progress(step, *_concatenated(parts))

    def restore(self, rows: np.ndarray, progress: Progress) -> None:
        """Continues from an earlier progress.

        Args:
            rows: Indices of the examples in `progress`.
            progress: Value of `progress` at that time.
        """
        self._regroup(rows, progress)

    def advance(self, num_steps: int) -> None:
        """Takes at most `num_steps` further steps with every example."""
        for _, pieces in self._groups:
            if not pieces.done:
                pieces.advance(num_steps)

    def take_out(
        self, predict: Callable[[tf.Tensor], tf.Tensor]
    ) -> Iterator[Leaving]:
        """Yields the examples that have taken all steps, or are decided.

        An example that the attack calls decided leaves only if the classifier
        itself confirms the verdict on the image: the search may run in another
        precision or form.

        Args:
            predict: Function from images to logits, which gives the verdicts.
        """
        at_end = [group for group in self._groups if group[1].done]
        self._groups = [group for group in self._groups if not group[1].done]
        for rows, pieces in at_end:
            yield self._leaving(rows, *self._judged(pieces, predict))
        if not (self._compacts and self._groups and self._pays()):
            return
        staying = []
        for rows, pieces in self._groups:
            x_adv, logits = self._judged(pieces, predict)
            leaves = self._confirmed(rows, pieces, logits)
            if leaves.any():
                yield self._leaving(rows, x_adv, logits, leaves)
            staying.append(np.flatnonzero(~leaves))
        self._keep(staying)

    def _decided(self, rows: np.ndarray, pieces: Pieces) -> Any:
        decided = self.attack.decided(pieces.x, pieces.progress)
        return tf.nest.map_structure(lambda t: t.numpy()[: len(rows)], decided)

    def _confirmed(
        self, rows: np.ndarray, pieces: Pieces, logits: np.ndarray
    ) -> np.ndarray:
        """Returns which examples leave, for each of the rows."""
        decided = self._decided(rows, pieces)
        labels = np.array([self._labels[row] for row in rows.tolist()])
        is_wrong = logits[: len(rows)].argmax(-1) != labels
        return np.where(is_wrong, decided.fallen, decided.standing)

    def _pays(self) -> bool:
        """Whether smaller batches save more time than the check costs."""
        num_staying = size = 0
        for rows, pieces in self._groups:
            decided = self._decided(rows, pieces)
            num_staying += int(np.sum(~(decided.fallen | decided.standing)))
            size += pieces.size
        saved = size - total_size(num_staying, self._largest)
        return saved * (self.attack.length - self.step) >= max(size, 1)

    def _judged(
        self, pieces: Pieces, predict: Callable[[tf.Tensor], tf.Tensor]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the images and logits of a batch; checks the ball."""
        x_adv = pieces.finish().x_adv
        self.attack.threat_model.check(pieces.x, x_adv)
        return x_adv.numpy(), predict(x_adv).numpy()

    def _leaving(
        self,
        rows: np.ndarray,
        x_adv: np.ndarray,
        logits: np.ndarray,
        leaves: np.ndarray | None = None,
    ) -> Leaving:
        if leaves is None:
            leaves = np.ones(len(rows), bool)
        places = np.flatnonzero(leaves)
        return Leaving(rows[places], x_adv[places], logits[places])

    def _keep(self, places: list[np.ndarray]) -> None:
        """Keeps the examples at some places of each batch."""
        groups = [
            (rows[kept], _gathered(pieces.progress, kept))
            for kept, (rows, pieces) in zip(places, self._groups, strict=True)
            if len(kept)
        ]
        if not groups:
            self._groups = []
            return
        rows = np.concatenate([rows for rows, _ in groups])
        parts = _concatenated([progress[1:] for _, progress in groups])
        self._regroup(rows, Progress(groups[0][1].step, *parts))

    def _regroup(self, rows: np.ndarray, progress: Progress) -> None:
        places = np.arange(len(rows))
        self._groups = []
        for group, size in batches(places, self._largest):
            index = group[padded_index(len(group), size)]
            pieces = self._begin(rows[group], size, _gathered(progress, index))
            self._groups.append((rows[group], pieces))


def _gathered(progress: Progress, places: np.ndarray) -> Progress:
    """Returns the progress of the examples at some places."""
    step, *rest = progress
    return Progress(
        step, *tf.nest.map_structure(lambda t: tf.gather(t, places), rest)
    )


def _concatenated(parts: list[Any]) -> Any:
    return tf.nest.map_structure(
        lambda *tensors: tf.concat(tensors, axis=0), *parts
    )
