"""What an attack climbs: per-example values of adversarial images.

An objective is a function (classifier, x, y, seed) -> value, where
value(x_adv [batch, k, ...]) -> [batch, k]. What does not depend on x_adv (a
target, the clean logits) is worked out once, before the loop.

    value = cross_entropy(classifier, x, y, seed=seed)
    value(x_adv)

Parts: `cross_entropy`, `targeted_cross_entropy`, `margin(confidence)`,
`kl_from_clean`, `transport_distance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import seeds, transport

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


def kl_divergence_of(clean_logits: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """KL(clean || adversarial) over the last axis; the other axes broadcast.

        sum_c p_c (log p_c - log q_c),   p of `clean_logits`, q of `logits`

    Logarithms of softmax stay finite where a probability underflows to 0.
    """
    log_p = tf.nn.log_softmax(clean_logits)
    log_q = tf.nn.log_softmax(logits)
    return tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1)


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

    objective.__name__ = f"margin({confidence:g})"
    return objective


def kl_from_clean(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """How far the predicted distribution is from that of the clean image.

        value = sum_c p_c(x) (log p_c(x) - log p_c(x_adv))

    The direction is that of TRADES' code: the clean prediction is the target.
    The value is least, with a gradient of zero, at x_adv = x: climb it from a
    random start or with a distribution that has some width.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis]))
    return lambda x_adv: kl_divergence_of(clean, logits_of(classifier, x_adv))


def transport_distance(
    classifier: Any,
    x: tf.Tensor,
    y: tf.Tensor,
    *,
    seed: tf.Tensor,
    regularization: float = 0.01,
    num_iterations: int = 50,
) -> Value:
    """The optimal-transport distance of the batch's logits from the clean ones.

        value_i = sum_j P_ij (1 - cos(z(x_adv_i), z(x_j)))

    with the plan P of `adt_tf.transport`, one for each of the k samples. The
    values of a batch add up to its distance, so each is of the order of
    1 / batch.

    This is the one objective that couples the examples of a batch: an image
    may move towards the logits of any other, so the result for one depends on
    which others it is attacked with. The features are the logits, as in the
    authors' code (the paper says feature space). Start at random, as they do:
    at x_adv = x an image's distance from itself has no gradient.

    Args:
        classifier: From images to logits.
        x: Clean images [batch, ...].
        y: Not used: the objective needs no labels.
        seed: Not used.
        regularization: Weight of the plan's entropy.
        num_iterations: Sinkhorn's iterations.

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis])[:, 0])

    def value(x_adv):
        logits = tf.transpose(logits_of(classifier, x_adv), [1, 0, 2])
        cost = transport.cosine_cost(logits, clean)
        plan = transport.sinkhorn_plan(
            cost, regularization=regularization, num_iterations=num_iterations
        )
        return tf.transpose(tf.reduce_sum(plan * cost, axis=-1))

    return value
