"""The accuracy of logits, for labels in any form.

    trainer.compile("sgd", metrics="accuracy")

Keras selects one of its accuracies by the shapes of the first batch, and the
one for a single logit compares it with 0.5, as if it were a probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks


@keras.saving.register_keras_serializable("adt_tf")
class Accuracy(keras.metrics.MeanMetricWrapper):
    """The share of images whose largest logit belongs to their class.

    Args:
        name: Name in logs.
        dtype: See `keras.metrics.Metric`.
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(_is_correct, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}


def _is_correct(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    logits = checks.as_logits(logits)
    predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(predicted == checks.classes_of(y), tf.float32)


def as_metrics(metrics: Any) -> list[Any]:
    """Returns the metrics of one output as a list, with our `Accuracy`.

    Args:
        metrics: A metric, several metrics, or a dictionary from the name of
            the only output to them.

    Example:

    >>> [metric.name for metric in as_metrics("accuracy")]
    ['accuracy']
    """
    if isinstance(metrics, Mapping):
        if len(metrics) != 1:
            raise ValueError(
                "Argument `metrics`, if it is a dictionary, must have one key: "
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
