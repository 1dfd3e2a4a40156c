"""Converts data sets of any form to arrays of images and labels.

    images, labels = as_arrays(dataset)       # NumPy arrays in memory
    images, labels = as_examples(dataset)     # images may stay on disk

A data set is a pair of arrays, an `ImageData`, a `tf.data.Dataset`, a
`keras.utils.PyDataset`, a generator, or a dictionary.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.data.disk_images import DiskImages
from adt_tf.data.images import (
    ImageData,
    refuse_masked,
    scale_images,
    validate_images,
    validate_labels,
)


def as_arrays(
    dataset: Any, *, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[np.ndarray, np.ndarray]:
    """Returns checked float32 images and int32 labels, in memory.

    Args:
        dataset: (images, labels), an `ImageData`, or a finite
            `tf.data.Dataset`, `keras.utils.PyDataset` or generator, batched or
            not. Elements may be dictionaries, as in TensorFlow Datasets and
            Hugging Face. One-hot and soft labels become the class with the
            largest probability.
        bounds: Smallest and largest pixel value.

    Example:

    >>> x, y = as_arrays((np.zeros([3, 8, 8, 1]), [0, 1, 2]))
    >>> x.dtype, y.dtype
    (dtype('float32'), dtype('int32'))
    """
    images, labels = as_examples(dataset, bounds=bounds)
    return images[:], labels


def as_examples(
    dataset: Any, *, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[np.ndarray | DiskImages, np.ndarray]:
    """Returns float32 images, which may be on disk, and int32 labels.

    Images on disk are read, scaled and checked when they are indexed, as in
    `images[:32]` or `images[indices]`, which return NumPy arrays.

    Args:
        dataset: Data set as in `as_arrays`.
        bounds: Smallest and largest pixel value.
    """
    images, labels = _collected(dataset)
    # A later conversion to plain arrays would drop the masks.
    refuse_masked(images, "Images")
    refuse_masked(labels, "Labels")
    convert = functools.partial(_as_floats, bounds=(bounds[0], bounds[1]))
    if isinstance(images, DiskImages):
        images = images.converted(convert)
    else:
        images = convert(images)
    labels = checks.classes_in_array(labels)
    return images, validate_labels(labels, num_examples=len(images))


def _as_floats(images: Any, bounds: tuple[float, float]) -> np.ndarray:
    if bounds == (0.0, 1.0):
        return scale_images(validate_images(images)).numpy()
    images = checks.as_images(images, bounds)
    return checks.assert_images(images, bounds).numpy()


def _collected(dataset: Any) -> tuple[Any, Any]:
    """Returns all images and labels of a data set."""
    if isinstance(dataset, ImageData):
        return dataset.images, dataset.labels
    if isinstance(dataset, tuple | list) and len(dataset) == 2:
        return dataset[0], dataset[1]
    if isinstance(dataset, Mapping):
        return checks.unpack(dict(dataset))[:2]
    if isinstance(dataset, tf.data.Dataset):
        return _joined(_elements(dataset))
    if isinstance(dataset, keras.utils.PyDataset):
        if dataset.num_batches is None:
            raise ValueError(
                "The data set must be finite to be evaluated. "
                "Received: a PyDataset with num_batches=None"
            )
        return _joined(dataset[i] for i in range(dataset.num_batches))
    # An array is iterable too, but has no labels.
    if isinstance(dataset, Iterable) and not (
        isinstance(dataset, str | bytes) or hasattr(dataset, "shape")
    ):
        return _joined(dataset)
    raise ValueError(
        "The data set must be (images, labels), an ImageData, or a "
        "tf.data.Dataset, PyDataset or generator of (images, labels). "
        f"Received: {type(dataset).__name__}"
    )


def _elements(dataset: tf.data.Dataset) -> Iterable[Any]:
    spec = dataset.element_spec
    if not isinstance(spec, dict) and (
        not isinstance(spec, tuple)
        or len(spec) < 2
        or not isinstance(spec[1], tf.TensorSpec)
    ):
        raise ValueError(
            "The data set must yield (images, labels). Received: elements of "
            f"{spec}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "The data set must be finite to be evaluated: use "
            "`dataset.take(n)`. Received: an infinite tf.data.Dataset"
        )
    if len(checks.unpack(spec)[0].shape) == 3:
        dataset = dataset.batch(256)
    return dataset.as_numpy_iterator()


def _joined(elements: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Joins batches, or single examples, to one array each."""
    batches = [
        tuple(np.asarray(part) for part in checks.unpack(element)[:2])
        for element in elements
    ]
    if not batches:
        raise ValueError("The data set must not be empty. Received: 0 batches")
    images, labels = zip(*batches, strict=True)
    join = np.stack if images[0].ndim == 3 else np.concatenate
    return join(images), join(labels)
