"""Maps the tensors of a PyTorch module to the variables of a Keras layer.

    for slot in slots(layer):
        slot.variable.assign(slot.convert(module[slot.leaf]))

| layer | tensors of the module |
| --- | --- |
| convolution | `weight` OIHW -> HWIO, `bias` |
| dense | `weight` transposed, `bias` |
| batch norm | `weight`, `bias`, `running_mean`, `running_var` |
| layer norm, group norm | `weight`, `bias` |

PyTorch flattens a feature map as CHW, Keras as HWC: after a Flatten the rows
of a dense kernel are reordered for Keras.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np


class Slot(NamedTuple):
    """A variable of a Keras layer and the tensor that fills it.

    Attributes:
        leaf: Name of the tensor in its module, such as `"weight"`.
        shape: Shape of the tensor in PyTorch.
        variable: Variable of the Keras layer.
        convert: Function from the array in PyTorch's form to Keras' form.
    """

    leaf: str
    shape: tuple[int, ...]
    variable: Any
    convert: Callable[[np.ndarray], np.ndarray]


def slots(
    layer: keras.layers.Layer, flattened: Sequence[int] | None = None
) -> list[Slot]:
    """Returns the slots of a layer: an empty list if it has no weights.

    Args:
        layer: A built layer.
        flattened: Shape (height, width, channels) of the feature map whose
            flattened form is the layer's input, or None.

    Example:

    >>> layer = keras.layers.Dense(10)
    >>> layer.build((None, 64))
    >>> [(slot.leaf, slot.shape) for slot in slots(layer)]
    [('weight', (10, 64)), ('bias', (10,))]
    """
    if not getattr(layer, "weights", ()):  # an operation of keras.ops
        return []
    order = _channels_last_order(flattened)
    if isinstance(layer, keras.layers.DepthwiseConv2D):
        height, width, channels, multiplier = layer.kernel.shape
        weight = Slot(
            "weight",
            (channels * multiplier, 1, height, width),
            layer.kernel,
            lambda w: w.reshape(channels, multiplier, height, width).transpose(
                2, 3, 0, 1
            ),
        )
        return [weight, *_optional_bias(layer)]
    if type(layer) is keras.layers.Conv2D:
        height, width, inputs, filters = layer.kernel.shape
        weight = Slot(
            "weight",
            (filters, inputs, height, width),
            layer.kernel,
            lambda w: w.transpose(2, 3, 1, 0),
        )
        return [weight, *_optional_bias(layer)]
    if isinstance(layer, keras.layers.Dense):
        inputs, units = layer.kernel.shape
        weight = Slot(
            "weight",
            (units, inputs),
            layer.kernel,
            lambda w: (w if order is None else w[:, order]).T,
        )
        return [weight, *_optional_bias(layer)]
    if isinstance(layer, _NORMALIZATIONS):
        pairs = [
            ("weight", getattr(layer, "gamma", None)),
            ("bias", getattr(layer, "beta", None)),
            ("running_mean", getattr(layer, "moving_mean", None)),
            ("running_var", getattr(layer, "moving_variance", None)),
        ]
        return [
            Slot(
                leaf,
                tuple(variable.shape),
                variable,
                lambda w: w if order is None else w[order],
            )
            for leaf, variable in pairs
            if variable is not None
        ]
    raise ValueError(
        f"The layer {layer.name!r} is a {type(layer).__name__}, whose weights "
        "cannot be filled from PyTorch. It must be a Conv2D, DepthwiseConv2D, "
        "Dense or batch, layer or group normalisation."
    )


_NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.LayerNormalization,
    keras.layers.GroupNormalization,
)


def _optional_bias(layer: keras.layers.Layer) -> list[Slot]:
    if layer.bias is None:
        return []
    return [Slot("bias", tuple(layer.bias.shape), layer.bias, lambda b: b)]


def _channels_last_order(flattened: Sequence[int] | None) -> np.ndarray | None:
    """Returns the index in CHW order of each feature in HWC order."""
    if flattened is None:
        return None
    height, width, channels = flattened
    indices = np.arange(math.prod(flattened))
    return indices.reshape(channels, height, width).transpose(1, 2, 0).ravel()
