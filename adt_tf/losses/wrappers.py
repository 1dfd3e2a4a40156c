"""Wrappers of a loss: smoothed labels, weighted samples."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import checks, configs
from adt_tf.checks import arguments
from adt_tf.losses.base import Inputs, Loss, RobustLoss, get, of_inputs
from adt_tf.losses.named import smoothed_labels


@configs.recorded
def smoothed(loss: Any, label_smoothing: float) -> Loss:
    """Smooths the labels of any loss.

    The true class keeps 1 - label_smoothing and the others share the rest, as
    in `smoothed_cross_entropy`, which is `smoothed(cross_entropy, ...)`. Terms
    without a label, such as a divergence, do not change. The attack uses the
    labels of the data.

    Args:
        loss: Outer loss, as `get` accepts it.
        label_smoothing: Total share of the wrong classes, in [0, 1).
    """
    arguments.number_between(0, 1, "[)", label_smoothing=label_smoothing)
    inner = get(loss)

    def robust(inputs: Inputs) -> RobustLoss:
        classifier, x, x_adv, y, training = inputs
        classes = checks.num_classes(classifier)
        if classes is None:
            outputs = classifier(x[:1], training=False)
            classes = checks.as_logits(outputs, classifier).shape[-1]
        labels = smoothed_labels(y, classes, label_smoothing)
        return inner(classifier, x, x_adv, labels, training=training)

    return of_inputs(robust, f"smoothed({_name(inner)}, {label_smoothing:g})")


@configs.recorded
def weighted(loss: Any, temperature: float = 1.0) -> Loss:
    """Gives samples with a higher loss more weight.

        loss = sum_k a_k l_k,   a = softmax(l / temperature)

    over the `outer_samples` of each image, with no gradient through a: theta
    descends temperature * log mean_k exp(l_k / temperature), which is the
    maximum over all weightings of the weighted mean, minus temperature times
    the divergence of the weights from equal weights. It tends to the mean for a
    high temperature and to the maximum for a low one; for one sample it is the
    loss itself.

    Args:
        loss: Outer loss, as `get` accepts it, with a value for each sample:
            any loss of `adt_tf.losses`, or of Keras.
        temperature: Temperature above 0, in the units of the loss.

    Reference: Robey et al., Adversarial Robustness with Semi-Infinite
    Constrained Learning, 2021 (DALE); Bui et al., A Unified Wasserstein
    Distributional Robustness Framework, 2022 (UDR).
    """
    arguments.number_above(0, temperature=temperature)
    inner = get(loss)

    def robust(inputs: Inputs) -> RobustLoss:
        *images, training = inputs
        outcome = inner(*images, training=training)
        values = getattr(outcome, "sample_values", None)
        if values is None:
            raise arguments.error(
                "be a loss of `adt_tf.losses` with a value for each sample",
                loss=inner,
            )
        shares = tf.stop_gradient(tf.nn.softmax(values / temperature, axis=1))
        value = tf.reduce_sum(shares * values, axis=1)
        return outcome._replace(value=value)

    return of_inputs(robust, f"weighted({_name(inner)}, {temperature:g})")


def _name(loss: Loss) -> str:
    return getattr(loss, "__name__", type(loss).__name__)
