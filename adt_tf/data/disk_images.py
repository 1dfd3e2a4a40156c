"""Images on the disk that are read like the rows of an array.

    images = DiskImages(reader)          # e.g. `folders.FolderReader`
    images.shape                         # (1281167, 224, 224, 3)
    images[7], images[2:9], images[[4, 1]]      # decoded now, as NumPy arrays
    images.take([4, 1, 3])               # a choice; nothing is read
    images.read(7, box)                  # a part of an image, resized

A source of data is one reader: it has a length, it reads one image by its
index, and it gives the bytes that the image is stored as, for fingerprints.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from adt_tf.data.decoding import Box

# Images that are decoded at once where all are asked for, one after the other.
_CHUNK = 64


class ImageReader(Protocol):
    """What a source of images on the disk has.

    Attributes:
        image_shape: Height, width and channels of every image.
        dtype: Type of the pixels, uint8 or float32.
    """

    image_shape: tuple[int, int, int]
    dtype: np.dtype

    def __len__(self) -> int: ...

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns an image, or a part of it in the image's size."""
        ...

    def content(self, index: int) -> bytes:
        """Returns the bytes that an image is stored as."""
        ...


class DiskImages:
    """Images [N, H, W, C] of a reader, or a choice of them.

    Args:
        reader: Reads one image by its index.
        indices: The images of the reader to take, in this order; None for all.
        convert: Is applied to each batch [n, H, W, C] that is read, and keeps
            its shape; None for nothing.
    """

    def __init__(
        self,
        reader: ImageReader,
        indices: np.ndarray | None = None,
        *,
        convert: Callable[[np.ndarray], np.ndarray] | None = None,
    ):
        self.reader = reader
        self.indices = np.arange(len(reader)) if indices is None else indices
        self.convert = convert

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"DiskImages({type(self.reader).__name__}, shape={self.shape})"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the array that all images together would be."""
        return (len(self), *self.reader.image_shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of the pixels."""
        if self.convert is None:
            return np.dtype(self.reader.dtype)
        empty = np.zeros((1, *self.reader.image_shape), self.reader.dtype)
        return self.convert(empty).dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        chosen = self.indices[key]
        if np.ndim(chosen) == 0:
            return self[np.array([key])][0]
        images = np.empty(
            (len(chosen), *self.reader.image_shape), self.reader.dtype
        )

        def read(place):
            images[place] = self.reader.read(int(chosen[place]))

        if len(chosen) == 1:
            read(0)
        else:
            # Pillow works without Python's lock, so threads share the cores.
            with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
                list(pool.map(read, range(len(chosen))))
        return images if self.convert is None else self.convert(images)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (image for chunk in self.chunks() for image in chunk)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yields all images in order, some at once."""
        for start in range(0, len(self), _CHUNK):
            yield self[start : start + _CHUNK]

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns one image as it is stored, or a part of it.

        Args:
            index: Place of the image.
            box: (top, left, height, width) as shares of the image's size;
                None for the whole.
        """
        return self.reader.read(int(self.indices[index]), box)

    def take(self, chosen: Sequence[int] | np.ndarray | slice) -> DiskImages:
        """Returns some of the images, without reading them.

        Args:
            chosen: Indices, a mask or a slice.
        """
        return DiskImages(
            self.reader, self.indices[chosen], convert=self.convert
        )

    def converted(
        self, convert: Callable[[np.ndarray], np.ndarray]
    ) -> DiskImages:
        """Returns the same images with what is to be done to each batch."""
        return DiskImages(self.reader, self.indices, convert=convert)

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the images' files and of their size, not of their pixels.

        The files are read one by one. Nothing is decoded.
        """
        total = hashlib.sha256(repr(self.reader.image_shape).encode())
        for index in self.indices:
            content = self.reader.content(int(index))
            total.update(hashlib.sha256(content).digest())
        return total.hexdigest()


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
