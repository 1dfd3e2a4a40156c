"""Checked images and labels, from whatever a user has."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.checks import arguments
from adt_tf.data.disk_images import DiskImages

# Room for the rounding of float32 pipelines that end at 0 or 1.
_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class ImageData:
    """Checked images and labels, in memory or on the disk.

    Args:
        images: [N, H, W, C], uint8 or floats in [0, 1] (kept as float32); or
            `DiskImages`, which are read when they are asked for.
        labels: [N] or [N, 1], integers in 0 .. num_classes - 1 (kept as int32).
        num_classes: How many classes there are.
        name: What reports call the data set.
        class_names: What reports call the classes, or None.
        source: The same images on the disk, whose files tell whether data are
            the same; by default `images` if they are on the disk. Without it
            the pixels tell.

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
        if not self.is_streamed:
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
        """Whether images are read from the disk when they are asked for."""
        return isinstance(self.images, DiskImages)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width and channels: what a Keras Input takes."""
        return self.images.shape[1:]


def validate_images(images: np.ndarray) -> np.ndarray:
    """Returns the images as uint8, or as float32 in [0, 1], or raises.

    Args:
        images: [N, H, W, C], uint8 or floats; floats that leave [0, 1] by no
            more than rounding (1e-6) are clipped.

    Example:

    >>> float(validate_images(np.full([1, 2, 2, 1], 1.0000001)).max())
    1.0
    >>> validate_images(np.full([1, 2, 2, 1], 255.0))
    Traceback (most recent call last):
    ...
    ValueError: Images must be in [0, 1]: divide them by 255. Received: ...
    """
    _refuse_masked(images, "Images")
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
            "Images must be finite: remove or repair those that are not. "
            f"Received: {np.sum(~np.isfinite(images))} NaN or infinite values"
        )
    if low < -_TOLERANCE or high > 1 + _TOLERANCE:
        hint = "undo the normalisation, or let the classifier do it"
        if low >= 0 and 2 <= high <= 255:
            hint = "divide them by 255"
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
        labels: [N] or [N, 1], integers in 0 .. num_classes - 1.
        num_classes: How many classes there are; None allows any number.
        num_examples: How many labels there must be; None allows any number.

    Example:

    >>> validate_labels(np.array([[2], [0]]), 3)
    array([2, 0], dtype=int32)
    """
    _refuse_masked(labels, "Labels")
    labels = np.asarray(labels)
    if num_classes is not None and num_classes < 2:
        raise ValueError(
            "A classifier needs two classes or more. "
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
    # What an int32 cannot hold would come back as another class.
    most = np.iinfo(np.int32).max if num_classes is None else num_classes - 1
    if low < 0 or high > most:
        raise ValueError(
            f"Labels must be in 0 .. {most}: number the classes from 0, and "
            f"check the number of classes, {num_classes}. "
            f"Received: labels from {low} to {high}"
        )
    return labels.astype(np.int32, copy=False)


def validate_class_names(
    class_names: Sequence[str], num_classes: int
) -> tuple[str, ...]:
    """Returns the names of the classes, or raises.

    Args:
        class_names: A text for each class.
        num_classes: How many classes there are.

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
            f"hold a text for each of the {num_classes} classes, or be None",
            class_names=class_names,
        )
    return tuple(map(str, class_names))


def _refuse_masked(array: Any, words: str) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(
            f"{words} must not be masked, since what is masked would count: "
            "leave those examples out, or fill them with `array.filled(0)`. "
            f"Received: a masked array of shape={array.shape}"
        )


def scale_images(images: tf.Tensor | np.ndarray) -> tf.Tensor:
    """Turns uint8 images into float32 in [0, 1], and leaves floats alone.

    It multiplies by 1/255: the bits are the same in eager mode, in a graph
    and under XLA, which a division by 255 does not give.

    >>> scale_images(np.array([0, 255], np.uint8)).numpy().tolist()
    [0.0, 1.0]
    """
    return tf.image.convert_image_dtype(images, tf.float32)


def as_arrays(
    dataset: Any, *, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[np.ndarray, np.ndarray]:
    """Returns checked float32 images and int32 labels, in memory.

    Args:
        dataset: (images, labels), an `ImageData`, a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator that ends, batched or not;
            or dictionaries in their place, as TensorFlow Datasets and Hugging
            Face have them. Of one-hot and soft labels the class with the
            largest share counts.
        bounds: The least and the largest value of a pixel.

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
    """Returns float32 images, which may be on the disk, and int32 labels.

    Images on the disk are read, scaled and checked when they are asked for, as
    in `images[:32]` or `images[indices]`: such a choice is a NumPy array.

    Args:
        dataset: As in `as_arrays`.
        bounds: The least and the largest value of a pixel.
    """
    images, labels = _collected(dataset)
    # Further on both become plain arrays, without their masks.
    _refuse_masked(images, "Images")
    _refuse_masked(labels, "Labels")
    convert = functools.partial(_as_floats, bounds=tuple(bounds))
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
    """Returns all images and labels of a data set, in whatever form."""
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
                "The data set must end: an endless one cannot be evaluated. "
                "Received: a PyDataset with num_batches=None"
            )
        return _joined(dataset[i] for i in range(dataset.num_batches))
    # An array is iterable as well, but has no labels.
    if isinstance(dataset, Iterable) and not (
        isinstance(dataset, str | bytes) or hasattr(dataset, "shape")
    ):
        return _joined(dataset)
    raise ValueError(
        "The data must be (images, labels), a tf.data.Dataset, PyDataset or "
        "generator of such, or an ImageData. Received: "
        f"{type(dataset).__name__}"
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
            "The data set must end: an endless one cannot be evaluated. Use "
            "`dataset.take(n)`."
        )
    if len(checks.unpack(spec)[0].shape) == 3:
        dataset = dataset.batch(256)
    return dataset.as_numpy_iterator()


def _joined(elements: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Puts batches, or single examples, together."""
    batches = [
        tuple(np.asarray(part) for part in checks.unpack(element)[:2])
        for element in elements
    ]
    if not batches:
        raise ValueError("The data set must not be empty. Received: 0 batches")
    images, labels = zip(*batches, strict=True)
    join = np.stack if images[0].ndim == 3 else np.concatenate
    return join(images), join(labels)
