"""Compares a model with the stored outputs of another framework.

result = verify(classifier, "reference.npz")
print(result)     # logits differ by 3.1e-06, gradients by 8.9e-07
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from adt_tf.serving.bridge.reading import array_files


class Verification(NamedTuple):
    """The largest differences from a reference.

    Attributes:
        logits: Largest difference of a logit.
        gradients: Largest difference of an example's gradient, relative to
            its length, or None if the reference has no gradients.
    """

    logits: float
    gradients: float | None

    def __str__(self) -> str:
        """Returns both differences as text."""
        if self.gradients is None:
            return f"logits differ by {self.logits:.1e}"
        return (
            f"logits differ by {self.logits:.1e}, gradients by "
            f"{self.gradients:.1e} of their length"
        )


def verify(
    classifier: Callable[..., Any],
    reference: str | pathlib.Path,
    *,
    tolerance: float = 1e-4,
    gradient_tolerance: float = 1e-2,
) -> Verification:
    """Compares a classifier with stored logits and input gradients.

    Args:
        classifier: Model from images to logits.
        reference: An `.npz` file with the arrays `images`, [N, H, W, C] or
            PyTorch's [N, C, H, W], and `logits`. To compare gradients it also
            has `labels` and `gradients`, the gradients of each example's
            cross-entropy at its image.
        tolerance: Largest allowed difference of a logit, relative to the
            largest logit if that is above 1.
        gradient_tolerance: Largest allowed difference of a gradient, relative
            to its length. It is larger than that of logits because rounding
            can switch a ReLU whose input is close to 0.

    Returns:
        The differences.

    Raises:
        ValueError: A difference is too large.
    """
    arrays = array_files.npz(pathlib.Path(reference))
    if not {"images", "logits"} <= arrays.keys():
        raise ValueError(
            "A reference must have the arrays images and logits. "
            f"Received: {reference} with {', '.join(arrays) or 'none'}"
        )
    images = _channels_last(arrays["images"], classifier)
    labels = arrays.get("labels", np.zeros(len(images), np.int64))
    x = tf.constant(images, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = classifier(x, training=False)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    expected = arrays["logits"]
    error = float(np.abs(_difference(logits.numpy(), expected)).max())
    _refuse("logits", error, tolerance * max(1.0, np.abs(expected).max()))
    if "gradients" not in arrays:
        return Verification(error, None)
    expected = _channels_last(arrays["gradients"], classifier)
    difference = _difference(tape.gradient(loss, x).numpy(), expected)
    gradient_error = float((_lengths(difference) / _lengths(expected)).max())
    _refuse("gradients", gradient_error, gradient_tolerance)
    return Verification(error, gradient_error)


def _refuse(name: str, error: float, tolerance: float) -> None:
    if not error <= tolerance:
        raise ValueError(
            f"The {name} differ from the reference's by {error:.1e}, more "
            f"than {tolerance:.1e}: check the weights, the normalisation, the "
            "padding and the epsilon of batch normalisation."
        )


def _lengths(gradients: np.ndarray) -> np.ndarray:
    flat = gradients.reshape(len(gradients), -1)
    return np.maximum(np.linalg.norm(flat, axis=-1), 1e-30)


def _channels_last(images: np.ndarray, classifier: Any) -> np.ndarray:
    """Returns images as [N, H, W, C], the order of the model's input."""
    shape = tuple(getattr(classifier, "input_shape", images.shape))[1:]
    if images.ndim == 4 and images.shape[1:] != shape:
        images = images.transpose(0, 2, 3, 1)
    if images.shape[1:] != shape:
        raise ValueError(
            f"The reference's images must have the shape {shape}, or channels "
            f"first. Received: {images.shape}"
        )
    return images


def _difference(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if values.shape != expected.shape:
        raise ValueError(
            f"The reference has the shape {expected.shape} where the model "
            f"gives {values.shape}."
        )
    return values - expected
