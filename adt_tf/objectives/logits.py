"""Functions of logits, from which losses and objectives are built.

    cross_entropy_of(logits, y)
    margin_of(logits, y)
    dlr_of(logits, y)                         # scale-free
    targeted_dlr_of(logits, y, target)

Logits are [batch, classes], or [batch, k, classes] for k samples of each
image; labels are classes [batch] or soft labels [batch, classes] in both cases.
The cross-entropy uses the whole soft label, the other functions its most
probable class.
"""

from __future__ import annotations

import tensorflow as tf

from adt_tf import checks


def cross_entropy_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the cross-entropy of each image.

    Args:
        logits: Logits [batch, classes] or [batch, k, classes].
        y: Classes [batch], or soft labels [batch, classes].
    """
    y = tf.convert_to_tensor(y)
    if checks.is_soft(y):
        y = checks.assert_labels(y, logits.shape[-1])
        ones = [1] * (len(logits.shape) - 2)
        wide = tf.reshape(y, [-1, *ones, logits.shape[-1]])
        return tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(wide, tf.shape(logits)), logits=logits
        )
    labels = tf.broadcast_to(_wide(y, logits), tf.shape(logits)[:-1])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits
    )


def margin_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns max_{c != y} z_c - z_y, positive if the prediction is wrong.

    Args:
        logits: Logits z [batch, classes] or [batch, k, classes].
        y: Labels [batch].
    """
    is_true = tf.one_hot(_wide(y, logits), logits.shape[-1], True, False)
    true = tf.reduce_sum(tf.where(is_true, logits, 0.0), axis=-1)
    other = tf.where(is_true, logits.dtype.min, logits)
    return tf.reduce_max(other, axis=-1) - true


def kl_divergence_of(clean_logits: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns KL(clean || adversarial); all axes but the last broadcast.

        sum_c p_c (log p_c - log q_c),   p of `clean_logits`, q of `logits`

    The logarithms of softmax stay finite if a probability underflows to 0.
    """
    log_p = tf.nn.log_softmax(clean_logits)
    log_q = tf.nn.log_softmax(logits)
    return tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1)


def dlr_of(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the difference of logits ratio, positive if wrong.

        -(z_y - max_{c != y} z_c) / (z_(1) - z_(3)),   z_(1) >= z_(2) >= ...

    It does not change when logits are scaled or shifted, so large logits do not
    mask it. Two classes have no third logit: for them it is the plain margin,
    the numerator.

    Args:
        logits: Logits z [batch, classes] or [batch, k, classes].
        y: Labels [batch].

    Reference: Croce and Hein, Reliable Evaluation of Adversarial Robustness
    with an Ensemble of Diverse Parameter-free Attacks, 2020.

    Example:

    >>> dlr_of(tf.constant([[2.0, 1.0, -2.0]]), tf.constant([0])).numpy()
    array([-0.25], dtype=float32)
    """
    margin = margin_of(logits, y)
    if logits.shape[-1] < 3:
        return margin
    top = tf.math.top_k(logits, 3).values
    return _ratio(margin, top[..., 0] - top[..., 2])


def targeted_dlr_of(
    logits: tf.Tensor, y: tf.Tensor, target: tf.Tensor
) -> tf.Tensor:
    """Returns the ratio towards one class, positive if it beats the true one.

        -(z_y - z_target) / (z_(1) - (z_(3) + z_(4)) / 2)

    Two or three classes have no fourth logit: for them it is the plain margin,
    the numerator.

    Args:
        logits: Logits z [batch, classes] or [batch, k, classes].
        y: Labels [batch].
        target: Target classes [batch].

    Reference: See `dlr_of`.

    Example:

    >>> logits = tf.constant([[2.0, 1.0, 0.0, -4.0]])
    >>> targeted_dlr_of(logits, tf.constant([0]), tf.constant([2])).numpy()
    array([-0.5], dtype=float32)
    """
    margin = _logit_of(logits, target) - _logit_of(logits, y)
    if logits.shape[-1] < 4:
        return margin
    top = tf.math.top_k(logits, 4).values
    return _ratio(margin, top[..., 0] - (top[..., 2] + top[..., 3]) / 2)


def _wide(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Reshapes classes [batch] to broadcast over the samples of an image."""
    y = checks.classes_of(tf.convert_to_tensor(y))
    return tf.reshape(y, [-1] + [1] * (len(logits.shape) - 2))


def _logit_of(logits: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Returns one logit for each image."""
    index = _wide(index, logits)
    is_picked = tf.one_hot(index, logits.shape[-1], True, False)
    return tf.reduce_sum(tf.where(is_picked, logits, 0.0), axis=-1)


def _ratio(margin: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    # Equal logits would give 0 / 0.
    return margin / tf.maximum(scale, 1e-12)
