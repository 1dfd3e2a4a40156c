"""Maps the tensors of a PyTorch module to the variables of a Keras layer.

    for slot in slots(layer):
        slot.variable.assign(slot.convert(module[slot.leaf]))

| layer | tensors of the module |
| --- | --- |
| convolution | `weight` OIHW -> HWIO, `bias` |
| dense | `weight` transposed, `bias` |
| batch norm | `weight`, `bias`, `running_mean`, `running_var` |
| layer norm, group norm | `weight`, `bias`, of a whole map CHW -> HWC |
| PReLU | `weight` |

After a Flatten the rows of a dense kernel are reordered for Keras: see
`orders`.
"""

from __future__ import annotations

from collections.abc import Callable
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
    layer: keras.layers.Layer, order: np.ndarray | None = None
) -> list[Slot]:
    """Returns the slots of a layer: an empty list if it has no weights.

    Args:
        layer: A built layer.
        order: PyTorch's index of each feature of the layer's flat input, or
            None if the order of both is the same.

    Example:

    >>> layer = keras.layers.Dense(10)
    >>> layer.build((None, 64))
    >>> [(slot.leaf, slot.shape) for slot in slots(layer)]
    [('weight', (10, 64)), ('bias', (10,))]
    """
    if not getattr(layer, "weights", ()):  # an operation of keras.ops
        return []
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
    if isinstance(layer, NORMALIZATIONS):
        pairs = [
            ("weight", getattr(layer, "gamma", None)),
            ("bias", getattr(layer, "beta", None)),
            ("running_mean", getattr(layer, "moving_mean", None)),
            ("running_var", getattr(layer, "moving_variance", None)),
        ]
        return [
            Slot(
                leaf,
                _channels_first(variable.shape),
                variable,
                lambda w: _channels_last(w if order is None else w[order]),
            )
            for leaf, variable in pairs
            if variable is not None
        ]
    if isinstance(layer, keras.layers.PReLU):
        alpha = layer.alpha
        size = alpha.shape[-1]
        if max(alpha.shape[:-1], default=1) > 1:
            raise ValueError(
                f"The layer {layer.name!r} has slopes of the shape "
                f"{tuple(alpha.shape)}. PyTorch's PReLU has one for each "
                "channel: build it as PReLU(shared_axes=[1, 2]), or as "
                "PReLU(shared_axes=[1, 2, 3]) with one for all."
            )
        if size == 1:
            order = None
        slope = Slot(
            "weight",
            (size,),
            alpha,
            lambda w: (w if order is None else w[order]).reshape(alpha.shape),
        )
        return [slope]
    raise ValueError(
        f"The layer {layer.name!r} is a {type(layer).__name__}, whose weights "
        "cannot be filled from PyTorch. It must be a Conv2D, DepthwiseConv2D, "
        "Dense, PReLU or batch, layer or group normalisation."
    )


#: Layers of batch, layer and group normalisation.
NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.LayerNormalization,
    keras.layers.GroupNormalization,
)


def _optional_bias(layer: keras.layers.Layer) -> list[Slot]:
    if layer.bias is None:
        return []
    return [Slot("bias", tuple(layer.bias.shape), layer.bias, lambda b: b)]


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns PyTorch's shape of the weights of a normalisation."""
    if len(shape) != 3:
        return tuple(shape)
    height, width, channels = shape
    return channels, height, width


def _channels_last(weight: np.ndarray) -> np.ndarray:
    """Returns the weights of a normalisation in Keras' order."""
    return weight.transpose(1, 2, 0) if weight.ndim == 3 else weight
