"""Constructors of the plain types and NumPy values that a pickle may have.

    value = pickles.load(stream, plain_constructors(budget), ...)

NumPy pickles an array as a call of `_reconstruct` and a state: its shape, its
dtype and its bytes. Dtypes of objects, text or fields are refused.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import numpy as np

from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.pickles import (
    Buildable,
    Constructor,
    Record,
    checked_key,
)

_NUMBER = re.compile(r"[fiu][1248]|b1")


class Dtype(Buildable):
    """A dtype of plain numbers.

    Args:
        code: Kind and size, such as `"f4"`.
        *_: NumPy's flags, which are not used.
    """

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or not _NUMBER.fullmatch(code):
            raise ValueError("it has a NumPy dtype that has no numbers")
        self.dtype = np.dtype(code)

    def build(self, state: Any) -> None:
        """Sets the byte order from a pickled state."""
        if not isinstance(state, tuple) or state[1] not in ("<", ">", "|", "="):
            raise ValueError("it has a NumPy dtype of an unknown byte order")
        self.dtype = self.dtype.newbyteorder(state[1])


class Array(Buildable):
    """A NumPy array of a pickle."""

    def __init__(self) -> None:
        self._array: np.ndarray = np.zeros(0)

    def build(self, state: Any) -> None:
        """Sets the shape, the dtype, the order and the bytes."""
        _, shape, dtype, fortran, content = state
        self.fill(content, dtype, shape, "F" if fortran else "C")

    def fill(
        self, content: Any, dtype: Any, shape: Any, order: Literal["C", "F"]
    ) -> None:
        """Sets the numbers.

        Args:
            content: Bytes of the numbers.
            dtype: A `Dtype`.
            shape: Shape of the array.
            order: `"C"` or `"F"`.
        """
        if not isinstance(dtype, Dtype):
            raise ValueError("it has a NumPy array without a dtype")
        if isinstance(content, str):  # Python 2's bytes
            content = content.encode("latin-1")
        if not isinstance(content, (bytes, bytearray)):
            raise ValueError("it has a NumPy array of objects")
        values = np.frombuffer(content, dtype.dtype)
        if (
            not isinstance(shape, tuple)
            or not all(isinstance(size, int) for size in shape)
            or math.prod(shape) != len(values)
        ):
            raise ValueError("it has a NumPy array whose shape does not fit")
        self._array = values.reshape(shape, order=order)

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along each axis."""
        return self._array.shape

    def array(self) -> np.ndarray:
        """Returns the array."""
        return self._array


def plain_constructors(budget: Budget) -> dict[str, Constructor]:
    """Returns the constructors of NumPy's values and of plain types.

    Args:
        budget: Budget for the bytes that are decoded from text.
    """

    def encode(text: str, encoding: Any) -> bytes:
        if encoding not in ("latin1", "latin-1"):
            raise ValueError("it encodes text in another form than latin1")
        budget.spend(len(text), "a value of its pickle")
        return text.encode("latin-1")

    def scalar(dtype: Any, content: Any) -> Any:
        array = Array()
        array.fill(content, dtype, (1,), "C")
        return array.array()[0].item()

    def from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> Array:
        array = Array()
        array.fill(content, dtype, shape, order)
        return array

    def record(pairs: Any = ()) -> Record:
        if isinstance(pairs, dict):
            pairs = pairs.items()
        return Record((checked_key(key), value) for key, value in pairs)

    def container(kind: type) -> Constructor:
        def construct(values: Any = ()) -> Any:
            if not isinstance(values, (list, tuple, set, frozenset)):
                raise ValueError(
                    f"it makes a {kind.__name__} of a value that is no list"
                )
            if kind in (set, frozenset):
                return kind(map(checked_key, values))
            return kind(values)

        return Constructor(construct)

    def byte_array(content: Any = b"") -> bytearray:
        if not isinstance(content, (bytes, bytearray)):
            raise ValueError("it makes a bytearray of a value without bytes")
        return bytearray(content)

    def not_called(*_: Any) -> None:
        raise ValueError("it calls a type of numbers or text")

    constructors = {
        "_codecs.encode": Constructor(encode),
        "collections.OrderedDict": Constructor(record),
        "collections.Counter": Constructor(record),
        "collections.defaultdict": Constructor(lambda *_: Record()),
        "numpy.dtype": Constructor(Dtype),
        "numpy.ndarray": Constructor(lambda *_: Array()),
    }
    for core in ("numpy.core", "numpy._core"):
        constructors |= {
            f"{core}.multiarray._reconstruct": Constructor(lambda *_: Array()),
            f"{core}.multiarray.scalar": Constructor(scalar),
            f"{core}.numeric._frombuffer": Constructor(from_buffer),
        }
    for module in ("builtins", "__builtin__"):
        constructors |= {
            f"{module}.{kind.__name__}": container(kind)
            for kind in (set, frozenset, list, tuple)
        }
        constructors |= {
            f"{module}.complex": Constructor(complex),
            f"{module}.bytearray": Constructor(byte_array),
            f"{module}.dict": Constructor(record),
        }
        # A defaultdict names the type of its values.
        constructors |= {
            f"{module}.{name}": Constructor(not_called)
            for name in ("int", "long", "float", "str", "unicode", "bool")
        }
    return constructors
