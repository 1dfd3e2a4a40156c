"""Checks of a classifier and of the batches it is given.

Each raises with what was passed, what is expected and what to do. The ones on
tensors run inside the compiled step, on every batch.
"""

from __future__ import annotations

import hashlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# float32 resolves 6e-8 next to 1; a few roundings of x + delta stay below.
TOLERANCE = 1e-6

SOFTMAX_MESSAGE = (
    "The classifier must return logits, but its outputs look like softmax "
    "probabilities (each row is non-negative and sums to one). Attacks on "
    "probabilities are too weak and flatter the model: remove the softmax, "
    "for instance `Dense(num_classes)` without an activation."
)

NOT_FINITE = "The loss or a gradient is not finite."
IMAGE_NOT_FINITE = "An adversarial image is not finite."
ESCAPED = "An attack left its threat model"


def check_classifier(classifier: Any) -> None:
    """Raises `ValueError` where a Keras model plainly ends in softmax."""
    layers = getattr(classifier, "layers", None)
    if not layers:
        return
    last = layers[-1]
    activation = getattr(last, "activation", None)
    if isinstance(last, keras.layers.Softmax) or (
        activation is keras.activations.softmax
    ):
        raise ValueError(SOFTMAX_MESSAGE + f" Its last layer: {last.name!r}.")


def looks_like_softmax(logits: tf.Tensor) -> tf.Tensor:
    """True where every row [..., classes] could be a softmax's output."""
    total = tf.reduce_sum(logits, axis=-1)
    return tf.reduce_all(tf.abs(total - 1.0) < 1e-3) & (
        tf.reduce_min(logits) >= 0.0
    )


def digest(*arrays: np.ndarray) -> str:
    """A hash of the shapes, the types and the values of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        total.update(repr((array.shape, str(array.dtype))).encode())
        total.update(array.tobytes())
    return total.hexdigest()


def as_batch(x: Any, y: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns float32 images and int32 labels [batch], or raises.

    Labels of shape (batch, 1), as Keras' own data sets have them, are taken.
    """
    x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
    if not x.dtype.is_floating:
        raise ValueError(
            "Images must be floats in [0, 1]. Received: images of "
            f"dtype={x.dtype.name}; divide them by 255 first."
        )
    if len(x.shape) != 4:
        raise ValueError(
            "Images must have shape (batch, height, width, channels). "
            f"Received: shape={tuple(x.shape)}; is the data set batched "
            "(`dataset.batch(64)`), and has it a channel axis?"
        )
    if len(y.shape) == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if len(y.shape) != 1 or not y.dtype.is_integer:
        raise ValueError(
            "Labels must be integers of shape (batch,). Received: "
            f"shape={tuple(y.shape)}, dtype={y.dtype.name}; for one-hot "
            "labels pass `labels.argmax(-1)`."
        )
    if not x.shape[:1].is_compatible_with(y.shape):
        raise ValueError(
            "There must be one label for each image. Received: "
            f"{x.shape[0]} images and {y.shape[0]} labels"
        )
    return tf.cast(x, tf.float32), tf.cast(y, tf.int32)


def check_images(x: tf.Tensor, bounds: tuple[float, float]) -> tf.Tensor:
    """Returns the images, clipped by rounding at most, or raises."""
    low, high = float(tf.reduce_min(x)), float(tf.reduce_max(x))
    # Comparisons with NaN are false.
    if not (low >= bounds[0] - TOLERANCE and high <= bounds[1] + TOLERANCE):
        raise ValueError(
            f"Images must be finite and lie in {list(bounds)}. Received: "
            f"values from {low:g} to {high:g}; uint8 images: divide by 255."
        )
    return tf.clip_by_value(x, *bounds)


def check_labels(y: tf.Tensor, classifier: Any) -> None:
    """Raises `ValueError` where a label is no class of the classifier.

    How many classes there are is known of a Keras model with a known output
    shape; of another only labels below 0 are refused here.
    """
    shape = getattr(classifier, "output_shape", None) or (None,)
    classes = shape[-1] if isinstance(shape[-1], int) else None
    low, high = int(tf.reduce_min(y)), int(tf.reduce_max(y))
    if low < 0 or (classes is not None and high >= classes):
        allowed = "0 or more"
        if classes is not None:
            allowed = f"in 0..{classes - 1}, the classifier's outputs"
        raise ValueError(
            f"Labels must be {allowed}. Received: labels from {low} to {high}"
        )


def assert_images(x: tf.Tensor, bounds: tuple[float, float]) -> tf.Tensor:
    """Returns the images, clipped by rounding at most, or fails in the graph.

    Values beyond the bounds by more than a rounding error, and NaN, stop.
    """
    low, high = tf.reduce_min(x), tf.reduce_max(x)
    # Comparisons with NaN are false, so NaN fails here too.
    inside = (low >= bounds[0] - TOLERANCE) & (high <= bounds[1] + TOLERANCE)
    check = tf.debugging.Assert(
        inside & tf.reduce_all(tf.math.is_finite(x)),
        [
            f"Images must be finite and lie in {list(bounds)}. Scale them "
            "first (uint8 images: divide by 255). Received a batch with "
            "minimum and maximum",
            low,
            high,
        ],
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.clip_by_value(x, *bounds)


def assert_labels(y: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Returns the labels, or fails in the graph where one is out of range."""
    low, high = tf.reduce_min(y), tf.reduce_max(y)
    check = tf.debugging.Assert(
        (low >= 0) & (high < num_classes),
        [
            f"Labels must lie in 0..{num_classes - 1}, since the classifier "
            f"has {num_classes} outputs. Received a batch with minimum and "
            "maximum",
            low,
            high,
        ],
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(y)


def assert_logits(logits: tf.Tensor) -> tf.Tensor:
    """Returns the logits, or fails in the graph where they are softmax's."""
    check = tf.debugging.Assert(~looks_like_softmax(logits), [SOFTMAX_MESSAGE])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(logits)


def assert_finite(values: list[Any], *, then: list[Any]) -> list[Any]:
    """Returns `then`, or fails in the graph where a value is not finite.

    Args:
        values: The loss, then gradients; None where no path leads to a weight.
        then: Tensors, or None, that must not be used before.
    """
    finite = [
        tf.reduce_all(tf.math.is_finite(value))
        for value in values
        if value is not None
    ]
    check = tf.debugging.Assert(
        tf.reduce_all(tf.stack(finite)), [NOT_FINITE, "The loss:", values[0]]
    )
    with tf.control_dependencies([check] if check is not None else []):
        return [t if t is None else tf.identity(t) for t in then]
