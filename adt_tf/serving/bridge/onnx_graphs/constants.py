"""Computes ONNX operators on values that do not depend on the images.

    OPERATORS["Concat"]({"axis": 0}, first, second)

Exporters leave small computations of shapes in a graph, such as
`x.view(x.size(0), -1)`. The size of the batch, which is not fixed, is written
as 0, which means "unchanged" to `Reshape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_MAX_ELEMENTS = 2**20


def _constant(attributes: dict[str, Any]) -> np.ndarray:
    for name in ("value", "value_int", "value_float"):
        if name in attributes:
            return np.asarray(attributes[name])
    for name in ("value_ints", "value_floats"):
        if name in attributes:
            return np.asarray(list(attributes[name]))
    raise ValueError("its graph has a constant that is not a number")


def _refuse_large(*sizes: int) -> None:
    if math.prod(sizes) > _MAX_ELEMENTS:
        raise ValueError(f"its graph makes a constant of {list(sizes)}")


def _constant_of_shape(
    attributes: dict[str, Any], shape: np.ndarray
) -> np.ndarray:
    sizes = [int(size) for size in shape]
    _refuse_large(*sizes)
    value = attributes.get("value", np.zeros(1, np.float32))
    return np.full(sizes, value.item(), value.dtype)


def _axes(attributes: dict[str, Any], rest: tuple) -> tuple[int, ...]:
    """Returns the axes: an attribute, or an input in later versions of ONNX."""
    axes = attributes.get("axes", rest[0] if rest else ())
    return tuple(int(axis) for axis in axes)


def _unsqueeze(attributes, array, *rest):
    axes = _axes(attributes, rest)
    return np.expand_dims(array, axes)


def _squeeze(attributes, array, *rest):
    return np.squeeze(array, _axes(attributes, rest) or None)


def _slice(attributes, array, *rest):
    names = ("starts", "ends", "axes", "steps")
    inputs = dict(zip(names, rest, strict=False))
    starts, ends = (attributes.get(n, inputs.get(n)) for n in names[:2])
    axes = attributes.get("axes", inputs.get("axes", range(len(starts))))
    steps = inputs.get("steps", [1] * len(starts))
    slices = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        slices[int(axis)] = slice(int(start), int(end), int(step))
    return array[tuple(slices)]


def _reshape(attributes, array, shape):
    sizes = [
        array.shape[axis] if size == 0 else int(size)
        for axis, size in enumerate(shape)
    ]
    return array.reshape(sizes)


def _gather(attributes, array, indices):
    _refuse_large(array.size, indices.size)
    return np.take(array, indices, attributes.get("axis", 0))


def _binary(
    function: Callable[..., np.ndarray],
) -> Callable[..., np.ndarray]:
    def operator(attributes, first, second):
        _refuse_large(*np.broadcast_shapes(first.shape, second.shape))
        return function(first, second)

    return operator


def _quotient(first, second):
    integers = first.dtype.kind in "iu"
    return first // second if integers else first / second


def _concat(attributes, *arrays):
    _refuse_large(sum(array.size for array in arrays))
    return np.concatenate(arrays, attributes["axis"])


OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda attributes, array: array,
    # A cast is ignored: only shapes and weights are cast.
    "Cast": lambda attributes, array: array,
    "Shape": lambda attributes, array: np.asarray(array.shape),
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": lambda attributes, array: array.transpose(
        attributes.get("perm")
    ),
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _binary(_quotient),
    "Neg": lambda attributes, array: -array,
    "Sqrt": lambda attributes, array: np.sqrt(array),
}
