"""The loop of an evaluation: attacks in order, on the examples standing.

    loop = Loop(classifier, images, labels, state, ...)
    loop.natural()
    loop.attack(row, attack, np.all(state.outcomes[:row] == RIGHT, axis=0))

Verdicts go into the `State`, which saves them on the way.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from adt_tf import checks
from adt_tf.attacks import Attack
from adt_tf.attacks.resumable import Pieces
from adt_tf.evaluation import time_left
from adt_tf.evaluation.batches import batches, sizes_at_most
from adt_tf.evaluation.outcome import NATURAL
from adt_tf.evaluation.state import State

# Images that a classifier is shown at once by attacks that look at many for
# each example, such as SPSA. More are not faster, and an attack that stops when
# its examples have fallen goes on until the last of a batch has.
_IMAGES_AT_ONCE = 1024

# An attack is run in pieces of about this length, so that its bar moves and a
# killed evaluation loses little.
_PIECE_SECONDS = 5.0


class Loop:
    """One pass over attacks, parts and batches.

    Args:
        classifier: Function from images to logits.
        images: Images [n, height, width, channels].
        labels: Integers [n].
        state: Verdicts so far; those that are missing are added.
        seed: Seed of the attacks' noise.
        batch_size: Number of images at once.
        verbose: Whether to show progress.
    """

    def __init__(
        self,
        classifier: Any,
        images: np.ndarray,
        labels: np.ndarray,
        state: State,
        *,
        seed: int,
        batch_size: int,
        verbose: bool,
    ):
        self.classifier = classifier
        self.images = images
        self.labels = labels
        self.state = state
        self.seed = seed
        self.batch_size = batch_size
        self.verbose = verbose
        self.predict = _predict_function(classifier)
        # How many steps of each attack take a piece's time.
        self._piece: dict[str, int] = {}

    def agrees(self, bounds: tuple[float, float]) -> bool:
        """Whether the saved verdicts on clean images are the classifier's.

        Args:
            bounds: Range of the pixels, which saved images must keep to.
        """
        low, high = bounds[0] - checks.TOLERANCE, bounds[1] + checks.TOLERANCE
        examples = self.state.examples
        if (
            examples.size
            and not low <= examples.min() <= examples.max() <= high
        ):
            return False
        rows = np.flatnonzero(self.state.parts_done[0])
        for chosen, size in batches(rows, self.batch_size):
            clean = self._padded(self.images, chosen, size)
            logits = self.predict(clean).numpy()[: len(chosen)]
            right = logits.argmax(-1) == self.labels[chosen]
            if not np.array_equal(right, self.state.outcomes[0, chosen]):
                return False
        return True

    def natural(self) -> None:
        """Classifies the clean images."""
        rows = np.flatnonzero(self.state.parts_done[0] == 0)
        with self._bar(NATURAL, len(rows)) as bar:
            for chosen, size in batches(rows, self.batch_size):
                clean = self._padded(self.images, chosen, size)
                self._record(0, NATURAL, chosen, clean)
                bar.update(len(chosen))
            self._show(bar, 0, np.ones(len(self.labels), bool))
        self.state.save(now=True)

    def attack(self, row: int, attack: Attack, target: np.ndarray) -> None:
        """Runs all parts of an attack on the examples of a mask."""
        state = self.state
        largest = max(1, _IMAGES_AT_ONCE // attack.images_per_example)
        largest = min(self.batch_size, largest)
        left = np.where(target, attack.num_parts - state.parts_done[row], 0)
        left = np.where(state.outcomes[row] == 0, 0, left)
        clock = time_left.TimeLeft(attack.length)
        with self._bar(attack.name, int(left.sum())) as bar:
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
                batches_left = list(batches(rows, largest))
                for i, (chosen, size) in enumerate(batches_left):
                    standing = np.flatnonzero(
                        target & (state.outcomes[row] != 0)
                    )
                    clock.batch(
                        size,
                        [size for _, size in batches_left[i + 1 :]]
                        + parts_left * sizes_at_most(standing, largest),
                    )
                    x = self._padded(self.images, chosen, size)
                    y = self._padded(self.labels, chosen, size)
                    pieces = Pieces(
                        attack, self.classifier, x, y, seed=self.seed, part=part
                    )
                    x_adv = self._in_pieces(
                        pieces, (row, part), chosen, bar, clock
                    )
                    attack.threat_model.check(x, x_adv)
                    fallen = self._record(row, attack.name, chosen, x_adv)
                    clock.ended()
                    # What has fallen is spared the other parts.
                    bar.total -= fallen * parts_left
                    self._show(bar, row, target, clock)
                    state.save()
            self._show(bar, row, target)
        state.save(now=True)

    def _in_pieces(
        self,
        pieces: Pieces,
        place: tuple[int, int],
        chosen: np.ndarray,
        bar: tqdm.tqdm,
        clock: time_left.TimeLeft,
    ) -> tf.Tensor:
        """Attacks a batch; the bar moves and the state is saved on the way.

        Args:
            pieces: The attack on the batch.
            place: The row of the attack and its part.
            chosen: The examples of the batch.
            bar: Counts them.
            clock: Times them.
        """
        length, before = pieces.attack.length, bar.n
        key = np.array([*place, *chosen])
        pieces.progress = self.state.load_batch(key, pieces.progress)
        num_steps = self._piece.get(pieces.attack.name, 1)
        clock.begun()
        while not pieces.done:
            step = pieces.step
            pieces.advance(num_steps)
            taken = pieces.step - step
            # An attack that has broken all goes to its end at once.
            seconds = clock.stepped(
                taken if taken <= num_steps else 0, length - pieces.step
            )
            if not pieces.done:
                bar.n = before + len(chosen) * pieces.step / length
                bar.set_postfix_str(
                    _told(f"step {pieces.step} of {length}", clock)
                )
                self.state.save_batch(key, pieces.progress)
                seconds = max(seconds, 1e-3)
                fitting = max(1, int(num_steps * _PIECE_SECONDS / seconds))
                num_steps = min(2 * num_steps, fitting)
        self._piece[pieces.attack.name] = num_steps
        bar.n = before
        bar.update(len(chosen))
        return pieces.finish().x_adv

    def _record(
        self, row: int, name: str, chosen: np.ndarray, x_adv: tf.Tensor
    ) -> int:
        """Counts what is classified correctly; returns how many are not."""
        state = self.state
        logits = self.predict(x_adv).numpy()[: len(chosen)]
        spoiled = ~np.isfinite(logits).all(axis=-1)
        if row > 0 and spoiled.any():
            raise ValueError(
                f"The classifier returned NaN or infinite logits for example "
                f"{chosen[spoiled.argmax()]} under {name}, though not for its "
                "clean image: it overflows, or divides by 0, within epsilon "
                "of it. Evaluate it in float32 if it computes in float16, and "
                "look for a quotient, a root or a logarithm in it."
            )
        logits = _checked_logits(logits, self.labels)
        right = logits.argmax(-1) == self.labels[chosen]
        if state.examples.size:
            unbroken = np.all(state.outcomes[:, chosen] != 0, axis=0)
            state.examples[chosen[unbroken]] = x_adv.numpy()[: len(chosen)][
                unbroken
            ]
        state.outcomes[row, chosen] = right
        state.parts_done[row, chosen] += 1
        now = time.monotonic()
        state.seconds[row] += now - self._since
        self._since = now
        return int(np.sum(~right))

    def _show(
        self,
        bar: tqdm.tqdm,
        row: int,
        target: np.ndarray,
        clock: time_left.TimeLeft | None = None,
    ) -> None:
        standing = np.mean(target & (self.state.outcomes[row] != 0))
        bar.set_postfix_str(_told(f"{100 * standing:.2f} % standing", clock))

    def _padded(self, array: np.ndarray, chosen: np.ndarray, size: int):
        """Repeats the last example up to a full batch: few shapes."""
        index = np.minimum(np.arange(size), len(chosen) - 1)
        return tf.constant(array[chosen[index]])

    def _bar(self, name: str, total: int) -> tqdm.tqdm:
        self._since = time.monotonic()
        return tqdm.tqdm(
            total=total,
            desc=f"{name:<10}",
            unit="image",
            disable=not self.verbose,
            bar_format="{desc} {bar:24} {n:.0f}/{total:.0f} "
            "[{elapsed}]{postfix}",
        )


def _told(text: str, clock: time_left.TimeLeft | None) -> str:
    """Adds what is known of the time left."""
    seconds = clock and clock.seconds
    if not seconds:
        return text
    return f"{text}, at most {time_left.upper(seconds)} left"


_PREDICT = weakref.WeakKeyDictionary()


def _predict_function(classifier: Any) -> Any:
    """Traces a classifier once, and forgets it with it."""
    if classifier not in _PREDICT:
        # A strong reference here would keep the classifier alive for ever.
        reference = weakref.ref(classifier)
        _PREDICT[classifier] = tf.function(
            lambda x: checks.as_logits(
                reference()(x, training=False), reference()
            ),
            autograph=False,
            reduce_retracing=True,
        )
    return _PREDICT[classifier]


def _checked_logits(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if logits.ndim != 2 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"Labels go up to {labels.max()}, so the classifier must return "
            f"logits (batch, {labels.max() + 1} or more). Received: logits of "
            f"shape {logits.shape}."
        )
    if not np.isfinite(logits).all():
        raise ValueError(
            "The classifier returned NaN or infinite logits: no accuracy can "
            "be told from them. Check its weights (did training diverge?)."
        )
    if bool(checks.looks_like_softmax(tf.constant(logits))):
        raise ValueError(checks.SOFTMAX_MESSAGE)
    return logits
