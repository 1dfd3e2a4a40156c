"""Data sets that TensorFlow Datasets has prepared as array_record files.

    images, labels = open_split(builder, "train", None, image_size=(64, 64))

Such files give access to examples by index, so images are read when they are
indexed. Labels are read at once, in one pass over the records.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf.data import decoding
from adt_tf.data.decoding import Box
from adt_tf.data.disk_images import DiskImages
from adt_tf.files import first_line


class RecordReader:
    """Reads the images of records.

    Args:
        source: Result of `tfds.data_source`, with encoded images.
        image_shape: Height, width and channels of the decoded images.
        folder: Folder of the data set, for error messages.
    """

    dtype = np.dtype(np.uint8)

    def __init__(
        self,
        source: Sequence[dict[str, Any]],
        image_shape: tuple[int, int, int],
        folder: str,
    ):
        self.source = source
        self.image_shape = image_shape
        self.folder = folder

    def __len__(self) -> int:
        return len(self.source)

    def record(self, index: int) -> dict[str, Any]:
        """Returns a record with an encoded image."""
        try:
            return self.source[index]
        # array_record raises RuntimeError; the parsers of records raise others.
        except Exception as error:
            raise damaged(self.folder, index, len(self), error) from error

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns an image, or a part of it, as uint8 [H, W, C]."""
        return decoding.decode(
            io.BytesIO(self.content(index)),
            self.image_shape,
            box,
            name=f"Example {index} of {self.folder}",
        )

    def content(self, index: int) -> bytes:
        """Returns the encoded image."""
        return self.record(index)["image"]


def is_record_data(builder: Any) -> bool:
    """Returns whether a data set is stored as array_record files."""
    import tensorflow_datasets as tfds

    return builder.info.file_format == tfds.core.FileFormat.ARRAY_RECORD


def open_split(
    builder: Any,
    source: str,
    limit: int | None,
    image_size: tuple[int, int] | None,
) -> tuple[DiskImages, np.ndarray]:
    """Returns the images of a split, read when indexed, and the labels.

    Args:
        builder: TFDS builder of the data set.
        source: Name of the split.
        limit: Number of examples; None for all.
        image_size: Height and width to resize all images to; None if all have
            the same size.
    """
    import tensorflow_datasets as tfds

    folder = os.fspath(builder.data_dir)
    *size, channels = builder.info.features["image"].shape
    if image_size is None and None in size:
        raise ValueError(
            f"The images in {folder} have several sizes: set the size to "
            "resize them to, as in --image_size=64,64 (`image_size=(64, 64)`)."
        )
    try:
        records = builder.as_data_source(
            split=source if limit is None else f"{source}[:{limit}]",
            decoders={"image": tfds.decode.SkipDecoding()},
        )
        num_examples = len(records)
    except Exception as error:  # TFDS and array_record raise many types.
        raise damaged(folder, 0, 0, error) from error
    reader = RecordReader(
        records, (*(image_size or size), channels or 3), folder
    )
    labels = np.empty(num_examples, np.int32)
    for index in range(num_examples):
        labels[index] = reader.record(index)["label"]
    return DiskImages(reader), labels


def damaged(folder: str, start: int, size: int, error: Exception) -> ValueError:
    """Returns the error for files that cannot be read to their end."""
    # Removes the name of a graph node, as in {{node IteratorGetNext}}.
    reason = re.sub(r"\{\{[^}]*\}\} ?", "", first_line(error))
    return ValueError(
        f"Cannot read {folder!r} beyond example {start} of {size}: "
        f"{reason}. The files are damaged or incomplete: prepare "
        "the data set again."
    )
