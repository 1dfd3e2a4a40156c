"""Converts labels to the two forms that the core uses, and checks them.

    y = as_labels(labels)       # int32 [batch] or float32 [batch, classes]
    classes_of(y)               # int32 [batch]

Integers, whole floats and columns (batch, 1) become classes [batch]. One-hot
labels and soft labels, such as those of mixup, become probabilities
[batch, classes]. The cross-entropy accepts both forms. Functions that need one
class for each image, such as a margin or an accuracy, use the class with the
largest probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf.checks.failures import labels_message, require

_ADVICE = (
    "Labels must be classes of shape (batch,), as integers or whole floats, "
    "or one-hot or soft labels of shape (batch, classes)"
)
# Soft labels that were mixed in float16 add up to one within this tolerance.
_TOLERANCE = 1e-2


def as_labels(y: Any) -> tf.Tensor:
    """Returns int32 classes [batch] or float32 soft labels [batch, classes].

    Args:
        y: Labels in any form that Keras accepts.

    Example:

    >>> as_labels([[2.0], [0.0]]).numpy()
    array([2, 0], dtype=int32)
    >>> as_labels([[0, 1], [1, 0]]).numpy()
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    y = tf.convert_to_tensor(y)
    is_number = y.dtype.is_integer or y.dtype.is_floating or y.dtype.is_bool
    if not is_number or y.shape.rank not in (1, 2):
        raise ValueError(
            f"{_ADVICE}. Received: shape={tuple(y.shape)}, dtype={y.dtype.name}"
        )
    if y.shape.rank == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape.rank == 1:
        if y.dtype.is_floating:
            y = require(
                tf.reduce_all(tf.round(y) == y),
                f"{_ADVICE}. Received: lowest and highest label",
                tf.reduce_min(y),
                tf.reduce_max(y),
                then=y,
            )
        return tf.cast(y, tf.int32)
    y = tf.cast(y, tf.float32)
    total = tf.reduce_sum(y, axis=-1)
    is_share = tf.reduce_all(tf.abs(total - 1.0) < _TOLERANCE)
    return require(
        is_share & tf.reduce_all(y >= 0.0),
        "Labels must be 0 or more and add up to 1 in each row, if they have "
        "a column for each class. Received: lowest and highest sum",
        tf.reduce_min(total),
        tf.reduce_max(total),
        then=y,
    )


def is_soft(y: tf.Tensor) -> bool:
    """Returns whether labels are soft [batch, classes], not classes [batch]."""
    return tf.as_dtype(y.dtype).is_floating


def classes_of(y: tf.Tensor) -> tf.Tensor:
    """Returns the classes [batch]; for soft labels, the most probable ones."""
    if is_soft(y):
        return tf.argmax(y, axis=-1, output_type=tf.int32)
    return y


def classes_in_array(labels: Any) -> np.ndarray:
    """Converts one-hot labels, soft labels and whole floats to classes [n].

    Labels of another form are returned unchanged.

    Example:

    >>> classes_in_array(np.eye(3)).tolist(), classes_in_array([1.0]).tolist()
    ([0, 1, 2], [1])
    """
    labels = np.asarray(labels)
    is_number = labels.dtype.kind in "buif"
    if is_number and labels.ndim == 2 and labels.shape[1] > 1:
        return as_labels(labels).numpy().argmax(-1)
    is_whole = labels.dtype.kind == "f" and np.all(np.rint(labels) == labels)
    if is_whole or labels.dtype.kind == "b":
        return labels.astype(np.int64)
    return labels


def assert_labels(y: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Returns the labels, or fails in the graph if one is out of range."""
    if is_soft(y):
        if y.shape[-1] not in (None, num_classes):
            raise ValueError(
                f"Labels must have {num_classes} columns, one for each of the "
                f"classifier's outputs. Received: shape={tuple(y.shape)}"
            )
        return y
    low, high = tf.reduce_min(y), tf.reduce_max(y)
    return require(
        (low >= 0) & (high < num_classes),
        labels_message(num_classes) + " lowest and highest label",
        low,
        high,
        then=y,
    )


def check_labels(y: tf.Tensor, num_classes: int | None) -> None:
    """Raises `ValueError` if a label is not a class of the classifier.

    Args:
        y: Classes [batch].
        num_classes: Number of classes. None if it is unknown; then only
            negative labels are refused.
    """
    low, high = int(tf.reduce_min(y)), int(tf.reduce_max(y))
    if low < 0 or (num_classes is not None and high >= num_classes):
        allowed = "0 or more"
        if num_classes is not None:
            allowed = f"in 0..{num_classes - 1}, the classifier's outputs"
        raise ValueError(
            f"Labels must be {allowed}. Received: labels from {low} to {high}"
        )
