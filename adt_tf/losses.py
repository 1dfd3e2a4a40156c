"""What the classifier's weights descend: outer losses.

A loss is a function (classifier, x, x_adv, y, training) -> RobustLoss, where
x_adv [batch, samples, ...] comes from the attack. A loss with parameters is
the result of a function of them:

    AdversarialTrainer(classifier, attack, losses.cross_entropy)
    AdversarialTrainer(classifier, attack, losses.trades(beta=6.0))

Parts: `cross_entropy`, `smoothed_cross_entropy(label_smoothing)`,
`trades(beta)`, `alp(weight)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import configs, objectives
from adt_tf.checks import arguments


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


Loss = Callable[..., RobustLoss]


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


@configs.recorded
def smoothed_cross_entropy(label_smoothing: float) -> Loss:
    """Cross-entropy of the adversarial images with smoothed labels.

        loss = - (1 - label_smoothing) log p_y
               - label_smoothing / (classes - 1) * sum_{c != y} log p_c

    The true class keeps 1 - label_smoothing and the others share the rest, as
    in the code of feature scattering, which uses 0.5. (Keras' argument of the
    same name gives the true class a part of the rest as well.)

    Args:
        label_smoothing: What the wrong classes share, in [0, 1).

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    arguments.number_between(0, 1, "[)", label_smoothing=label_smoothing)

    def loss(classifier, x, x_adv, y, *, training):
        del x
        logits = objectives.logits_of(classifier, x_adv, training=training)
        num_classes = logits.shape[-1]
        if num_classes < 2:
            raise ValueError(
                "Label smoothing needs a classifier with at least two "
                f"outputs. Received: outputs={num_classes}"
            )
        labels = tf.one_hot(
            y,
            num_classes,
            on_value=1.0 - label_smoothing,
            off_value=label_smoothing / (num_classes - 1),
        )
        value = tf.nn.softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(labels[:, tf.newaxis], tf.shape(logits)),
            logits=logits,
        )
        return RobustLoss(tf.reduce_mean(value, axis=1), logits)

    return _named(loss, f"smoothed_cross_entropy({label_smoothing:g})")


@configs.recorded
def trades(beta: float = 6.0) -> Loss:
    """TRADES: accuracy on clean images, plus agreement with them nearby.

        loss = CE(f(x), y) + beta * mean_samples KL(f(x) || f(x_adv))

    The clean and the adversarial images are run apart, as in TRADES' code, so
    that in training mode each batch is normalised by its own statistics. The
    gradient goes through both. With beta = 0 it is standard training.

    Args:
        beta: Weight of the agreement; the paper uses 1 and 6.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    arguments.number_at_least(0, beta=beta)

    def loss(classifier, x, x_adv, y, *, training):
        clean = objectives.logits_of(
            classifier, x[:, tf.newaxis], training=training
        )
        logits = objectives.logits_of(classifier, x_adv, training=training)
        kl = objectives.kl_divergence_of(clean, logits)
        value = objectives.cross_entropy_of(clean, y)[:, 0]
        value += beta * tf.reduce_mean(kl, axis=1)
        return RobustLoss(value, logits, clean[:, 0])

    return _named(loss, f"trades(beta={beta:g})")


@configs.recorded
def alp(weight: float = 0.5) -> Loss:
    """Adversarial logit pairing: like images, like logits.

        loss = (CE(z, y) + mean_samples CE(z_adv, y)) / 2
               + weight * mean_samples mean_c (z_c - z_adv_c)^2

    The cross-entropy of both kinds of images counts half each and the square
    is averaged over the classes, as in the authors' code, which takes means
    over a minibatch of as many clean as adversarial images. As there, both go
    through the classifier together: in training mode the statistics of batch
    normalisation are those of the mixture. The gradient goes through both.

    Args:
        weight: Of the logit pairing; 0 is training on mixed minibatches. To
            have the sum over the classes, multiply by their number.

    Reference: Kannan et al., Adversarial Logit Pairing, 2018.
    """
    arguments.number_at_least(0, weight=weight)

    def loss(classifier, x, x_adv, y, *, training):
        mixed = tf.concat([x[:, tf.newaxis], x_adv], axis=1)
        mixed = objectives.logits_of(classifier, mixed, training=training)
        clean, logits = mixed[:, :1], mixed[:, 1:]
        parts = objectives.cross_entropy_of(mixed, y)
        value = (parts[:, 0] + tf.reduce_mean(parts[:, 1:], axis=1)) / 2
        value += weight * tf.reduce_mean((clean - logits) ** 2, axis=[1, 2])
        return RobustLoss(value, logits, clean[:, 0])

    return _named(loss, f"alp(weight={weight:g})")


def _named(loss: Loss, name: str) -> Loss:
    # The representation of a function shows its qualified name.
    loss.__name__ = loss.__qualname__ = name
    return loss
