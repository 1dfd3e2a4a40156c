"""Detection of climbs that have returned to an earlier point.

A step of one size in each pixel leads from point to point of a lattice, so a
climb by such steps repeats itself sooner or later, exactly, and then runs in a
circle. Then it meets no new image, and the verdict on the example cannot
change.

    repeats = Repeats.none(size)
    repeats = repeats.noted(params, step)
    repeats.settled                       # [batch]

Reference: cycle detection in PGD, arXiv 2503.19347.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

# Number of remembered steps. A longer circle is not detected.
MEMORY = 128


class Repeats(NamedTuple):
    """The last points of each example's climb.

    Attributes:
        fingerprints: 64 bits of each of the last points [batch, MEMORY].
        settled: Whether the climb has met a point for the second time [batch].
    """

    fingerprints: tf.Tensor
    settled: tf.Tensor

    @classmethod
    def none(cls, size: int | tf.Tensor) -> Repeats:
        """Returns the memory before the first step.

        Args:
            size: Number of examples.
        """
        return cls(tf.zeros([size, MEMORY], tf.int64), tf.zeros([size], bool))

    def noted(self, points: tf.Tensor, step: tf.Tensor) -> Repeats:
        """Adds the starting points of a step.

        Two different points have the same fingerprint once in 2^57 steps.

        Args:
            points: Points [batch, ...].
            step: Number of the step.
        """
        new = tf.bitcast(tf.fingerprint(points), tf.int64)[:, tf.newaxis]
        places = tf.range(MEMORY)[tf.newaxis]
        again = (self.fingerprints == new) & (places < step)
        return Repeats(
            tf.where(places == step % MEMORY, new, self.fingerprints),
            self.settled | tf.reduce_any(again, axis=1),
        )
