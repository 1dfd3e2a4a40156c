"""Converts batches of images and labels to one form, and checks them.

    x, y = as_batch(images, labels)     # float32 [batch, h, w, channels]
    x = assert_images(x, (0.0, 1.0))

Functions named `assert_...` run inside the compiled step, on every batch.
"""

from __future__ import annotations

import hashlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf.checks.failures import NOT_FINITE, require
from adt_tf.checks.labels import as_labels

# The spacing of float32 near 1 is 6e-8; the rounding errors of x + delta add up
# to less than this.
TOLERANCE = 1e-6

Bounds = tuple[float, float]

_UNIT, _BYTES = (0.0, 1.0), (0.0, 255.0)
# Field names that TensorFlow Datasets and Hugging Face use.
_IMAGES = ("image", "images", "img", "pixel_values")
_LABELS = ("label", "labels")
_WEIGHTS = "sample_weight"


def digest(*arrays: Any) -> str:
    """Returns a hash of the shapes, types and values of arrays.

    Args:
        *arrays: Arrays. The first may be `adt_tf.data.DiskImages`, which have
            the same hash as the array of their images.
    """
    first, *others = arrays
    if hasattr(first, "pixel_hash"):
        total = first.pixel_hash.copy()
    else:
        total, others = hashlib.sha256(), list(arrays)
    for array in others:
        array = np.ascontiguousarray(array)
        total.update(repr((array.shape, str(array.dtype))).encode())
        total.update(array.tobytes())
    return total.hexdigest()


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """Returns the images, labels and weights of an element of a data set.

    Args:
        data: A tuple (images, labels) or (images, labels, weights), or a
            dictionary as in TensorFlow Datasets and Hugging Face, which may
            have a field "sample_weight".

    Example:

    >>> unpack({"image": "x", "label": "y", "id": "7"})
    ('x', 'y', None)
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
    if isinstance(x, dict):
        fields = x
        twice = [name for name in _LABELS if name in fields and y is not None]
        twice += [_WEIGHTS] * (_WEIGHTS in fields and weights is not None)
        if twice:
            raise ValueError(
                "Labels and weights must be either fields of the dictionary "
                "of images or separate values, not both. Received: fields "
                f"{sorted(fields)} and separate values for {twice}."
            )
        x = images_of(fields)
        y = _field(fields, _LABELS) if y is None else y
        weights = fields.get(_WEIGHTS, weights)
    if y is None:
        raise ValueError(
            "Adversarial training needs labels: pass a data set of "
            "(image, label), or `fit(images, labels)`."
        )
    return x, y, weights


def images_of(x: Any) -> Any:
    """Returns the images of a dictionary of fields; other images unchanged."""
    return _field(x, _IMAGES) if isinstance(x, dict) else x


def assert_weights(weights: tf.Tensor) -> tf.Tensor:
    """Returns weights of examples, or fails if one is negative or not finite.

    Args:
        weights: Weights [batch] or [batch, 1].
    """
    weights = tf.reshape(weights, [-1])
    valid = tf.math.is_finite(tf.cast(weights, tf.float32)) & (weights >= 0)
    return require(
        tf.reduce_all(valid),
        "Weights of examples and classes must be finite and 0 or more. "
        "Received: lowest and highest weight",
        tf.reduce_min(weights),
        tf.reduce_max(weights),
        then=weights,
    )


def _field(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    matching_names = [name for name in names if name in fields]
    if len(matching_names) != 1:
        raise ValueError(
            f"A data set of dictionaries must have one field out of {names}. "
            f"Received: fields {sorted(fields)}; choose them with "
            "`dataset.map(lambda row: (row['image'], row['label']))`."
        )
    return fields[matching_names[0]]


def as_batch(
    x: Any, y: Any, bounds: Bounds = _UNIT
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns float32 images, and labels in the form of `as_labels`.

    Args:
        x: Images, floats or uint8.
        y: Labels in any form that Keras accepts.
        bounds: Smallest and largest pixel value.
    """
    x, y = as_images(x, bounds), as_labels(y)
    if not x.shape[:1].is_compatible_with(y.shape[:1]):
        raise ValueError(
            "There must be one label for each image. Received: "
            f"{x.shape[0]} images and {y.shape[0]} labels"
        )
    return x, y


def as_images(x: Any, bounds: Bounds = _UNIT) -> tf.Tensor:
    """Returns float32 images; uint8 images are scaled to the bounds.

    Example:

    >>> float(as_images(np.full([1, 2, 2, 1], 255, np.uint8))[0, 0, 0, 0])
    1.0
    """
    x, (low, high) = tf.convert_to_tensor(x), map(float, bounds)
    bounds = (low, high)
    if x.shape.rank != 4:
        raise ValueError(
            "Images must have shape (batch, height, width, channels). "
            f"Received: shape={tuple(x.shape)}; batch the data set with "
            "`dataset.batch(64)`, and add a channel axis if there is none."
        )
    _, rows, columns, channels = x.shape
    if rows in (1, 3) and columns == channels and (channels or 0) > 4:
        raise ValueError(
            "Images must have shape (batch, height, width, channels), with "
            f"the channels last. Received: shape={tuple(x.shape)}; transpose "
            "them by (0, 2, 3, 1)."
        )
    if x.dtype == tf.uint8 and bounds in (_UNIT, _BYTES):
        # It multiplies by 1/255, so that the bits are the same in eager mode,
        # in a graph and under XLA.
        return tf.image.convert_image_dtype(x, tf.float32) * bounds[1]
    if not x.dtype.is_floating:
        raise ValueError(
            f"Images must be floats in {list(bounds)}; uint8 is accepted only "
            f"for [0, 1] and [0, 255]. Received: dtype={x.dtype.name}"
        )
    return tf.cast(x, tf.float32)


def assert_images(
    x: tf.Tensor, bounds: Bounds, *, clip: bool = False
) -> tf.Tensor:
    """Returns the images, or fails if a pixel is NaN or out of bounds.

    Values that leave the bounds by no more than `TOLERANCE` are clipped.

    Args:
        x: Images [batch, height, width, channels].
        bounds: Smallest and largest pixel value.
        clip: Whether to clip all finite values that are out of bounds.
    """
    low, high = tf.reduce_min(x), tf.reduce_max(x)
    inside = tf.reduce_all(tf.math.is_finite(x))
    if not clip:
        inside &= low >= bounds[0] - TOLERANCE
        inside &= high <= bounds[1] + TOLERANCE
    x = require(inside, _advice(low, high, bounds), low, high, then=x)
    return tf.clip_by_value(x, *bounds)


def _advice(low: tf.Tensor, high: tf.Tensor, bounds: Bounds) -> tf.Tensor:
    """Returns the message for images out of bounds, without the values."""
    bottom, top = bounds
    reach = (top - bottom) / 2
    advice = tf.where(
        (low >= bottom) & (high > 2 * top),
        "divide them by the largest possible value, 255 for 8 bits, or pass "
        "them as uint8",
        "undo the normalisation, and let the classifier do it",
    )
    overshoot = (low > bottom - reach) & (high < top + reach)
    advice = tf.where(
        overshoot,
        "clip them, or where augmentation overshoots in training pass "
        "`clip_images=True` to the trainer",
        advice,
    )
    finite = tf.math.is_finite(low) & tf.math.is_finite(high)
    advice = tf.where(finite, advice, "repair those that are not")
    return tf.strings.join(
        [
            f"Images must be finite and lie in {list(bounds)}: ",
            advice,
            ". Received: lowest and highest value",
        ]
    )


def assert_finite(values: list[Any], *, then: list[Any]) -> list[Any]:
    """Returns `then`, or fails in the graph if a value is not finite.

    Args:
        values: The loss, followed by gradients; None for a weight without one.
        then: Tensors, or None, that are used only after the check.
    """
    finite = [
        tf.reduce_all(tf.math.is_finite(value))
        for value in values
        if value is not None
    ]
    return require(
        tf.reduce_all(tf.stack(finite)),
        f"{NOT_FINITE} The loss:",
        values[0],
        then=then,
    )
