"""What AutoAttack's ascents climb: functions of logits [batch, classes].

    dlr_of(logits, y)                         # untargeted
    targeted_dlr_of(logits, y, target)

The difference of logits ratio does not change when logits are scaled or
shifted, so a classifier cannot hide behind large ones.

Reference: Croce and Hein, Reliable Evaluation of Adversarial Robustness with an
Ensemble of Diverse Parameter-free Attacks, 2020.
"""

from __future__ import annotations

import tensorflow as tf

from adt_tf import objectives


def cross_entropy_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Cross-entropy [batch] of logits [batch, classes] and labels [batch]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


def dlr_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The difference of logits ratio, above 0 where the prediction is wrong.

        -(z_y - max_{c != y} z_c) / (z_(1) - z_(3)),   z_(1) >= z_(2) >= ...

    Two classes have no third logit: there it is the plain margin, the
    numerator.

    Args:
        logits: z [batch, classes].
        y: Labels [batch].

    Example:

    >>> dlr_of(tf.constant([[2.0, 1.0, -2.0]]), tf.constant([0])).numpy()
    array([-0.25], dtype=float32)
    """
    margin = objectives.margin_of(logits[:, tf.newaxis], y)[:, 0]
    if logits.shape[-1] < 3:
        return margin
    top = tf.math.top_k(logits, 3).values
    return _ratio(margin, top[:, 0] - top[:, 2])


def targeted_dlr_of(
    logits: tf.Tensor, y: tf.Tensor, target: tf.Tensor
) -> tf.Tensor:
    """The ratio towards one class, above 0 where it has passed the true one.

        -(z_y - z_target) / (z_(1) - (z_(3) + z_(4)) / 2)

    With two or three classes there is no fourth logit: there it is the plain
    margin, the numerator.

    Args:
        logits: z [batch, classes].
        y: Labels [batch].
        target: Classes to move to [batch].

    Example:

    >>> logits = tf.constant([[2.0, 1.0, 0.0, -4.0]])
    >>> targeted_dlr_of(logits, tf.constant([0]), tf.constant([2])).numpy()
    array([-0.5], dtype=float32)
    """
    margin = _logit_of(logits, target) - _logit_of(logits, y)
    if logits.shape[-1] < 4:
        return margin
    top = tf.math.top_k(logits, 4).values
    return _ratio(margin, top[:, 0] - (top[:, 2] + top[:, 3]) / 2)


def _logit_of(logits: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Picks one logit [batch] for each example."""
    chosen = tf.one_hot(index, logits.shape[-1], True, False)
    return tf.reduce_sum(tf.where(chosen, logits, 0.0), axis=-1)


def _ratio(margin: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    # Logits that are all equal would give 0 / 0.
    return margin / tf.maximum(scale, 1e-12)
