"""What the classifier's weights descend: outer losses.

A loss is a function (classifier, x, x_adv, y, training) -> RobustLoss, where
x_adv [batch, samples, ...] comes from the attack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import objectives


class RobustLoss(NamedTuple):
    """The outcome of a loss.

    Attributes:
        value: Loss per example [batch].
        adversarial_logits: [batch, samples, classes].
        clean_logits: [batch, classes], or None where the clean images were
            not run.
    """

    value: tf.Tensor
    adversarial_logits: tf.Tensor
    clean_logits: tf.Tensor | None = None


def cross_entropy(
    classifier: Any,
    x: tf.Tensor,
    x_adv: tf.Tensor,
    y: tf.Tensor,
    *,
    training: bool,
) -> RobustLoss:
    """Cross-entropy of the adversarial images, averaged over samples."""
    del x
    logits = objectives.logits_of(classifier, x_adv, training=training)
    value = tf.reduce_mean(objectives.cross_entropy_of(logits, y), axis=1)
    return RobustLoss(value, logits)
