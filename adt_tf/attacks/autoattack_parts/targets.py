"""The target classes of the targeted parts of AutoAttack."""

from __future__ import annotations

import tensorflow as tf


def likeliest_wrong(
    logits: tf.Tensor, y: tf.Tensor, rank: int | tf.Tensor
) -> tf.Tensor:
    """Returns the wrong class [batch] of a rank by its logit, from 0.

    A rank beyond the last wrong class gives the last one.

    Args:
        logits: Logits of the clean images [batch, classes].
        y: Labels [batch].
        rank: Rank of the class, a scalar.
    """
    classes = logits.shape[-1]
    is_true = tf.one_hot(y, classes, True, False)
    wrong = tf.where(is_true, logits.dtype.min, logits)
    ranked = tf.argsort(wrong, direction="DESCENDING", stable=True)
    return tf.gather(ranked, tf.minimum(rank, classes - 2), axis=1)
