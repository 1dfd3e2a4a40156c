"""The order of the features in a flattened feature map.

    order = of_input(layer, shapes, inputs)
    output = of_output(layer, shapes, inputs)

PyTorch flattens a feature map as CHW, Keras as HWC. An order is an array in the
shape of a tensor of Keras, without the batch: for each element, its index in
PyTorch's flat tensor. None stands for the usual one: a map in HWC, or features
as in PyTorch. A layer that only moves elements is applied to the order itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

Order = np.ndarray | None
Shapes = Sequence[tuple[int | None, ...]]

# Layers, and the operations of keras.ops.
_MOVES = frozenset(
    {"Flatten", "Reshape", "Permute", "Transpose", "Moveaxis", "Swapaxes"}
    | {"ExpandDims", "Squeeze"}
)


def of_input(layer: Any, shapes: Shapes, inputs: Sequence[Order]) -> Order:
    """Returns the order of the features that a layer takes, or None.

    Args:
        layer: A layer, or an operation of `keras.ops`.
        shapes: Shapes of its inputs, without the batch.
        inputs: Orders of its inputs.

    Raises:
        ValueError: It joins features of different orders.
    """
    orders = [
        order
        for order, shape in zip(inputs, shapes, strict=True)
        if len(shape) == 1
    ]
    known = [order for order in orders if order is not None]
    if not known or _is(layer, "Concatenate"):
        return None
    if len(known) < len(orders) or any(
        not np.array_equal(order, known[0]) for order in known
    ):
        raise ValueError(
            f"The layer {layer.name!r} joins flattened feature maps of "
            "different shapes: set its weights by hand."
        )
    return known[0]


def of_output(layer: Any, shapes: Shapes, inputs: Sequence[Order]) -> Order:
    """Returns the order of the features that a layer gives, or None.

    Args:
        layer: A layer, or an operation of `keras.ops`.
        shapes: Shapes of its inputs, without the batch.
        inputs: Orders of its inputs.
    """
    if any(None in shape for shape in shapes):
        return None
    if type(layer).__name__ in _MOVES:
        ((shape, order),) = zip(shapes, inputs, strict=True)
        moved = layer(_order(shape, order)[np.newaxis])
        return _simplified(keras.ops.convert_to_numpy(moved)[0])
    vectors = all(len(shape) == 1 for shape in shapes)
    if vectors and _is(layer, "Concatenate"):
        starts = np.cumsum([0, *(size for (size,) in shapes[:-1])])
        parts = zip(starts, shapes, inputs, strict=True)
        return _simplified(
            np.concatenate([s + _order(shape, o) for s, shape, o in parts])
        )
    if isinstance(layer, keras.layers.Dense):
        return None
    # Dropout, an activation or a normalisation keeps the order. On a sequence
    # of features, weights show that PyTorch has the same sequence.
    weighted = bool(getattr(layer, "weights", ()))
    if len(set(shapes)) > 1 or (weighted and not vectors):
        return None
    return inputs[0] if _keeps_shape(layer) else None


def _keeps_shape(layer: Any) -> bool:
    """Returns whether the outputs of a layer have the shape of its inputs."""
    before, after = (
        tensors[0] if isinstance(tensors, (list, tuple)) else tensors
        for tensors in (layer.input, layer.output)
    )
    return tuple(before.shape) == tuple(after.shape)


def _is(layer: Any, name: str) -> bool:
    return type(layer).__name__ == name


def _order(shape: tuple[int | None, ...], order: Order) -> np.ndarray:
    """Returns an order as an array."""
    if order is not None:
        return order
    sizes = [size or 0 for size in shape]
    indices = np.arange(math.prod(sizes), dtype=np.int32)
    if len(sizes) != 3:
        return indices.reshape(sizes)
    height, width, channels = sizes
    return indices.reshape(channels, height, width).transpose(1, 2, 0)


def _simplified(order: np.ndarray) -> Order:
    """Returns None for the usual order."""
    return None if np.array_equal(order, _order(order.shape, None)) else order
