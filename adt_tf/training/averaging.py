"""The exponential moving average of a classifier's weights.

average = WeightAverage(0.999)
AdversarialTrainer(classifier, attack, loss, average=average)
trainer.fit(..., callbacks=[callbacks.AveragedWeights(), ...])
average.swap()        # the classifier has the average until the next swap
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
    its final value, so that the average soon forgets the first weights. The
    statistics of batch normalisation are averaged as well: they change slowly,
    and neither the last nor the averaged ones are exact for the averaged
    weights. Variables that are not floating-point, such as the state of
    dropout, are not averaged.

    Args:
        momentum: Weight of the old average in a step, such as 0.999; 0 gives
            the last weights.

    Reference: Izmailov et al., Averaging Weights Leads to Wider Optima and
    Better Generalization, 2018.
    """

    def __init__(self, momentum: float = 0.999) -> None:
        self.momentum = arguments.number_between(0, 1, "[)", momentum=momentum)
        self.variables: list[tf.Variable] = []
        self._classifier: keras.Model | None = None
        self._weights: list[Any] = []

    def build(self, classifier: keras.Model) -> None:
        """Starts the average from the weights of a classifier, once.

        Args:
            classifier: A built model.
        """
        if self._classifier is classifier:
            return
        if self._classifier is not None:
            raise ValueError(
                "This `WeightAverage` already averages another classifier: "
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
        """Adds the classifier's weights to the average.

        Args:
            step: Number of steps before the last one.
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
