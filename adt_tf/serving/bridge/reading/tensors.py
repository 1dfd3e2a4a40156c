"""Tensors of a file: storages and strided views of them.

    storage = Storage("float32", 6, read=lambda: b"...")
    tensor = Tensor(storage, offset=0, shape=(3, 2), strides=(1, 3))
    array = tensor.array()

A tensor is checked when it is constructed, and read by `array()`. So the state
of an optimiser, which is never used, is never read.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: The NumPy format of each type of number, little-endian.
NUMBERS = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
}

# A buffer such as a mean may be kept as a small view that repeats its storage.
_REPEATED = 4096


def decode(
    buffer: Any, number: str, count: int, *, offset: int = 0, big: bool = False
) -> np.ndarray:
    """Returns the numbers in a buffer as a flat array.

    Args:
        buffer: Bytes or a memory map.
        number: Type of the numbers, a key of `NUMBERS`; bfloat16, which NumPy
            does not have, becomes float32.
        count: Number of numbers.
        offset: Position of the first number, in bytes.
        big: Whether the numbers are big-endian.

    Example:

    >>> decode(bytes([0x80, 0x3F]), "bfloat16", 1)
    array([1.], dtype=float32)
    """
    dtype = np.dtype(NUMBERS[number])
    if big:
        dtype = dtype.newbyteorder(">")
    if offset + count * dtype.itemsize > len(buffer):
        raise ValueError(
            f"it claims {count} numbers of type {number} in "
            f"{max(len(buffer) - offset, 0)} bytes"
        )
    array = np.frombuffer(buffer, dtype, count, offset)
    if number == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array


@dataclasses.dataclass(eq=False)
class Storage:
    """A sequence of numbers of one type, which is read when needed.

    Args:
        number: Type of the numbers, a key of `NUMBERS`.
        num_elements: Number of elements.
        read: Function that returns them as a flat array.
    """

    number: str
    num_elements: int
    read: Callable[[], np.ndarray]

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The numbers, which are read once."""
        return self.read()


@dataclasses.dataclass(eq=False)
class Tensor:
    """A strided view of a storage.

    Args:
        storage: Storage of the numbers.
        offset: Index of the first element.
        shape: Size along each axis.
        strides: Distance along each axis, in elements.
    """

    storage: Storage
    offset: int
    shape: Sequence[int]
    strides: Sequence[int]

    def __post_init__(self) -> None:
        self.shape = _whole_numbers(self.shape, "sizes")
        self.strides = _whole_numbers(self.strides, "strides")
        (self.offset,) = _whole_numbers([self.offset], "offsets")
        if len(self.shape) != len(self.strides):
            raise ValueError(
                f"a tensor has {len(self.shape)} sizes and "
                f"{len(self.strides)} strides"
            )
        available = self.storage.num_elements
        last = self.offset + sum(
            (size - 1) * stride
            for size, stride in zip(self.shape, self.strides, strict=True)
        )
        if self.num_elements and last >= available:
            raise ValueError(
                f"a tensor of shape {self.shape} and strides {self.strides} "
                f"reaches element {last} of a storage of {available}"
            )
        if self.num_elements > max(available, _REPEATED):
            raise ValueError(
                f"a tensor of shape {self.shape} repeats a storage of only "
                f"{available} elements"
            )

    @property
    def num_elements(self) -> int:
        """Number of elements of the view."""
        return math.prod(self.shape)

    def array(self) -> np.ndarray:
        """Reads the tensor."""
        values = self.storage.values[self.offset :]
        # Along an axis of one element torch may have any stride.
        steps = [
            stride * values.itemsize if size > 1 else 0
            for size, stride in zip(self.shape, self.strides, strict=True)
        ]
        view = np.lib.stride_tricks.as_strided(
            values, self.shape, steps, writeable=False
        )
        return np.ascontiguousarray(view).reshape(self.shape)


def _whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    # A hostile value is not printed: its text may be endless.
    if (
        not isinstance(values, (tuple, list))
        or len(values) > 16
        or not all(isinstance(value, int) for value in values)
        or not all(0 <= value < 2**63 for value in values)
    ):
        raise ValueError(
            f"a tensor has {name} that are not integers from 0 to 2**63 - 1"
        )
    return tuple(int(value) for value in values)
