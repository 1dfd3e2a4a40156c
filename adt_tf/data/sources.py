"""Where data sets come from: scikit-learn, TFDS, .npz files, folders."""

from __future__ import annotations

import os
import zipfile

import numpy as np

from adt_tf import array_files
from adt_tf.checks import arguments
from adt_tf.data import folders, prepared
from adt_tf.data.images import ImageData, validate_labels
from adt_tf.files import first_line

_SPLITS = ("train", "test")


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
) -> ImageData:
    """Reads one split of a data set into memory; offline unless `download`.

    An .npz file has x_train, y_train, x_test and y_test, as those of Keras, or
    images and labels, of which a stratified fifth becomes the test split. For
    the test split x_test and y_test are enough. An array of texts class_names
    names the classes, as data sets of TensorFlow Datasets do. A folder of
    images has a subfolder for each class, or train/ and test/ with one for each
    class.

    Args:
        name: "digits" (1,297 training and 500 test images, 8x8x1), the name of
            a data set of TensorFlow Datasets ("cifar10", "cifar100",
            "svhn_cropped", "name/config"), a path that ends in .npz, or the
            path of a folder of images, as in "./pets".
        split: "train", "validation" or "test".
        data_dir: Where TensorFlow Datasets keeps its data; by default
            $TFDS_DATA_DIR, or else ~/tensorflow_datasets.
        num_examples: Keeps only the first so many of the split.
        validation_examples: How many training examples, a stratified choice,
            are held out as the validation split.
        seed: Makes that choice: give "train" and "validation" the same.
        download: Lets TensorFlow Datasets fetch what is not prepared.
        image_size: Height and width to resize the images of a folder to.

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
    is_folder = folders.is_folder(name)
    if image_size is not None and not is_folder:
        raise ValueError(
            "Only the images of a folder can be resized, as in ./pets. "
            f"Received: image_size={image_size} for {name!r}"
        )
    source = "test" if split == "test" else "train"
    held_out = 0 if split == "test" else validation_examples
    class_names = None
    if name == "digits":
        images, labels, num_classes = _read_digits(source)
    elif name.endswith(".npz"):
        images, labels, num_classes, class_names = _read_npz(name, source)
    elif is_folder:
        images, labels, class_names = _read_folder(name, source, image_size)
        num_classes = len(class_names)
    else:
        folder = prepared.find(name, data_dir, download=download)
        # The choice of the validation split needs all labels.
        limit = None if held_out else num_examples
        images, labels, class_names = prepared.read(folder, source, limit)
        num_classes = len(class_names)
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
    elif is_folder:
        name = os.path.basename(os.path.abspath(os.path.expanduser(name)))
    return ImageData(images, labels, num_classes, name, class_names)


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


def _read_npz(
    path: str, source: str
) -> tuple[np.ndarray, np.ndarray, int, np.ndarray | None]:
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
                shapes = [_shape(arrays, f"x_{s}")[1:] for s in _SPLITS]
                if shapes[0] != shapes[1]:
                    raise ValueError(
                        "the images of x_train and x_test must have one shape, "
                        f"but have {shapes[0]} and {shapes[1]}"
                    )
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
            class_names = None
            if "class_names" in names:
                class_names = arrays["class_names"]
    except array_files.DAMAGED as error:
        raise ValueError(
            f"Cannot read {path!r}: {first_line(error)}"
        ) from error
    num_classes = 1 + max(int(validate_labels(y).max()) for y in all_labels)
    if class_names is not None:
        num_classes = max(num_classes, class_names.size)
    labels = validate_labels(
        labels, num_examples=len(images) if images.ndim else 0
    )
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if not is_split:
        in_test = _stratified_choice(labels, _fifth(len(labels)), seed=0)
        kept = in_test if source == "test" else ~in_test
        images, labels = images[kept], labels[kept]
    return images, labels, num_classes, class_names


def _read_folder(
    name: str, source: str, image_size: tuple[int, int] | None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    folder = folders.find(name, image_size)
    if source in folder.splits:
        return *folder.read(source), folder.class_names
    images, labels = folder.read("all")
    in_test = _stratified_choice(labels, _fifth(len(labels)), seed=0)
    kept = in_test if source == "test" else ~in_test
    return images[kept], labels[kept], folder.class_names


def _shape(arrays: np.lib.npyio.NpzFile, name: str) -> tuple[int, ...]:
    """Returns the shape of an array without reading its numbers."""
    with arrays.zip.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            return np.lib.format.read_array_header_1_0(file)[0]
        return np.lib.format.read_array_header_2_0(file)[0]


def test_share(name: str) -> tuple[int, int] | None:
    """How many of how many examples are the test split of a file or folder.

    None where all that are meant for it are: only a file of images and labels
    or a folder of classes is divided.
    """
    if folders.is_folder(name):
        size = folders.count_undivided(name)
        return size and (_fifth(size), size)
    if not name.endswith(".npz"):
        return None
    with np.load(os.path.expanduser(name), allow_pickle=False) as arrays:
        if {"x_test", "y_test"} <= set(arrays) or "labels" not in arrays:
            return None
        size = len(arrays["labels"])
    return _fifth(size), size


def _fifth(size: int) -> int:
    return max(1, size // 5)
