"""Losses around any other: smoothed labels, weights of the samples."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import checks, configs
from adt_tf.checks import arguments
from adt_tf.losses.base import Loss, get, named
from adt_tf.losses.named import smoothed_labels


@configs.recorded
def smoothed(loss: Any, label_smoothing: float) -> Loss:
    """Gives any loss smoothed labels.

    The true class keeps 1 - label_smoothing and the others share the rest, as
    in `smoothed_cross_entropy`, which is `smoothed(cross_entropy, ...)`. Terms
    without a label, such as a divergence, stay as they are. The attack climbs
    with the labels of the data.

    Args:
        loss: An outer loss, as `get` takes it.
        label_smoothing: What the wrong classes share, in [0, 1).
    """
    arguments.number_between(0, 1, "[)", label_smoothing=label_smoothing)
    inner = get(loss)

    def robust(classifier, x, x_adv, y, *, training):
        classes = checks.num_classes(classifier)
        if classes is None:
            outputs = classifier(x[:1], training=False)
            classes = checks.as_logits(outputs, classifier).shape[-1]
        labels = smoothed_labels(y, classes, label_smoothing)
        return inner(classifier, x, x_adv, labels, training=training)

    return named(robust, f"smoothed({_name(inner)}, {label_smoothing:g})")


@configs.recorded
def weighted(loss: Any, temperature: float = 1.0) -> Loss:
    """Gives the worse of an image's samples more weight in a loss.

        loss = sum_k a_k l_k,   a = softmax(l / temperature)

    over the `outer_samples` of each image, with no gradient through a: theta
    descends temperature * log mean_k exp(l_k / temperature), which is the
    worst mean over all weightings of the samples, less temperature times
    their divergence from equal ones. As the temperature grows it becomes the
    mean, towards 0 the maximum; of one sample it is the loss itself.

    Args:
        loss: An outer loss, as `get` takes it, with a value for each sample:
            every one of this module, or one of Keras.
        temperature: Above 0, in the units of the loss.

    Reference: Robey et al., Adversarial Robustness with Semi-Infinite
    Constrained Learning, 2021 (DALE); Bui et al., A Unified Wasserstein
    Distributional Robustness Framework, 2022 (UDR).
    """
    arguments.number_above(0, temperature=temperature)
    inner = get(loss)

    def robust(classifier, x, x_adv, y, *, training):
        outcome = inner(classifier, x, x_adv, y, training=training)
        values = getattr(outcome, "sample_values", None)
        if values is None:
            raise arguments.error(
                "be a loss of `adt_tf.losses` with a value for each sample",
                loss=inner,
            )
        shares = tf.stop_gradient(tf.nn.softmax(values / temperature, axis=1))
        value = tf.reduce_sum(shares * values, axis=1)
        return outcome._replace(value=value)

    return named(robust, f"weighted({_name(inner)}, {temperature:g})")


def _name(loss: Loss) -> str:
    return getattr(loss, "__name__", type(loss).__name__)
