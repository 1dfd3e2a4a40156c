"""Checked images and labels: `ImageData` and the checks of its arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.data.disk_images import DiskImages

# Room for the rounding of float32 pipelines that end at 0 or 1.
_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class ImageData:
    """Checked images and labels, in memory or on disk.

    Args:
        images: Images [N, H, W, C], uint8 or floats in [0, 1] (stored as
            float32); or `DiskImages`, which are read when they are indexed.
        labels: Integers in 0 .. num_classes - 1, [N] or [N, 1] (stored as
            int32).
        num_classes: Number of classes.
        name: Name of the data set in reports.
        class_names: Names of the classes in reports, or None.
        source: The same images on disk, whose files are hashed for the
            fingerprint of the data; by default `images` if they are on disk.
            Without it the pixels are hashed.

    Example:

    >>> images = np.zeros([4, 8, 8, 1], np.uint8)
    >>> data = ImageData(images, np.array([0, 1, 1, 0]), 2, "mine")
    >>> len(data), data.input_shape
    (4, (8, 8, 1))
    """

    images: np.ndarray | DiskImages
    labels: np.ndarray
    num_classes: int
    name: str
    class_names: Sequence[str] | None = None
    source: DiskImages | None = None

    def __post_init__(self) -> None:
        images = self.images
        if not isinstance(images, DiskImages):
            images = validate_images(images)
        elif self.source is None:
            object.__setattr__(self, "source", images)
        labels = validate_labels(
            self.labels, self.num_classes, num_examples=len(images)
        )
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels)
        if self.class_names is not None:
            names = validate_class_names(self.class_names, self.num_classes)
            object.__setattr__(self, "class_names", names)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return (
            f"ImageData(name={self.name!r}, {len(self)} images of shape "
            f"{self.input_shape}, num_classes={self.num_classes})"
        )

    @property
    def is_streamed(self) -> bool:
        """Whether images are read from disk when they are indexed."""
        return isinstance(self.images, DiskImages)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image, as for `keras.Input`."""
        return self.images.shape[1:]


def validate_images(images: np.ndarray) -> np.ndarray:
    """Returns the images as uint8 or as float32 in [0, 1], or raises.

    Args:
        images: Images [N, H, W, C], uint8 or floats. Floats that leave [0, 1]
            by a rounding error (1e-6) are clipped.

    Example:

    >>> float(validate_images(np.full([1, 2, 2, 1], 1.0000001)).max())
    1.0
    >>> validate_images(np.full([1, 2, 2, 1], 255.0))
    Traceback (most recent call last):
    ...
    ValueError: Images must be in [0, 1]: divide them by the largest ...
    """
    refuse_masked(images, "Images")
    images = np.asarray(images)
    shape, received = images.shape, f"Received: shape={images.shape}"
    if images.ndim != 4:
        hint = "; add the channel axis: images[..., None]" * (images.ndim == 3)
        raise ValueError(
            f"Images must have the shape [N, H, W, C]{hint}. {received}"
        )
    if images.size == 0:
        raise ValueError(f"Images must not be empty. {received}")
    if shape[1] in (1, 3) and shape[2] == shape[3] > 4:
        raise ValueError(
            "Images must have their channels last: "
            f"images.transpose(0, 2, 3, 1). {received}"
        )
    if images.dtype == np.uint8:
        return images
    if not np.issubdtype(images.dtype, np.floating):
        raise ValueError(
            "Images must be uint8 in 0 .. 255 or floats in [0, 1]: convert "
            f"them, e.g. images.astype('uint8'). Received: {images.dtype}"
        )
    low, high = float(images.min()), float(images.max())
    if not np.isfinite([low, high]).all():
        raise ValueError(
            "Images must be finite: remove or repair the others. "
            f"Received: {np.sum(~np.isfinite(images))} NaN or infinite values"
        )
    if low < -_TOLERANCE or high > 1 + _TOLERANCE:
        hint = "undo the normalisation, or let the classifier do it"
        if low >= 0 and 2 <= high <= 255:
            hint = "divide them by the largest possible value, 255 for 8 bits"
        raise ValueError(
            f"Images must be in [0, 1]: {hint}. "
            f"Received: values from {low:g} to {high:g}"
        )
    return np.clip(images, 0, 1).astype(np.float32, copy=False)


def validate_labels(
    labels: np.ndarray,
    num_classes: int | None = None,
    *,
    num_examples: int | None = None,
) -> np.ndarray:
    """Returns the labels as int32 [N], or raises.

    Args:
        labels: Integers in 0 .. num_classes - 1, [N] or [N, 1].
        num_classes: Number of classes; None allows any number.
        num_examples: Expected number of labels; None allows any number.

    Example:

    >>> validate_labels(np.array([[2], [0]]), 3)
    array([2, 0], dtype=int32)
    """
    refuse_masked(labels, "Labels")
    labels = np.asarray(labels)
    if num_classes is not None and num_classes < 2:
        raise ValueError(
            "A classifier needs at least two classes. "
            f"Received: num_classes={num_classes}"
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        hint = "; turn one-hot into integers: labels.argmax(-1)"
        raise ValueError(
            f"Labels must have the shape [N]{hint * (labels.ndim == 2)}. "
            f"Received: shape={labels.shape}"
        )
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "Labels must be integers: convert them with "
            f"labels.astype('int32'). Received: {labels.dtype}"
        )
    if num_examples is not None and len(labels) != num_examples:
        raise ValueError(
            "There must be one label for each image. "
            f"Received: {num_examples} images and {len(labels)} labels"
        )
    if labels.size == 0:
        raise ValueError("Labels must not be empty. Received: shape=(0,)")
    low, high = int(labels.min()), int(labels.max())
    # A label beyond int32 would wrap around to another class.
    most = np.iinfo(np.int32).max if num_classes is None else num_classes - 1
    if low < 0 or high > most:
        allowed, hint = f"in 0 .. {most}", ""
        if num_classes is not None:
            hint = f", and check the number of classes, {num_classes}"
        elif low < 0:
            allowed = "0 or more"
        raise ValueError(
            f"Labels must be {allowed}: number the classes from 0{hint}. "
            f"Received: labels from {low} to {high}"
        )
    return labels.astype(np.int32, copy=False)


def validate_class_names(
    class_names: Sequence[str] | np.ndarray, num_classes: int
) -> tuple[str, ...]:
    """Returns the names of the classes, or raises.

    Args:
        class_names: Name of each class.
        num_classes: Number of classes.

    Example:

    >>> validate_class_names(["cat", "dog"], 2)
    ('cat', 'dog')
    """
    is_list = isinstance(class_names, (Sequence, np.ndarray))
    if (
        not is_list
        or isinstance(class_names, str)
        or not all(isinstance(name, str) for name in class_names)
        or len(class_names) != num_classes
    ):
        raise arguments.error(
            f"hold a string for each of the {num_classes} classes, or be None",
            class_names=class_names,
        )
    return tuple(map(str, class_names))


def refuse_masked(array: Any, words: str) -> None:
    """Raises `ValueError` if an array is masked.

    Args:
        array: Array to check.
        words: Name of the array in the error message.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(
            f"{words} must not be a masked array, since masked values would be "
            "used: remove those examples, or fill them with `array.filled(0)`. "
            f"Received: a masked array of shape={array.shape}"
        )


def scale_images(images: tf.Tensor | np.ndarray) -> tf.Tensor:
    """Scales uint8 images to float32 in [0, 1]; returns floats unchanged.

    It multiplies by 1/255, so that the bits are the same in eager mode, in a
    graph and under XLA. A division by 255 does not ensure this.

    >>> scale_images(np.array([0, 255], np.uint8)).numpy().tolist()
    [0.0, 1.0]
    """
    return tf.image.convert_image_dtype(images, tf.float32)
