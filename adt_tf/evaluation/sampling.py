"""Samples of distributions, and how many of them fool a classifier.

    sampler = Sampler(classifier, images, labels, ...)
    right = sampler.natural()
    sampler.count(attack, counts, row, right)

Counts go into `FailureCounts`, which saves them on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from adt_tf import objectives, seeds
from adt_tf.attacks import Attack
from adt_tf.attacks.tracing import use_xla
from adt_tf.data import DiskImages
from adt_tf.evaluation.batches import batches, padded_index, smallest_size
from adt_tf.evaluation.failure_counts import BLOCK, FailureCounts

# Number of images that the classifier sees at once.
_IMAGES_AT_ONCE = 2048


class Sampler:
    """Draws samples of each image until they decide about it.

    Args:
        classifier: Function from images to logits.
        images: Images [n, height, width, channels].
        labels: Integers [n].
        seed: Seed of the noise.
        batch_size: Number of images at once.
        verbose: Whether to show progress.
        is_decided: Function of the numbers of failures and of samples that
            returns which images need no further sample.
        looks: Numbers of samples after which `is_decided` is asked; the last
            one is the largest number of samples.
    """

    def __init__(
        self,
        classifier: Any,
        images: np.ndarray | DiskImages,
        labels: np.ndarray,
        *,
        seed: int,
        batch_size: int,
        verbose: bool,
        is_decided: Callable[[np.ndarray, np.ndarray], np.ndarray],
        looks: Sequence[int],
    ):
        self.classifier = classifier
        self.images, self.labels = images, labels
        self.seed = seeds.make(seed)
        self.batch_size = min(batch_size, max(1, _IMAGES_AT_ONCE // BLOCK))
        self.verbose = verbose
        self.is_decided = is_decided
        self.looks = looks

    def natural(self) -> np.ndarray:
        """Returns whether each clean image is classified correctly [n]."""
        right = np.zeros(len(self.labels), bool)
        predict = tf.function(
            lambda x: objectives.logits_of(self.classifier, x[:, tf.newaxis])
        )
        for rows, size in batches(np.arange(len(right)), self.batch_size):
            x, _ = self._padded(rows, size)
            logits = predict(x).numpy()[: len(rows), 0]
            right[rows] = logits.argmax(-1) == self.labels[rows]
        return right

    def count(
        self,
        attack: Attack,
        counts: FailureCounts,
        row: int,
        right: np.ndarray,
    ) -> None:
        """Samples all images that are right when clean.

        Args:
            attack: Attack to sample.
            counts: Numbers of samples and failures, which it adds to.
            row: Row of the attack in `counts`.
            right: Whether each clean image is classified correctly [n].
        """
        draw = self._draw_function(attack)
        solve = attack.function(self.classifier, "solve", use_xla("auto"))
        failures, samples = counts.failures[row], counts.samples[row]
        finished = ~right | (samples == self.looks[-1])
        at_a_look = np.isin(samples, self.looks)
        finished |= at_a_look & self.is_decided(failures, samples)
        since = time.monotonic()
        with self._bar(attack.name, int(np.sum(~finished))) as bar:
            while not finished.all():
                waiting = np.flatnonzero(~finished)
                # Images of a batch have the same number of samples.
                alike = waiting[samples[waiting] == samples[waiting[0]]]
                rows, size = next(batches(alike, self.batch_size))
                x, y = self._padded(rows, size)
                solution = solve(x, y, self.seed, tf.constant(0))
                while len(rows):
                    block = int(samples[rows[0]]) // BLOCK
                    key = seeds.fold(seeds.fold(self.seed, 2), block)
                    x_adv, fooled, finite = draw(x, y, solution, key)
                    attack.threat_model.check(x[:, tf.newaxis], x_adv)
                    if not finite:
                        raise ValueError(
                            "The classifier returned NaN or infinite logits "
                            f"for samples of {attack.name}: it overflows, or "
                            "divides by 0, within epsilon of an image."
                        )
                    failures[rows] += fooled.numpy()[: len(rows)]
                    samples[rows] += BLOCK
                    now = time.monotonic()
                    counts.seconds[row] += now - since
                    since = now
                    counts.save()
                    if samples[rows[0]] not in self.looks:
                        continue
                    is_done = self.is_decided(failures[rows], samples[rows])
                    is_done |= samples[rows] == self.looks[-1]
                    finished[rows[is_done]] = True
                    bar.update(int(is_done.sum()))
                    solution, x, y, rows = self._kept(
                        solution, rows, np.flatnonzero(~is_done)
                    )
        counts.save(now=True)

    def _kept(
        self, solution: Any, rows: np.ndarray, kept: np.ndarray
    ) -> tuple[Any, tf.Tensor | None, tf.Tensor | None, np.ndarray]:
        """Returns the solution, images, labels and rows that a batch keeps."""
        if not len(kept):
            return solution, None, None, rows[kept]
        size = smallest_size(len(kept), self.batch_size)
        index = kept[padded_index(len(kept), size)]
        solution = tf.nest.map_structure(
            lambda t: tf.gather(t, index), solution
        )
        rows = rows[kept]
        return solution, *self._padded(rows, size), rows

    def _draw_function(self, attack: Attack) -> Any:
        """Returns a function that draws a block and counts failures."""

        def draw(x, y, solution, seed):
            x_adv = attack.sample(
                x, solution, num_samples=BLOCK, seed=seed
            ).x_adv
            logits = objectives.logits_of(self.classifier, x_adv)
            seen = tf.argmax(logits, axis=-1, output_type=y.dtype)
            fooled = tf.cast(seen != y[:, tf.newaxis], tf.int32)
            finite = tf.reduce_all(tf.math.is_finite(logits))
            return x_adv, tf.reduce_sum(fooled, axis=1), finite

        return tf.function(draw, autograph=False)

    def _padded(
        self, rows: np.ndarray, size: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Repeats the last example up to a full batch: few shapes."""
        index = rows[padded_index(len(rows), size)]
        return tf.constant(self.images[index]), tf.constant(self.labels[index])

    def _bar(self, name: str, total: int) -> tqdm.tqdm:
        return tqdm.tqdm(
            total=total,
            desc=f"{name:<14}",
            unit="image",
            disable=not self.verbose,
            bar_format="{desc} {bar:24} {n:.0f}/{total:.0f} [{elapsed}]",
        )
