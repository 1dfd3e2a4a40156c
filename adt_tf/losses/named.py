"""The losses of the named methods."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import checks, configs, objectives
from adt_tf.checks import arguments
from adt_tf.losses.base import Inputs, Loss, RobustLoss, of_inputs


def cross_entropy(
    classifier: Any,
    x: tf.Tensor,
    x_adv: tf.Tensor,
    y: tf.Tensor,
    *,
    training: bool,
) -> RobustLoss:
    """Cross-entropy of the adversarial images, the mean over samples."""
    del x
    logits = objectives.logits_of(classifier, x_adv, training=training)
    values = objectives.cross_entropy_of(logits, y)
    return RobustLoss(
        tf.reduce_mean(values, axis=1), logits, sample_values=values
    )


@configs.recorded
def smoothed_cross_entropy(label_smoothing: float) -> Loss:
    """Cross-entropy of the adversarial images with smoothed labels.

        loss = - (1 - label_smoothing) log p_y
               - label_smoothing / (classes - 1) * sum_{c != y} log p_c

    The true class keeps 1 - label_smoothing and the others share the rest, as
    in the code of feature scattering, which uses 0.5. (Keras' argument of the
    same name gives a part of the rest to the true class as well.)

    Args:
        label_smoothing: Total share of the wrong classes, in [0, 1).

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    arguments.number_between(0, 1, "[)", label_smoothing=label_smoothing)

    def loss(inputs: Inputs) -> RobustLoss:
        logits = inputs.logits(inputs.x_adv)
        labels = smoothed_labels(inputs.y, logits.shape[-1], label_smoothing)
        values = tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(labels[:, tf.newaxis], tf.shape(logits)),
            logits=logits,
        )
        return RobustLoss(
            tf.reduce_mean(values, axis=1), logits, sample_values=values
        )

    return of_inputs(loss, f"smoothed_cross_entropy({label_smoothing:g})")


@configs.recorded
def trades(beta: float = 6.0) -> Loss:
    """TRADES: cross-entropy of clean images, plus agreement nearby.

        loss = CE(f(x), y) + beta * mean_samples KL(f(x) || f(x_adv))

    The clean and the adversarial images run separately, as in TRADES' code, so
    that in training mode each batch is normalised by its own statistics. The
    gradient flows through both. With beta = 0 it is standard training.

    Args:
        beta: Weight of the agreement; the paper uses 1 and 6.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    arguments.number_at_least(0, beta=beta)

    def loss(inputs: Inputs) -> RobustLoss:
        _, x, x_adv, y, _ = inputs
        clean, logits = map(inputs.logits, (x[:, tf.newaxis], x_adv))
        kl = objectives.kl_divergence_of(clean, logits)
        natural = objectives.cross_entropy_of(clean, y)
        value = natural[:, 0] + beta * tf.reduce_mean(kl, axis=1)
        return RobustLoss(value, logits, clean[:, 0], natural + beta * kl)

    return of_inputs(loss, f"trades(beta={beta:g})")


@configs.recorded
def mart(beta: float = 5.0) -> Loss:
    """MART: boosted cross-entropy, plus agreement weighted by confidence.

        loss = mean_samples [ CE(z_adv, y) - log(1 - max_{c != y} q_c)
                              + beta * KL(p || q) * (1 - p_y) ]

    where p are the probabilities of the clean and q those of the adversarial
    image. The clean and the adversarial images run separately, and the gradient
    flows through both, also through the factor 1 - p_y, as in the authors'
    code. That code adds 1e-4 inside the logarithm; here it is computed from the
    logits, which keeps it finite. With beta = 0 it is the boosted
    cross-entropy alone.

    Args:
        beta: Weight of the agreement; 5 in the paper.

    Reference: Wang et al., Improving Adversarial Robustness Requires
    Revisiting Misclassified Examples, 2020.
    """
    arguments.number_at_least(0, beta=beta)

    def loss(inputs: Inputs) -> RobustLoss:
        _, x, x_adv, y, _ = inputs
        clean, logits = map(inputs.logits, (x[:, tf.newaxis], x_adv))
        is_true = tf.one_hot(
            checks.classes_of(y)[:, tf.newaxis], logits.shape[-1], True, False
        )
        wrong = tf.where(is_true, logits.dtype.min, logits)
        is_rival = tf.one_hot(
            tf.argmax(wrong, axis=-1), logits.shape[-1], True, False
        )
        # log(1 - q_c) = logsumexp_{j != c} z_j - logsumexp_j z_j
        others = tf.where(is_rival, logits.dtype.min, logits)
        unlike = tf.reduce_logsumexp(logits, axis=-1)
        unlike -= tf.reduce_logsumexp(others, axis=-1)
        boosted = objectives.cross_entropy_of(logits, y) + unlike
        true = tf.reduce_sum(
            tf.where(is_true, tf.nn.softmax(clean), 0.0), axis=-1
        )
        kl = objectives.kl_divergence_of(clean, logits)
        values = boosted + beta * kl * (1.0 - true)
        value = tf.reduce_mean(values, axis=1)
        return RobustLoss(value, logits, clean[:, 0], values)

    return of_inputs(loss, f"mart(beta={beta:g})")


@configs.recorded
def alp(weight: float = 0.5) -> Loss:
    """Adversarial logit pairing: similar logits for clean and attacked images.

        loss = (CE(z, y) + mean_samples CE(z_adv, y)) / 2
               + weight * mean_samples mean_c (z_c - z_adv_c)^2

    The cross-entropy of both kinds of images counts half each, and the square
    is averaged over the classes, as in the authors' code, which takes means
    over a minibatch of as many clean as adversarial images. As there, both run
    through the classifier together: in training mode the statistics of batch
    normalisation are those of the mixture. The gradient flows through both.

    Args:
        weight: Weight of the logit pairing; 0 is training on mixed
            minibatches. For the sum over the classes, multiply it by their
            number.

    Reference: Kannan et al., Adversarial Logit Pairing, 2018.
    """
    arguments.number_at_least(0, weight=weight)

    def loss(inputs: Inputs) -> RobustLoss:
        _, x, x_adv, y, _ = inputs
        mixed = inputs.logits(tf.concat([x[:, tf.newaxis], x_adv], axis=1))
        clean, logits = mixed[:, :1], mixed[:, 1:]
        parts = objectives.cross_entropy_of(mixed, y)
        value = (parts[:, 0] + tf.reduce_mean(parts[:, 1:], axis=1)) / 2
        squares = (clean - logits) ** 2
        value += weight * tf.reduce_mean(squares, axis=[1, 2])
        samples = (parts[:, :1] + parts[:, 1:]) / 2
        samples += weight * tf.reduce_mean(squares, axis=2)
        return RobustLoss(value, logits, clean[:, 0], samples)

    return of_inputs(loss, f"alp(weight={weight:g})")


def smoothed_labels(
    y: tf.Tensor, num_classes: int, label_smoothing: float
) -> tf.Tensor:
    """Returns soft labels that give the wrong classes `label_smoothing`."""
    on, off = 1.0 - label_smoothing, label_smoothing / (num_classes - 1)
    if checks.is_soft(y):
        return on * y + off * (1.0 - y)
    return tf.one_hot(y, num_classes, on_value=on, off_value=off)
