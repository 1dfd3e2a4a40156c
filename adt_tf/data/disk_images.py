"""Images on disk that are indexed like an array.

    images = DiskImages(reader)          # e.g. `folders.FolderReader`
    images.shape                         # (1281167, 224, 224, 3)
    images[7], images[2:9], images[[4, 1]]      # decoded now, as NumPy arrays
    images.take([4, 1, 3])               # a subset; nothing is read
    images.read(7, box)                  # a part of an image, resized

An `ImageReader` has a length, reads one image by its index, and returns the
stored bytes of an image for fingerprints.
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

# Number of images that `chunks` decodes at a time.
_CHUNK = 64


class ImageReader(Protocol):
    """Interface of a source of images on disk.

    Attributes:
        image_shape: Height, width and channels of all images.
        dtype: Type of the pixels, uint8 or float32.
    """

    @property
    def image_shape(self) -> tuple[int, int, int]: ...

    @property
    def dtype(self) -> np.dtype: ...

    def __len__(self) -> int: ...

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns an image, or a part of it resized to the image's size."""
        ...

    def content(self, index: int) -> bytes:
        """Returns the stored bytes of an image."""
        ...


class DiskImages:
    """Images [N, H, W, C] of a reader, or a subset of them.

    Args:
        reader: Source of the images.
        indices: Indices of the images in the reader, in order; None for all.
        convert: Function that is applied to each batch [n, H, W, C] that is
            read, and keeps its shape; None for the identity.
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
        """The shape of the array of all images."""
        return (len(self), *self.reader.image_shape)

    @property
    def dtype(self) -> np.dtype:
        """The type of the pixels."""
        if self.convert is None:
            return np.dtype(self.reader.dtype)
        empty = np.zeros((1, *self.reader.image_shape), self.reader.dtype)
        return self.convert(empty).dtype

    def __getitem__(self, key: Any) -> np.ndarray:
        indices = self.indices[key]
        if np.ndim(indices) == 0:
            return self[np.array([key])][0]
        images = np.empty(
            (len(indices), *self.reader.image_shape), self.reader.dtype
        )

        def read(place: int) -> None:
            images[place] = self.reader.read(int(indices[place]))

        if len(indices) == 1:
            read(0)
        else:
            # Pillow releases Python's global lock, so threads use all cores.
            with concurrent.futures.ThreadPoolExecutor(num_cores()) as pool:
                list(pool.map(read, range(len(indices))))
        return images if self.convert is None else self.convert(images)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (image for chunk in self.chunks() for image in chunk)

    def chunks(self) -> Iterator[np.ndarray]:
        """Yields all images in order, in arrays of a few images."""
        for start in range(0, len(self), _CHUNK):
            yield self[start : start + _CHUNK]

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns one image, not converted, or a part of it.

        Args:
            index: Index of the image.
            box: (top, left, height, width) as fractions of the image's size;
                None for the whole image.
        """
        return self.reader.read(int(self.indices[index]), box)

    def take(self, key: Sequence[int] | np.ndarray | slice) -> DiskImages:
        """Returns a subset of the images, without reading them.

        Args:
            key: Indices, a mask or a slice.
        """
        return DiskImages(self.reader, self.indices[key], convert=self.convert)

    def converted(
        self, convert: Callable[[np.ndarray], np.ndarray]
    ) -> DiskImages:
        """Returns the same images with another conversion of each batch."""
        return DiskImages(self.reader, self.indices, convert=convert)

    @functools.cached_property
    def pixel_hash(self) -> Any:
        """The state of SHA-256 after the images as `checks.digest` reads them.

        It is kept, since reading and decoding all images takes long.
        """
        state = hashlib.sha256(repr((self.shape, str(self.dtype))).encode())
        for chunk in self.chunks():
            state.update(chunk.data)
        return state

    @functools.cached_property
    def digest(self) -> str:
        """A hash of the stored bytes of the images and of their shape."""
        total = hashlib.sha256(repr(self.reader.image_shape).encode())
        for index in self.indices:
            content = self.reader.content(int(index))
            total.update(hashlib.sha256(content).digest())
        return total.hexdigest()


def num_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
