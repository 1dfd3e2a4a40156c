"""The exponential moving average of a classifier's weights.

average = WeightAverage(0.999)
AdversarialTrainer(classifier, attack, loss, average=average)
trainer.fit(..., callbacks=[callbacks.AveragedWeights(), ...])
average.swap()        # the classifier has the average, until the next swap
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.configs import Configured


class WeightAverage(Configured):
    """Averages all weights of a classifier over the steps of its training.

        a <- m a + (1 - m) w,   m = min(momentum, (1 + t) / (10 + t))

    after step t = 0, 1, ..., from a = w at the start. The momentum grows to
    its value, so that the average does not remember the first weights for
    long. The statistics of batch normalisation are averaged as well: they
    belong to the averaged weights as little as the last ones do, and change
    slowly. What is no floating-point number, as the state of dropout, is not.

    Args:
        momentum: Weight of the average before a step, such as 0.999; 0 gives
            the last weights.

    Reference: Izmailov et al., Averaging Weights Leads to Wider Optima and
    Better Generalization, 2018.
    """

    def __init__(self, momentum: float = 0.999):
        self.momentum = arguments.number_between(0, 1, "[)", momentum=momentum)
        self.variables: list[tf.Variable] = []
        self._classifier: keras.Model | None = None
        self._weights: list[Any] = []

    def build(self, classifier: keras.Model) -> None:
        """Starts the average from the weights of a classifier, once.

        Args:
            classifier: Model that has its weights.
        """
        if self._classifier is classifier:
            return
        if self._classifier is not None:
            raise ValueError(
                "An average belongs to one classifier, and this one has one: "
                "give each trainer a `WeightAverage(...)` of its own."
            )
        self._classifier = classifier
        with tf.init_scope():
            self._weights = [
                weight
                for weight in classifier.variables
                if tf.as_dtype(weight.dtype).is_floating
            ]
            self.variables = [
                tf.Variable(
                    weight.numpy(),
                    trainable=False,
                    aggregation=tf.VariableAggregation.MEAN,
                )
                for weight in self._weights
            ]

    def update(self, step: tf.Tensor) -> None:
        """Takes the weights in.

        Args:
            step: Number of the steps before the one that has just been taken.
        """
        step = tf.cast(step, tf.float32)
        momentum = tf.minimum(self.momentum, (1.0 + step) / (10.0 + step))
        for average, weight in zip(self.variables, self._weights, strict=True):
            m = tf.cast(momentum, average.dtype)
            weight = tf.convert_to_tensor(weight)
            average.assign(m * average + (1 - m) * weight)

    def swap(self) -> None:
        """Exchanges the classifier's weights with their average."""
        for average, weight in zip(self.variables, self._weights, strict=True):
            last = weight.numpy()
            weight.assign(average.numpy())
            average.assign(last)
