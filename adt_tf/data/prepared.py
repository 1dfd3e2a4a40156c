"""Data sets that TensorFlow Datasets has prepared.

    folder = find("cifar10", "~/tensorflow_datasets", download=False)
    builder = open_builder(folder, "train")
    images, labels = read(builder, "train", limit=None)

TFDS imports the Python classes that are named in the files of a data set, and
searches for these files by its own rules. For safety this module therefore
finds the folder itself, and checks the names in its files before TFDS reads
them. Downloads use only TFDS' own code for the data set.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf.data import records
from adt_tf.files import first_line

# A TFDS name without a namespace, a version or arguments.
_NAME = re.compile(r"[A-Za-z]\w*(/[\w+-][\w+.-]*)?", re.ASCII)
# Files of a data set that may name Python classes.
_DESCRIPTIONS = ("features.json", "dataset_info.json")


def find(name: str, data_dir: str | None, *, download: bool) -> str:
    """Returns the folder <data_dir>/<name>/<version> of the newest version.

    Args:
        name: Name of the data set, such as "cifar10" or "name/config".
        data_dir: Directory of all data sets; None for TFDS' own default.
        download: Whether TFDS downloads and prepares a missing data set.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            'The data set must be "digits", a path that ends in .npz, the path '
            "of a folder of images, as in ./pets, or the name of a data set of "
            "TensorFlow Datasets, as in cifar10 or name/config, without a "
            "version or path (pass its directory as "
            f"data_dir=..., or --data_dir=...). Received: {name!r}"
        )
    data_dir = os.path.expanduser(
        data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    )
    versions = _versions(data_dir)
    if name in versions:
        return max(versions[name])[1]
    if download:
        return _download(name, data_dir)
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


def _versions(data_dir: str) -> dict[str, list[tuple[tuple[int, ...], str]]]:
    """Returns the versions and folders of all prepared data sets, by name."""
    versions: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for folder in _folders_with(
        "dataset_info.json", data_dir, ("*/*", "*/*/*")
    ):
        name = os.path.relpath(os.path.dirname(folder), data_dir)
        version = os.path.basename(folder)
        if re.fullmatch(r"\d+\.\d+\.\d+", version):
            number = tuple(int(part) for part in version.split("."))
            versions.setdefault(name, []).append((number, folder))
    return versions


def _folders_with(file: str, root: str, depths: tuple[str, ...]) -> list[str]:
    return [
        os.path.dirname(path)
        for depth in depths
        for path in tf.io.gfile.glob(os.path.join(root, depth, file))
    ]


def _download(name: str, data_dir: str) -> str:
    """Downloads and prepares a data set with TFDS' own code for it."""
    import tensorflow_datasets as tfds

    dataset, _, config = name.partition("/")
    try:
        builder_class = tfds.builder_cls(dataset)
    except ValueError as error:
        raise ValueError(
            f"The data set {name!r} is not prepared in {data_dir}, and it "
            "cannot be downloaded: TensorFlow Datasets has no code for it. See "
            "https://www.tensorflow.org/datasets/catalog for those it has."
        ) from error
    if config and config not in builder_class.builder_configs:
        raise ValueError(
            f"The data set {name!r} is not prepared in {data_dir}, and it "
            "cannot be downloaded: TensorFlow Datasets knows these "
            f"configurations of {dataset}: "
            f"{', '.join(builder_class.builder_configs) or 'none'}."
        )
    root = os.path.join(data_dir, builder_class.name)
    for file in _DESCRIPTIONS:
        for folder in _folders_with(file, root, ("*", "*/*")):
            _check_descriptions(folder)
    arguments = {"config": config} if config else {}
    builder = builder_class(data_dir=data_dir, **arguments)
    builder.download_and_prepare()
    return str(builder.data_dir)


def open_builder(folder: str, source: str) -> Any:
    """Returns TFDS' builder of a data set of images and classes.

    Args:
        folder: Folder that `find` returned.
        source: Name of a split that must exist.
    """
    import tensorflow_datasets as tfds

    _check_descriptions(folder)
    try:
        builder = tfds.builder_from_directory(folder)
    except Exception as error:  # The parsers of TFDS raise many types.
        raise ValueError(
            f"Cannot read {folder!r} as a prepared data set: "
            f"{first_line(error)}"
        ) from error
    features = dict(builder.info.features.items())
    image, label = features.get("image"), features.get("label")
    if (
        not isinstance(image, tfds.features.Image)
        or not isinstance(label, tfds.features.ClassLabel)
        or (None in image.shape and not records.is_record_data(builder))
        or source not in builder.info.splits
    ):
        raise ValueError(
            "The data set must have a feature `image` with images of one size "
            "(any sizes in array_record files), a feature `label` with class "
            "labels, and the splits train and test. Convert it to an .npz "
            f"file. Received: {folder!r} with "
            f"{builder.info.features} and the splits "
            f"{', '.join(builder.info.splits)}"
        )
    return builder


def read(
    builder: Any, source: str, limit: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the images and labels of a split into memory.

    Args:
        builder: Builder that `open_builder` returned.
        source: Name of the split.
        limit: Number of examples to read; None for all.
    """
    import tensorflow_datasets as tfds

    folder, image = os.fspath(builder.data_dir), builder.info.features["image"]
    size = builder.info.splits[source].num_examples
    size = size if limit is None else min(limit, size)
    dataset = builder.as_dataset(
        split=f"{source}[:{size}]",
        decoders=tfds.decode.PartialDecoding({"image": True, "label": True}),
        # Reads one shard after the other, in the order on disk.
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
        raise records.damaged(folder, start, size, error) from error
    if start < size:
        end = EOFError("the files end there")
        raise records.damaged(folder, start, size, end)
    return images, labels


def _check_descriptions(folder: str) -> None:
    """Raises `ValueError` if a data set names code other than TFDS' own."""
    for file in _DESCRIPTIONS:
        path = os.path.join(folder, file)
        if not tf.io.gfile.exists(path):
            continue
        try:
            with tf.io.gfile.GFile(path, "rb") as content:
                text = content.read().decode("utf-8", errors="replace")
            class_names = _named_code(text)
        except (ValueError, RecursionError, tf.errors.OpError) as error:
            raise ValueError(
                f"Cannot read {path}, which must be JSON: {first_line(error)}"
            ) from error
        foreign = [
            n for n in class_names if not n.startswith("tensorflow_datasets.")
        ]
        if foreign:
            raise ValueError(
                f"{path} names Python code that is not part of TensorFlow "
                f"Datasets, so it is not read: {foreign[0]!r}"
            )


def _named_code(text: str) -> list[str]:
    """Returns all classes named in JSON, in all forms that TFDS reads."""
    class_names = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        for key, value in pairs:
            if not isinstance(value, str):
                continue
            if key in ("pythonClassName", "python_class_name", "type"):
                # TFDS imports nothing for a name without a dot.
                class_names.extend([value] if "." in value else [])
            elif value.lstrip().startswith(("{", "[")):
                # A feature may store its description as a JSON string.
                with contextlib.suppress(json.JSONDecodeError):
                    class_names.extend(_named_code(value))

    # Pairs, since a dictionary would keep only the last of equal keys.
    json.loads(text, object_pairs_hook=look)
    return class_names
