"""Values of an ONNX graph that depend on the images."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np


class Unsupported(Exception):
    """Raised for an operator that Keras' layers cannot express."""


class Symbol(NamedTuple):
    """A tensor in Keras' order, and its order in the graph.

    Attributes:
        tensor: Feature map [batch, height, width, channels], or features
            [batch, number].
        channels_first: Whether the feature map is NCHW in the graph.
    """

    tensor: keras.KerasTensor
    channels_first: bool

    @property
    def rank(self) -> int:
        """Number of axes, including the batch."""
        return len(self.tensor.shape)

    def axis(self, axis: int) -> int:
        """Returns the axis in Keras' order of an axis of the graph."""
        axis %= self.rank
        if self.rank == 4 and self.channels_first:
            return (0, 3, 1, 2)[axis]
        return axis

    def logical_shape(self) -> np.ndarray:
        """Returns the shape in the graph's order, with 0 for the batch."""
        shape = self.tensor.shape
        sizes = [shape[self.axis(axis)] for axis in range(1, self.rank)]
        return np.asarray([0, *sizes], np.int64)

    def like(self, tensor: keras.KerasTensor) -> Symbol:
        """Returns another tensor in the same order."""
        return Symbol(tensor, self.channels_first)


def feature_map(value: Symbol) -> Symbol:
    """Returns a value if it is an NCHW feature map, or raises."""
    if (
        not isinstance(value, Symbol)
        or value.rank != 4
        or not value.channels_first
    ):
        raise Unsupported("of another value than an NCHW feature map")
    return value


def padded(
    name: str, x: keras.KerasTensor, pads: list[int], value: float = 0.0
) -> keras.KerasTensor:
    """Pads a feature map by [top, left, bottom, right].

    Args:
        name: Name of the layer.
        x: Feature map.
        pads: Number of pixels on each side.
        value: Value of the padding.
    """
    top, left, bottom, right = pads
    if min(pads) < 0:
        raise Unsupported("with a negative padding")
    if max(pads) == 0:
        return x
    sides = ((top, bottom), (left, right))
    if value == 0:
        return keras.layers.ZeroPadding2D(sides, name=f"{name}_padding")(x)
    return keras.ops.pad(x, ((0, 0), *sides, (0, 0)), constant_values=value)
