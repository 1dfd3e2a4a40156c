"""Loads data sets from scikit-learn, TFDS, arrays and folders."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from adt_tf.checks import arguments
from adt_tf.data import (
    array_folders,
    folders,
    named_arrays,
    prepared,
    records,
)
from adt_tf.data.disk_images import DiskImages
from adt_tf.data.images import ImageData

# Largest size in bytes of the images of a split that are loaded into memory. An
# evaluation converts uint8 to float32, which takes four times as much.
_LARGEST_IN_MEMORY = 512 << 20


def load(
    name: str,
    *,
    split: str = "train",
    data_dir: str | None = None,
    num_examples: int | None = None,
    validation_examples: int = 0,
    seed: int = 0,
    download: bool = False,
    image_size: tuple[int, int] | None = None,
    stream: bool | None = None,
) -> ImageData:
    """Loads a split of a data set.

    An .npz file holds the arrays x_train, y_train, x_test and y_test, as in
    Keras, or the arrays images and labels, of which a stratified fifth becomes
    the test split. For the test split, x_test and y_test are enough. An
    optional array class_names holds the names of the classes. A folder of
    images has a subfolder for each class, or subfolders train/ and test/ that
    have one for each class. A folder of .npy files holds the arrays of an .npz
    file, one in each file.

    Folders, and data sets that TensorFlow Datasets has prepared as array_record
    files, may be larger than the memory: their images are then read when they
    are needed. The batches are the same, bit for bit.

    Args:
        name: "digits" (1,297 training and 500 test images, 8x8x1), the name of
            a data set of TensorFlow Datasets ("cifar10", "cifar100",
            "svhn_cropped", "name/config"), a path that ends in .npz, or the
            path of a folder of images or .npy files, as in "./pets".
        split: "train", "validation" or "test".
        data_dir: Directory of the prepared data sets of TensorFlow Datasets; by
            default $TFDS_DATA_DIR or ~/tensorflow_datasets.
        num_examples: Number of examples, from the start of the split, or, of a
            folder of images, a random choice with the classes in proportion;
            None for all.
        validation_examples: Number of training examples, a stratified random
            choice, that form the validation split.
        seed: Seed of that choice. It must be the same for "train" and
            "validation".
        download: Whether TensorFlow Datasets may download a missing data set.
        image_size: Height and width to which the images of a folder or of
            array_record files are resized.
        stream: Whether images stay on disk; None if they would take more than
            512 MiB of memory.

    Example:

    >>> load("digits", split="train", validation_examples=97)
    ImageData(name='digits', 1200 images of shape (8, 8, 1), num_classes=10)
    """
    arguments.one_of(("train", "validation", "test"), split=split)
    if split == "validation" and validation_examples == 0:
        raise ValueError(
            "split='validation' requires validation_examples above 0, the "
            "number of training examples to hold out. Received: "
            "validation_examples=0"
        )
    if num_examples is not None:
        arguments.integer_at_least(
            1, "None takes all.", num_examples=num_examples
        )
    source = "test" if split == "test" else "train"
    held_out = 0 if split == "test" else validation_examples
    # Choosing the validation split requires all labels.
    limit = None if held_out else num_examples
    images, labels, num_classes, class_names = _open(
        name, source, data_dir, limit, download, image_size
    )
    indices = np.arange(len(labels))
    if held_out:
        if not 0 < held_out < len(labels):
            raise arguments.error(
                f"leave some of the {len(labels)} training examples",
                validation_examples=held_out,
            )
        is_held_out = _stratified_choice(labels, held_out, seed)
        mask = is_held_out if split == "validation" else ~is_held_out
        indices = np.flatnonzero(mask)
    if num_examples is not None:
        if num_examples > len(indices):
            raise arguments.error(
                f"be at most {len(indices)}, the size of the {split} split of "
                f"{name!r}",
                "None takes all.",
                num_examples=num_examples,
            )
        first = np.arange(len(indices)) < num_examples
        if _is_image_folder(name):
            # The files lie class by class, so the first would miss classes.
            first = _stratified_choice(labels[indices], num_examples, seed=0)
        indices = indices[first]
    on_disk = None
    if isinstance(images, DiskImages):
        images = on_disk = images.take(indices)
        size = math.prod(images.shape) * images.dtype.itemsize
        if not (size > _LARGEST_IN_MEMORY if stream is None else stream):
            images = images[:]
    elif stream:
        raise ValueError(
            f"{name!r} cannot be streamed, since its examples cannot be read "
            "one by one: use a folder of images or of .npy files, or a data "
            "set that TensorFlow Datasets has prepared as array_record files. "
            "Received: stream=True (--stream)"
        )
    elif len(indices) < len(labels):
        images = images[indices]
    if name.endswith(".npz"):
        name = os.path.basename(name).removesuffix(".npz")
    elif folders.is_folder(name):
        name = os.path.basename(os.path.abspath(os.path.expanduser(name)))
    return ImageData(
        images, labels[indices], num_classes, name, class_names, on_disk
    )


def _open(
    name: str,
    source: str,
    data_dir: str | None,
    limit: int | None,
    download: bool,
    image_size: tuple[int, int] | None,
) -> tuple[np.ndarray | DiskImages, np.ndarray, int, Any]:
    """Returns images, labels, the number of classes and their names.

    The names are not checked.
    """
    if _is_image_folder(name):
        files, labels, names = _read_folder(name, source, image_size)
        return files, labels, len(names), names
    if name == "digits":
        _refuse_size(name, image_size)
        return *_read_digits(source), None
    if folders.is_folder(name) or name.endswith(".npz"):
        _refuse_size(name, image_size)
        arrays = named_arrays.read(os.path.expanduser(name), source)
        images, labels = arrays.images, arrays.labels
        if not arrays.is_split:
            images, labels = _part_of(images, labels, source)
        return images, labels, arrays.num_classes, arrays.class_names
    folder = prepared.find(name, data_dir, download=download)
    builder = prepared.open_builder(folder, source)
    names = builder.info.features["label"].names
    if records.is_record_data(builder):
        images, labels = records.open_split(builder, source, limit, image_size)
    else:
        _refuse_size(name, image_size)
        images, labels = prepared.read(builder, source, limit)
    return images, labels, len(names), names


def _is_image_folder(name: str) -> bool:
    return (
        folders.is_folder(name)
        and not name.endswith(".npz")
        and not array_folders.is_array_folder(name)
    )


def _refuse_size(name: str, image_size: tuple[int, int] | None) -> None:
    if image_size is not None:
        raise ValueError(
            "Only the images of a folder, as in ./pets, or of array_record "
            f"files can be resized. Received: image_size={image_size} for "
            f"{name!r}"
        )


def _stratified_choice(labels: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Returns a mask of `size` random examples, with classes in proportion.

    The examples of each class are put in random order and spread evenly over
    (0, 1); the `size` smallest of all are chosen. The raw bits of a NumPy bit
    generator are the same in all versions, and so is the choice.
    """
    order = np.argsort(np.random.PCG64(seed % 2**64).random_raw(len(labels)))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    mask = np.zeros(len(labels), bool)
    mask[order[np.argsort(place[order], kind="stable")[:size]]] = True
    return mask


def _read_digits(source: str) -> tuple[np.ndarray, np.ndarray, int]:
    from sklearn import datasets

    digits = datasets.load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    in_test = _stratified_choice(digits.target, 500, seed=0)
    mask = in_test if source == "test" else ~in_test
    return images[mask], digits.target[mask], 10


def _read_folder(
    name: str, source: str, image_size: tuple[int, int] | None
) -> tuple[np.ndarray | DiskImages, np.ndarray, tuple[str, ...]]:
    folder = folders.find(name, image_size)
    if source in folder.splits:
        return *folder.split(source), folder.class_names
    images, labels = _part_of(*folder.split("all"), source)
    return images, labels, folder.class_names


def _part_of(
    images: np.ndarray | DiskImages, labels: np.ndarray, source: str
) -> tuple[np.ndarray | DiskImages, np.ndarray]:
    """Returns the examples of a split of data without a test split."""
    in_test = _stratified_choice(labels, _fifth(len(labels)), seed=0)
    mask = in_test if source == "test" else ~in_test
    is_on_disk = isinstance(images, DiskImages)
    return images.take(mask) if is_on_disk else images[mask], labels[mask]


def test_share(name: str) -> tuple[int, int] | None:
    """Returns the size of a test split that is a part of a file or folder.

    Returns:
        The number of test examples and of all examples, or None if the data
        set has a test split of its own.
    """
    if _is_image_folder(name):
        size = folders.count_undivided(name)
        return (_fifth(size), size) if size else None
    if not folders.is_folder(name) and not name.endswith(".npz"):
        return None
    with named_arrays.opened(os.path.expanduser(name)) as arrays:
        if {"x_test", "y_test"} <= set(arrays) or "labels" not in arrays:
            return None
        size = len(arrays["labels"])
    return _fifth(size), size


def _fifth(size: int) -> int:
    return max(1, size // 5)
