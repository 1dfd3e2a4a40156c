"""Where data sets come from: scikit-learn, TFDS' folders, .npz files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tokenize
import zipfile
import zlib

import numpy as np
import tensorflow as tf

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
    if split not in ("train", "validation", "test"):
        raise ValueError(
            "Argument `split` must be 'train', 'validation' or 'test'. "
            f"Received: split={split!r}"
        )
    if split == "validation" and validation_examples == 0:
        raise ValueError(
            "split='validation' needs validation_examples above 0: how many "
            "training examples to hold out. Received: validation_examples=0"
        )
    if num_examples is not None and num_examples < 1:
        raise ValueError(
            "Argument `num_examples` must be 1 or more; None takes all. "
            f"Received: num_examples={num_examples}"
        )
    source = "test" if split == "test" else "train"
    held_out = 0 if split == "test" else validation_examples
    if name == "digits":
        images, labels, num_classes = _read_digits(source)
    elif name.endswith(".npz"):
        images, labels, num_classes = _read_npz(name, source)
    else:
        folder = _prepared_folder(name, data_dir, download)
        # The choice of the validation split needs all labels.
        limit = None if held_out else num_examples
        images, labels, num_classes = _read_tfds(folder, source, limit)
    if held_out:
        if not 0 < held_out < len(labels):
            raise ValueError(
                "Argument `validation_examples` must leave some of the "
                f"{len(labels)} training examples. "
                f"Received: validation_examples={held_out}"
            )
        chosen = _stratified_choice(labels, held_out, seed)
        kept = chosen if split == "validation" else ~chosen
        images, labels = images[kept], labels[kept]
    if num_examples is not None:
        if num_examples > len(labels):
            raise ValueError(
                f"Argument `num_examples` must be at most {len(labels)}, the "
                f"size of the {split} split of {name!r}; None takes all. "
                f"Received: num_examples={num_examples}"
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
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        MemoryError,
        NotImplementedError,
        RuntimeError,
        SyntaxError,
        tokenize.TokenError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
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


def _prepared_folder(name: str, data_dir: str | None, download: bool) -> str:
    """Finds <data_dir>/<name>/<version>, the newest, without the network."""
    data_dir = os.path.expanduser(
        data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    )
    versions = {}
    for depth in ("*/*", "*/*/*"):
        pattern = os.path.join(data_dir, depth, "dataset_info.json")
        for path in tf.io.gfile.glob(pattern):
            folder = os.path.dirname(path)
            found = os.path.relpath(os.path.dirname(folder), data_dir)
            version = os.path.basename(folder)
            if re.fullmatch(r"\d+\.\d+\.\d+", version):
                number = tuple(int(part) for part in version.split("."))
                versions.setdefault(found, []).append((number, folder))
    if name in versions:
        return max(versions[name])[1]
    if not download:
        raise ValueError(
            f"There is no data set {name!r}. Looked for a prepared "
            f"{os.path.join(data_dir, name, '<version>')}; prepared there: "
            f"{', '.join(sorted(versions)) or 'none'}. If it is elsewhere, "
            "pass data_dir=... (--data_dir=...); to fetch it once, pass "
            'download=True (--download), or run: python -c "from adt_tf '
            f"import data; data.load({name!r}, data_dir={data_dir!r}, "
            'download=True)". Other sources: "digits", or a path that ends '
            "in .npz"
        )
    import tensorflow_datasets as tfds

    builder = tfds.builder(name, data_dir=data_dir)
    builder.download_and_prepare()
    return str(builder.data_dir)


def _read_tfds(
    folder: str, source: str, limit: int | None
) -> tuple[np.ndarray, np.ndarray, int]:
    import tensorflow_datasets as tfds

    _check_features(folder)
    try:
        builder = tfds.builder_from_directory(folder)
    except Exception as error:  # TFDS raises whatever its parsers do
        raise ValueError(
            f"Cannot read {folder!r} as a prepared data set: "
            f"{first_line(error)}"
        ) from error
    features = dict(builder.info.features.items())
    image, label = features.get("image"), features.get("label")
    if (
        not isinstance(image, tfds.features.Image)
        or not isinstance(label, tfds.features.ClassLabel)
        or None in image.shape
        or source not in builder.info.splits
    ):
        raise ValueError(
            "The data set must have images of one size, `image`, class "
            "labels, `label`, and the splits train and test; bring it into "
            f"this form and save it as .npz. Received: {folder!r} with "
            f"{builder.info.features} and the splits "
            f"{', '.join(builder.info.splits)}"
        )
    size = builder.info.splits[source].num_examples
    size = size if limit is None else min(limit, size)
    dataset = builder.as_dataset(
        split=f"{source}[:{size}]",
        decoders=tfds.decode.PartialDecoding({"image": True, "label": True}),
        # One shard after the other: the order on the disk.
        read_config=tfds.ReadConfig(
            interleave_cycle_length=1, try_autocache=False
        ),
    )
    images = np.empty([size, *image.shape], image.np_dtype)
    labels = np.empty([size], np.int32)
    start = 0
    try:
        for batch in dataset.batch(1000).as_numpy_iterator():
            stop = start + len(batch["label"])
            images[start:stop] = batch["image"]
            labels[start:stop] = batch["label"]
            start = stop
    except tf.errors.OpError as error:
        raise _damaged(folder, start, size, first_line(error)) from error
    if start < size:
        raise _damaged(folder, start, size, "there is no more")
    return images, labels, label.num_classes


def _check_features(folder: str) -> None:
    """Refuses a data set that names Python code other than TFDS' own.

    TFDS imports the classes that features.json names.
    """
    path = os.path.join(folder, "features.json")
    if not os.path.isfile(path):
        return
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        named = _named_code(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Cannot read {path}, which must be JSON: {first_line(error)}"
        ) from error
    foreign = [n for n in named if not n.startswith("tensorflow_datasets.")]
    if foreign:
        raise ValueError(
            f"{path} names code that is not TensorFlow Datasets' own, so it "
            f"is not read: {foreign[0]!r}"
        )


def _named_code(text: str) -> list[str]:
    """All classes named in JSON, in every form that TFDS reads."""
    named = []

    def look(pairs):
        for key, value in pairs:
            if not isinstance(value, str):
                continue
            if key in ("pythonClassName", "python_class_name", "type"):
                named.append(value)
            elif value.lstrip().startswith(("{", "[")):
                # A feature may keep its description as text that is JSON.
                with contextlib.suppress(json.JSONDecodeError):
                    named.extend(_named_code(value))

    # Pairs, not a dictionary: of a key that is there twice it has the last.
    json.loads(text, object_pairs_hook=look)
    return named


def _damaged(folder: str, start: int, size: int, reason: str) -> ValueError:
    reason = re.sub(r"\{\{[^}]*\}\} ?", "", reason)  # the graph's node
    return ValueError(
        f"Cannot read {folder!r} beyond example {start} of {size}: {reason}. "
        "The files are damaged or incomplete: prepare the data set again."
    )
