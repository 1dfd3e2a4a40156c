"""The accuracy of logits, whatever form the labels have.

    trainer.compile("sgd", metrics="accuracy")

Keras chooses among its accuracies by the shapes of the first batch, and one of
a single logit compares it with 0.5, as if it were a probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks


@keras.saving.register_keras_serializable("adt_tf")
class Accuracy(keras.metrics.MeanMetricWrapper):
    """The share of images whose largest logit is that of their class.

    Args:
        name: What logs call it.
        dtype: As in other metrics of Keras.
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None):
        super().__init__(_is_correct, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}


def _is_correct(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    logits = checks.as_logits(logits)
    predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(predicted == checks.classes_of(y), tf.float32)


def as_metrics(metrics: Any) -> list[Any]:
    """Returns the metrics of one output as a list, accuracy being ours.

    Args:
        metrics: A metric, several, or a dictionary from the name of the one
            output to them.

    Example:

    >>> [metric.name for metric in as_metrics("accuracy")]
    ['accuracy']
    """
    if isinstance(metrics, Mapping):
        if len(metrics) != 1:
            raise ValueError(
                "Argument `metrics` must have one key, if it is a dictionary: "
                f"the output of logits. Received: {list(metrics)}"
            )
        (metrics,) = metrics.values()
    if not isinstance(metrics, list | tuple):
        metrics = [] if metrics is None else [metrics]
    named = ("accuracy", "acc")
    return [
        Accuracy(metric)
        if isinstance(metric, str) and metric in named
        else metric
        for metric in metrics
    ]
