"""Folders of .npy files, which are mapped into memory.

    mine/x_train.npy  mine/y_train.npy  mine/x_test.npy  mine/y_test.npy
    mine/images.npy   mine/labels.npy           (a fifth becomes the test split)

The arrays have the same names as in an .npz file. `np.save` writes such files;
`np.lib.format.open_memmap` writes a file that is larger than the memory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np

from adt_tf.data import decoding
from adt_tf.data.decoding import Box
from adt_tf.data.images import validate_images

_SUFFIX = ".npy"
_MAGIC = np.lib.format.MAGIC_PREFIX
# Number of images that are checked at once; the others are checked when read.
_EXAMINED = 32


class ArrayFolder(Mapping):
    """The arrays of a folder by name, mapped into memory.

    Args:
        path: Path of the folder.
    """

    def __init__(self, path: str):
        self.path = os.path.expanduser(path)

    def __getitem__(self, name: str) -> np.ndarray:
        path = os.path.join(self.path, name + _SUFFIX)
        if not os.path.isfile(path):
            raise KeyError(name)
        with open(path, "rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ValueError(
                    f"{name}.npy is not an .npy file, as np.save writes it"
                )
        return np.load(path, mmap_mode="r", allow_pickle=False)

    def __iter__(self) -> Iterator[str]:
        return iter(
            sorted(
                name.removesuffix(_SUFFIX)
                for name in os.listdir(self.path)
                if name.endswith(_SUFFIX)
            )
        )

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclasses.dataclass(frozen=True)
class ArrayReader:
    """Reads the images of an array [N, H, W, C], one by one.

    Args:
        array: Array of uint8, or of floats in [0, 1]. It may be mapped.
    """

    array: np.ndarray

    def __post_init__(self) -> None:
        places = np.linspace(0, max(len(self.array) - 1, 0), _EXAMINED)
        indices = np.unique(places.astype(int))[: len(self.array)]
        validate_images(self.array[indices])

    def __len__(self) -> int:
        return len(self.array)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.array.shape[1:]

    @property
    def dtype(self) -> np.dtype:
        """The type of the pixels as they are read."""
        is_uint8 = self.array.dtype == np.uint8
        return np.dtype(np.uint8 if is_uint8 else np.float32)

    def read(self, index: int, box: Box | None = None) -> np.ndarray:
        """Returns a checked image, or a part of it."""
        image = validate_images(self.array[index : index + 1])[0]
        return image if box is None else decoding.cut(image, box)

    def content(self, index: int) -> bytes:
        """Returns the pixels of an image as bytes."""
        return self.array[index].tobytes()


def is_array_folder(name: str) -> bool:
    """Returns whether a folder holds .npy files."""
    path = os.path.expanduser(name)
    return any(entry.endswith(_SUFFIX) for entry in os.listdir(path))
