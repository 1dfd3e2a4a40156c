"""Where data sets come from: scikit-learn, TFDS' folders, .npz files."""

from __future__ import annotations

import os
import zipfile

import numpy as np

from adt_tf import array_files
from adt_tf.checks import arguments
from adt_tf.data import prepared
from adt_tf.data.images import ImageData, validate_labels
from adt_tf.files import first_line


def load(
    name: str,
    *,
    split: str = "train",
    data_dir: str | None = None,
    num_examples: int | None = None,
    validation_examples: int = 0,
    seed: int = 0,
    download: bool = False,
) -> ImageData:
    """Reads one split of a data set into memory; offline unless `download`.

    An .npz file has x_train, y_train, x_test and y_test, as those of Keras, or
    images and labels, of which a stratified fifth becomes the test split. For
    the test split x_test and y_test are enough.

    Args:
        name: "digits" (1,297 training and 500 test images, 8x8x1), the name of
            a data set of TensorFlow Datasets ("cifar10", "cifar100",
            "svhn_cropped", "name/config"), or a path that ends in .npz.
        split: "train", "validation" or "test".
        data_dir: Where TensorFlow Datasets keeps its data; by default
            $TFDS_DATA_DIR, or else ~/tensorflow_datasets.
        num_examples: Keeps only the first so many of the split.
        validation_examples: How many training examples, a stratified choice,
            are held out as the validation split.
        seed: Makes that choice: give "train" and "validation" the same.
        download: Lets TensorFlow Datasets fetch what is not prepared.

    Example:

    >>> load("digits", split="train", validation_examples=97)
    ImageData(name='digits', 1200 images of shape (8, 8, 1), num_classes=10)
    """
    arguments.one_of(("train", "validation", "test"), split=split)
    if split == "validation" and validation_examples == 0:
        raise ValueError(
            "split='validation' needs validation_examples above 0: how many "
            "training examples to hold out. Received: validation_examples=0"
        )
    if num_examples is not None:
        arguments.integer_at_least(
            1, "None takes all.", num_examples=num_examples
        )
    source = "test" if split == "test" else "train"
    held_out = 0 if split == "test" else validation_examples
    if name == "digits":
        images, labels, num_classes = _read_digits(source)
    elif name.endswith(".npz"):
        images, labels, num_classes = _read_npz(name, source)
    else:
        folder = prepared.find(name, data_dir, download=download)
        # The choice of the validation split needs all labels.
        limit = None if held_out else num_examples
        images, labels, num_classes = prepared.read(folder, source, limit)
    if held_out:
        if not 0 < held_out < len(labels):
            raise arguments.error(
                f"leave some of the {len(labels)} training examples",
                validation_examples=held_out,
            )
        chosen = _stratified_choice(labels, held_out, seed)
        kept = chosen if split == "validation" else ~chosen
        images, labels = images[kept], labels[kept]
    if num_examples is not None:
        if num_examples > len(labels):
            raise arguments.error(
                f"be at most {len(labels)}, the size of the {split} split of "
                f"{name!r}",
                "None takes all.",
                num_examples=num_examples,
            )
        images, labels = images[:num_examples], labels[:num_examples]
    if name.endswith(".npz"):
        name = os.path.basename(name).removesuffix(".npz")
    return ImageData(images, labels, num_classes, name)


def _stratified_choice(labels: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Returns a boolean mask of `size` examples, each class in proportion.

    Each class is put in random order and spread evenly over (0, 1); the `size`
    smallest of all are chosen. The raw bits of a NumPy bit generator never
    change between versions, so neither does the choice.
    """
    order = np.argsort(np.random.PCG64(seed % 2**64).random_raw(len(labels)))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        members = order[labels[order] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    chosen = np.zeros(len(labels), bool)
    chosen[order[np.argsort(place[order], kind="stable")[:size]]] = True
    return chosen


def _read_digits(source: str) -> tuple[np.ndarray, np.ndarray, int]:
    from sklearn import datasets

    digits = datasets.load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    in_test = _stratified_choice(digits.target, 500, seed=0)
    kept = in_test if source == "test" else ~in_test
    return images[kept], digits.target[kept], 10


def _read_npz(path: str, source: str) -> tuple[np.ndarray, np.ndarray, int]:
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        raise ValueError(
            "There is no such file: give the path of an .npz file. "
            f"Received: {path!r}"
        )
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz file, which np.savez writes")
        with np.load(path, allow_pickle=False) as arrays:
            names, is_split = set(arrays), True
            if {"x_train", "y_train", "x_test", "y_test"} <= names:
                images, labels = arrays[f"x_{source}"], arrays[f"y_{source}"]
                all_labels = [arrays["y_train"], arrays["y_test"]]
            elif {"x_test", "y_test"} <= names and source == "test":
                images, labels = arrays["x_test"], arrays["y_test"]
                all_labels = [labels]
            elif {"images", "labels"} <= names:
                images, labels = arrays["images"], arrays["labels"]
                all_labels, is_split = [labels], False
            else:
                raise ValueError(
                    "it must have the arrays x_train, y_train, x_test and "
                    "y_test, or images and labels, but has "
                    + (", ".join(arrays) or "none")
                )
    except array_files.DAMAGED as error:
        raise ValueError(
            f"Cannot read {path!r}: {first_line(error)}"
        ) from error
    num_classes = 1 + max(int(validate_labels(y).max()) for y in all_labels)
    labels = validate_labels(
        labels, num_examples=len(images) if images.ndim else 0
    )
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if not is_split:
        in_test = _stratified_choice(labels, _fifth(len(labels)), seed=0)
        kept = in_test if source == "test" else ~in_test
        images, labels = images[kept], labels[kept]
    return images, labels, num_classes


def test_share(name: str) -> tuple[int, int] | None:
    """How many of how many examples are the test split of an .npz file.

    None where all that are meant for it are: only a file of images and labels
    is divided.
    """
    if not name.endswith(".npz"):
        return None
    with np.load(os.path.expanduser(name), allow_pickle=False) as arrays:
        if {"x_test", "y_test"} <= set(arrays) or "labels" not in arrays:
            return None
        size = len(arrays["labels"])
    return _fifth(size), size


def _fifth(size: int) -> int:
    return max(1, size // 5)
