"""What an attack climbs: per-example values of adversarial images.

An objective is a function (classifier, x, y, seed) -> value, where
value(x_adv [batch, k, ...]) -> [batch, k]. What does not depend on x_adv (a
target, the clean logits) is worked out once, before the loop.

    value = cross_entropy(classifier, x, y, seed=seed)
    value(x_adv)

Parts: `cross_entropy`, `targeted_cross_entropy`, `margin(confidence)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import seeds

Value = Callable[[tf.Tensor], tf.Tensor]
Objective = Callable[..., Value]


def logits_of(
    classifier: Any, x: tf.Tensor, *, training: bool = False
) -> tf.Tensor:
    """Runs the classifier on images [batch, k, ...] -> [batch, k, classes]."""
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    flat = tf.ensure_shape(flat, [None, *x.shape[2:]])
    logits = tf.cast(classifier(flat, training=training), tf.float32)
    if len(logits.shape) != 2:
        raise ValueError(
            "The classifier must return logits of shape (batch, classes). "
            f"Received: shape={tuple(logits.shape)} for images of shape "
            f"{tuple(x.shape[2:])}; end it with pooling or Flatten and a "
            "Dense layer without activation."
        )
    return tf.reshape(logits, [shape[0], shape[1], logits.shape[-1]])


def cross_entropy_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Cross-entropy [batch, k] of logits [batch, k, classes], y [batch]."""
    labels = tf.repeat(y[:, tf.newaxis], tf.shape(logits)[1], axis=1)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits
    )


def cross_entropy(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """The loss of the true class, which FGSM, PGD, MIM and EXP climb."""
    del x, seed
    return lambda x_adv: cross_entropy_of(logits_of(classifier, x_adv), y)


def targeted_cross_entropy(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """Minus the loss of a class drawn uniformly among the wrong ones.

    Reference: Kurakin et al., Adversarial Machine Learning at Scale, 2017.
    """
    num_classes = logits_of(classifier, x[:, tf.newaxis]).shape[-1]
    offset = seeds.per_example(
        lambda s: tf.random.stateless_uniform(
            [], s, 1, num_classes, dtype=tf.int32
        ),
        x,
        seed,
        dtype=tf.int32,
    )
    target = (tf.cast(y, tf.int32) + offset) % num_classes
    return lambda x_adv: -cross_entropy_of(logits_of(classifier, x_adv), target)


def margin(confidence: float = 50.0) -> Objective:
    """Carlini and Wagner's margin, climbed until it reaches `confidence`.

        value = -max(z_y - max_{c != y} z_c + confidence, 0)

    Args:
        confidence: The margin of the wrong class at which the climb ends.

    Reference: Carlini and Wagner, Towards Evaluating the Robustness of
    Neural Networks, 2017; the paper uses a confidence of 50.
    """

    def objective(classifier, x, y, *, seed):
        del x, seed

        def value(x_adv):
            logits = logits_of(classifier, x_adv)
            is_true = tf.one_hot(y, logits.shape[-1], True, False)[:, None]
            true = tf.reduce_sum(tf.where(is_true, logits, 0.0), axis=-1)
            other = tf.reduce_max(
                tf.where(is_true, logits.dtype.min, logits), axis=-1
            )
            return -tf.nn.relu(true - other + confidence)

        return value

    return objective
