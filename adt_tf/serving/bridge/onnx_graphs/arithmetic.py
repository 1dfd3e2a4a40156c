"""Converts ONNX's arithmetic and changes of shape to Keras layers.

A constant operand of a feature map must be one number, or one number for each
channel, such as the mean of the images.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from adt_tf.serving.bridge.onnx_graphs.values import (
    Symbol,
    Unsupported,
    feature_map,
    padded,
)


def add(
    name: str, attributes: dict[str, Any], first: Any, second: Any
) -> Symbol:
    """Converts Add."""
    if isinstance(first, np.ndarray):
        first, second = second, first
    if isinstance(second, np.ndarray):
        return _rescaled(name, first, 1.0, _per_channel(second, first))
    return _merged(keras.layers.Add, name, first, second)


def subtract(
    name: str, attributes: dict[str, Any], first: Any, second: Any
) -> Symbol:
    """Converts Sub."""
    if isinstance(second, np.ndarray):
        return _rescaled(name, first, 1.0, -_per_channel(second, first))
    if isinstance(first, np.ndarray):
        return _rescaled(name, second, -1.0, _per_channel(first, second))
    return _merged(keras.layers.Subtract, name, first, second)


def multiply(
    name: str, attributes: dict[str, Any], first: Any, second: Any
) -> Symbol:
    """Converts Mul."""
    if isinstance(first, np.ndarray):
        first, second = second, first
    if isinstance(second, np.ndarray):
        return _rescaled(name, first, _per_channel(second, first), 0.0)
    return _merged(keras.layers.Multiply, name, first, second)


def divide(
    name: str, attributes: dict[str, Any], first: Any, second: Any
) -> Symbol:
    """Converts Div by a constant."""
    if not isinstance(second, np.ndarray):
        raise Unsupported("by a value that depends on the images")
    return _rescaled(name, first, 1 / _per_channel(second, first), 0.0)


def _per_channel(constant: np.ndarray, x: Symbol) -> np.ndarray:
    """Returns a constant as one number, or one number for each channel."""
    shape = (1,) * (x.rank - constant.ndim) + constant.shape
    last = 1 if x.rank == 4 and x.channels_first else x.rank - 1
    if (
        len(shape) != x.rank
        or shape[last] not in (1, x.tensor.shape[-1])
        or constant.size != shape[last]
    ):
        raise Unsupported(f"with a constant of shape {list(constant.shape)}")
    return constant.astype(np.float64).ravel()


def _rescaled(name: str, x: Symbol, scale: Any, offset: Any) -> Symbol:
    scale, offset = (
        values.tolist() if np.size(values) > 1 else float(np.ravel(values)[0])
        for values in (scale, offset)
    )
    layer = keras.layers.Rescaling(scale, offset, name=name)
    return x.like(layer(x.tensor))


def _merged(
    layer: type[keras.layers.Layer], name: str, first: Symbol, second: Symbol
) -> Symbol:
    if first.channels_first != second.channels_first or (
        first.tensor.shape != second.tensor.shape
        and not _is_gate(first, second)
    ):
        raise Unsupported("of two values of different shapes")
    return first.like(layer(name=name)([first.tensor, second.tensor]))


def _is_gate(first: Symbol, second: Symbol) -> bool:
    """Returns whether one value has a number for each channel of the other."""
    shapes = [first.tensor.shape[1:], second.tensor.shape[1:]]
    return first.rank == second.rank == 4 and any(
        gate == (1, 1, other[-1]) for gate, other in (shapes, reversed(shapes))
    )


def concatenate(name: str, attributes: dict[str, Any], *values: Any) -> Symbol:
    """Converts Concat."""
    if not all(isinstance(value, Symbol) for value in values):
        raise Unsupported("with a constant")
    first = values[0]
    if any(v.channels_first != first.channels_first for v in values):
        raise Unsupported("of two orders of axes")
    layer = keras.layers.Concatenate(
        axis=first.axis(attributes["axis"]), name=name
    )
    return first.like(layer([value.tensor for value in values]))


def flatten(name: str, attributes: dict[str, Any], x: Symbol) -> Symbol:
    """Converts Flatten, in the graph's order of the axes."""
    if attributes.get("axis", 1) != 1:
        raise Unsupported("from an axis other than 1")
    if x.rank == 2:
        return x
    tensor = x.tensor
    if x.channels_first and tensor.shape[1] * tensor.shape[2] > 1:
        tensor = keras.layers.Permute((3, 1, 2), name=f"{name}_order")(tensor)
    return x.like(keras.layers.Flatten(name=name)(tensor))


def reshape(
    name: str, attributes: dict[str, Any], x: Symbol, shape: Any
) -> Symbol:
    """Converts a Reshape to [batch, features]."""
    sizes = [int(size) for size in shape]
    features = math.prod(x.tensor.shape[1:])
    if len(sizes) == 2 and sizes[1] in (-1, features):
        return flatten(name, {}, x)
    if sizes[1:] == list(x.logical_shape()[1:]):
        return x
    raise Unsupported(f"to the shape {sizes}")


def squeeze(
    name: str, attributes: dict[str, Any], x: Symbol, axes: Any = None
) -> Symbol:
    """Converts a Squeeze of height and width."""
    axes = attributes.get("axes", axes)
    axes = {x.axis(int(axis)) for axis in axes} if axes is not None else {1, 2}
    if x.rank != 4 or axes != {1, 2} or x.tensor.shape[1:3] != (1, 1):
        raise Unsupported("of other axes than a height and a width of 1")
    return x.like(keras.layers.Flatten(name=name)(x.tensor))


def transpose(name: str, attributes: dict[str, Any], x: Symbol) -> Symbol:
    """Converts a Transpose between NCHW and NHWC, which is only a new label."""
    axes = tuple(attributes.get("perm", ()))
    if x.rank == 4 and axes == (0, 2, 3, 1) and x.channels_first:
        return Symbol(x.tensor, channels_first=False)
    if x.rank == 4 and axes == (0, 3, 1, 2) and not x.channels_first:
        return Symbol(x.tensor, channels_first=True)
    raise Unsupported(f"to the order {list(axes)}")


def pad(
    name: str,
    attributes: dict[str, Any],
    x: Symbol,
    pads: Any = None,
    value: Any = None,
    axes: Any = None,
) -> Symbol:
    """Converts a Pad of height and width by a constant."""
    x = feature_map(x)
    pads = [int(number) for number in attributes.get("pads", pads)]
    value = attributes.get("value", value)
    value = 0.0 if value is None else float(value)
    if attributes.get("mode", "constant") != "constant" or axes is not None:
        raise Unsupported("that is not constant")
    if len(pads) != 8 or any(pads[i] for i in (0, 1, 4, 5)):
        raise Unsupported("of other axes than height and width")
    sides = [pads[2], pads[3], pads[6], pads[7]]
    return x.like(padded(name, x.tensor, sides, value))
