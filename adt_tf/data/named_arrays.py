"""Images and labels in named arrays: .npz files, and folders of .npy files.

    arrays = read("mine.npz", "train")
    arrays.images, arrays.labels, arrays.num_classes, arrays.class_names

The arrays are named x_train, y_train, x_test and y_test, as in Keras, or images
and labels.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from adt_tf import array_files
from adt_tf.data import array_folders
from adt_tf.data.disk_images import DiskImages
from adt_tf.data.images import validate_labels
from adt_tf.files import first_line

_SPLITS = ("train", "test")


class NamedArrays(NamedTuple):
    """The arrays of a split.

    Attributes:
        images: Images [N, H, W, C].
        labels: Labels [N].
        num_classes: Number of classes in all splits.
        class_names: Names of the classes, or None.
        is_split: Whether there are separate arrays for training and test.
    """

    images: np.ndarray | DiskImages
    labels: np.ndarray
    num_classes: int
    class_names: np.ndarray | None
    is_split: bool


def read(path: str, source: str) -> NamedArrays:
    """Reads an .npz file, or opens a folder of .npy files.

    Args:
        path: Path of the file or folder.
        source: "train" or "test".
    """
    with opened(path) as arrays:
        images, labels, all_labels, is_split = _choose(arrays, source)
        class_names = None
        if "class_names" in set(arrays):
            class_names = np.array(arrays["class_names"])
    num_classes = 1 + max(int(validate_labels(y).max()) for y in all_labels)
    if class_names is not None:
        num_classes = max(num_classes, class_names.size)
    labels = validate_labels(
        labels, num_examples=len(images) if images.ndim else 0
    )
    if images.ndim == 3:
        images = images[..., np.newaxis]
    stored: np.ndarray | DiskImages = images
    if os.path.isdir(path):
        stored = DiskImages(array_folders.ArrayReader(images))
    return NamedArrays(stored, labels, num_classes, class_names, is_split)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields the arrays of an .npz file or of a folder of .npy files.

    An error that the block raises while it reads gets the path in its message.

    Args:
        path: Path of the file or folder.
    """
    is_folder = os.path.isdir(path) and not path.endswith(".npz")
    if not is_folder and not os.path.isfile(path):
        raise ValueError(
            "There is no such file: give the path of an .npz file. "
            f"Received: {path!r}"
        )
    try:
        if is_folder:
            yield array_folders.ArrayFolder(path)
        elif not zipfile.is_zipfile(path):
            raise ValueError("it is not an .npz file, as np.savez writes it")
        else:
            with np.load(path, allow_pickle=False) as arrays:
                yield arrays
    except array_files.DAMAGED as error:
        raise ValueError(
            f"Cannot read {path!r}: {first_line(error)}"
        ) from error


def _choose(
    arrays: Mapping[str, np.ndarray], source: str
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], bool]:
    """Chooses the arrays of a split.

    Args:
        arrays: Arrays by name.
        source: "train" or "test".

    Returns:
        The images, the labels, a list of the labels of all splits, and whether
        the arrays are split.
    """
    names = set(arrays)
    if {"x_train", "y_train", "x_test", "y_test"} <= names:
        shapes = [_shape(arrays, f"x_{s}")[1:] for s in _SPLITS]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "the images of x_train and x_test must have the same shape, "
                f"but have {shapes[0]} and {shapes[1]}"
            )
        all_labels = [arrays["y_train"], arrays["y_test"]]
        return arrays[f"x_{source}"], arrays[f"y_{source}"], all_labels, True
    if {"x_test", "y_test"} <= names and source == "test":
        labels = arrays["y_test"]
        return arrays["x_test"], labels, [labels], True
    if {"images", "labels"} <= names:
        labels = arrays["labels"]
        return arrays["images"], labels, [labels], False
    raise ValueError(
        "it must have the arrays x_train, y_train, x_test and y_test, or "
        f"images and labels, but has {', '.join(arrays) or 'none'}"
    )


def _shape(arrays: Mapping[str, np.ndarray], name: str) -> tuple[int, ...]:
    """Returns the shape of an array without reading its values."""
    if isinstance(arrays, array_folders.ArrayFolder):
        return arrays[name].shape
    archive: Any = arrays  # an NpzFile
    with archive.zip.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            return np.lib.format.read_array_header_1_0(file)[0]
        return np.lib.format.read_array_header_2_0(file)[0]
