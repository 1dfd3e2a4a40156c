"""What the classifier's weights descend: outer losses.

A loss is a function (classifier, x, x_adv, y, training) -> RobustLoss, where
x_adv [batch, samples, ...] comes from the attack. A loss with parameters is
the result of a function of them:

    AdversarialTrainer(classifier, attack, losses.cross_entropy)
    AdversarialTrainer(classifier, attack, losses.trades(beta=6.0))

Parts: `cross_entropy`, `smoothed_cross_entropy(label_smoothing)`,
`trades(beta)`, `alp(weight)`. `get` makes such a loss of one of Keras.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from adt_tf import checks, configs, objectives
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


def get(loss: Any) -> Loss:
    """Returns an outer loss as is, or makes one of a loss of Keras.

    Args:
        loss: A function (classifier, x, x_adv, y, training) that returns a
            `RobustLoss` or a tensor of values, [batch] or a scalar; or a loss
            of Keras that takes logits, or a function (y_true, y_pred).
    """
    if isinstance(loss, keras.losses.Loss):
        return of_keras(loss)
    if not callable(loss):
        raise arguments.error(
            "be a loss of `adt_tf.losses`, or one of Keras such as "
            "`keras.losses.CategoricalCrossentropy(from_logits=True)`",
            loss=loss,
        )
    parameters = inspect.signature(loss).parameters.values()
    needed = [p for p in parameters if p.default is p.empty]
    if len(needed) == 2 and all(
        p.kind is p.POSITIONAL_OR_KEYWORD for p in needed
    ):
        return of_keras(loss)
    return loss


@configs.recorded
def of_keras(loss: Any) -> Loss:
    """Makes an outer loss of a loss of Keras, on the adversarial images.

    Labels have the form that they have in the data, as in Keras, except that
    losses on one-hot labels get them also where the data hold classes. A
    binary loss gets the one logit z of [0, z].

    Args:
        loss: A `keras.losses.Loss`, or a function (y_true, y_pred) that
            returns values [n].
    """
    settings = getattr(loss, "get_config", dict)()
    if settings.get("from_logits") is False:
        raise ValueError(
            "A loss must take logits, as the classifier returns them. "
            f"Received: {type(loss).__name__}(from_logits=False); pass "
            "from_logits=True."
        )
    values_of = loss.call if isinstance(loss, keras.losses.Loss) else loss

    def robust(classifier, x, x_adv, y, *, training):
        del x
        logits = objectives.logits_of(classifier, x_adv, training=training)
        rows = tf.reshape(logits, [-1, logits.shape[-1]])
        labels = tf.repeat(y, tf.shape(logits)[1], axis=0)
        if isinstance(loss, _BINARY) and logits.shape[-1] == 2:
            labels = checks.classes_of(labels)[:, tf.newaxis]
            rows = rows[:, 1:] - rows[:, :1]
        elif isinstance(loss, _ONE_HOT) and not checks.is_soft(labels):
            labels = tf.one_hot(labels, logits.shape[-1])
        elif isinstance(loss, _CLASSES) and checks.is_soft(labels):
            raise ValueError(
                f"{type(loss).__name__} takes classes, but the labels have a "
                "column for each class: use "
                "`keras.losses.CategoricalCrossentropy(from_logits=True)`."
            )
        values = tf.convert_to_tensor(values_of(labels, rows))
        if values.shape.rank == 1:
            values = tf.reshape(values, tf.shape(logits)[:2])
            values = tf.reduce_mean(values, axis=1)
        return RobustLoss(_per_example(values, x_adv), logits)

    name = getattr(loss, "name", None) or getattr(loss, "__name__", "loss")
    return _named(robust, name)


_BINARY = (
    keras.losses.BinaryCrossentropy,
    keras.losses.BinaryFocalCrossentropy,
)
_ONE_HOT = (
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)
_CLASSES = keras.losses.SparseCategoricalCrossentropy


def as_robust_loss(
    outcome: Any, classifier: Any, x_adv: tf.Tensor
) -> RobustLoss:
    """Returns what a loss gave, with logits where it gave values alone.

    Args:
        outcome: A `RobustLoss`; or values [batch], [batch, samples], or one.
        classifier: Runs on the images once more where there are no logits.
        x_adv: Images [batch, samples, ...].
    """
    if isinstance(outcome, RobustLoss):
        return outcome
    values = tf.convert_to_tensor(outcome)
    if values.shape.rank == 2:
        values = tf.reduce_mean(values, axis=1)
    values = _per_example(values, x_adv)
    return RobustLoss(values, objectives.logits_of(classifier, x_adv))


def _per_example(values: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
    """Returns values [batch]; one value is that of every example."""
    size = x_adv.shape[0]
    if values.shape.rank == 0:
        return tf.fill(tf.shape(x_adv)[:1], values)
    if values.shape.rank != 1 or not values.shape.is_compatible_with([size]):
        raise ValueError(
            "A loss must return one value for each example, shape (batch,), or "
            f"one in all. Received: shape={tuple(values.shape)} for {size} "
            "examples"
        )
    return values


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
        on, off = 1.0 - label_smoothing, label_smoothing / (num_classes - 1)
        if checks.is_soft(y):
            labels = on * y + off * (1.0 - y)
        else:
            labels = tf.one_hot(y, num_classes, on_value=on, off_value=off)
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
