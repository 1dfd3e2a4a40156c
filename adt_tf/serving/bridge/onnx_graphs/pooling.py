"""Converts ONNX's poolings to Keras layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from adt_tf.serving.bridge.onnx_graphs.values import (
    Symbol,
    Unsupported,
    feature_map,
    padded,
)


def max_pool(name: str, attributes: dict[str, Any], x: Symbol) -> Symbol:
    """Converts MaxPool."""
    pads, window = _window(attributes, feature_map(x))
    # The padding is smaller than any feature, so that it is never the maximum.
    tensor = padded(name, x.tensor, pads, float(np.finfo(np.float32).min))
    return x.like(keras.layers.MaxPooling2D(**window, name=name)(tensor))


def average_pool(name: str, attributes: dict[str, Any], x: Symbol) -> Symbol:
    """Converts AveragePool."""
    pads, window = _window(attributes, feature_map(x))
    if max(pads) and not attributes.get("count_include_pad", 0):
        raise Unsupported("that leaves its padding out of the mean")
    tensor = padded(name, x.tensor, pads)
    return x.like(keras.layers.AveragePooling2D(**window, name=name)(tensor))


def _window(
    attributes: dict[str, Any], x: Symbol
) -> tuple[list[int], dict[str, Any]]:
    """Returns the padding and the arguments of Keras' pooling."""
    size = list(attributes["kernel_shape"])
    strides = list(attributes.get("strides", [1] * len(size)))
    if len(size) != 2 or set(attributes.get("dilations", [1])) != {1}:
        raise Unsupported("with gaps, or not over two axes")
    pads = list(attributes.get("pads", [0, 0, 0, 0]))
    if attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported("with an automatic padding")
    if attributes.get("ceil_mode", 0):
        sides = x.tensor.shape[1:3]
        for side, k, s, p, q in zip(
            sides, size, strides, pads[:2], pads[2:], strict=True
        ):
            if (side + p + q - k) % s:
                raise Unsupported("whose last window is cut off")
    return pads, {"pool_size": size, "strides": strides}


def global_pool(
    layer: type[keras.layers.Layer],
) -> Callable[[str, dict[str, Any], Symbol], Symbol]:
    """Returns the conversion of a pooling over all positions.

    Args:
        layer: Class of the Keras layer.
    """

    def convert(name: str, attributes: dict[str, Any], x: Symbol) -> Symbol:
        x = feature_map(x)
        return x.like(layer(keepdims=True, name=name)(x.tensor))

    return convert


def reduce_mean(
    name: str, attributes: dict[str, Any], x: Symbol, axes: Any = None
) -> Symbol:
    """Converts a ReduceMean over all positions of a feature map."""
    axes = attributes.get("axes", axes)
    keepdims = bool(attributes.get("keepdims", 1))
    if (
        axes is None
        or x.rank != 4
        or sorted(x.axis(int(axis)) for axis in axes) != [1, 2]
    ):
        raise Unsupported("over axes other than height and width")
    return x.like(
        keras.layers.GlobalAveragePooling2D(keepdims=keepdims, name=name)(
            x.tensor
        )
    )
