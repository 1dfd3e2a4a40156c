"""Adapts any Keras model to images in [0, 1] and logits.

classifier = as_classifier(model, pixels=(0, 255))   # and without a softmax
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from adt_tf.checks import arguments

_CHANGE = (
    "Build the classifier without it, so that its last layer returns logits: "
    "`keras.layers.Dense(num_classes)`."
)


def as_classifier(
    model: keras.Model,
    *,
    pixels: tuple[float, float] = (0.0, 1.0),
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> keras.Model:
    """Returns a classifier from images in [0, 1] to logits.

    The classifier shares the model's layers: training it trains the model. If
    the last layer has a softmax as its activation, the classifier has a copy
    of that layer without it.

    Args:
        model: A functional or Sequential Keras model with one image input. It
            returns logits, or the probabilities of a softmax.
        pixels: Lowest and highest pixel value that the model expects, such as
            (0, 255) or (-1, 1).
        mean: Mean of each channel, in the units of `pixels`, if the model
            expects (image - mean) / std.
        std: Standard deviation of each channel.

    Example:

    >>> model = keras.Sequential([
    ...     keras.Input((8, 8, 1)), keras.layers.Flatten(),
    ...     keras.layers.Dense(10, activation="softmax")])
    >>> as_classifier(model, pixels=(0, 255)).output_shape
    (None, 10)
    """
    if not isinstance(model, keras.Model):
        raise arguments.error("be a Keras 3 model", model=type(model).__name__)
    graph = getattr(model, "_functional", model)
    if not isinstance(graph, keras.Model) or not hasattr(graph, "outputs"):
        raise ValueError(
            "Argument `model` must be functional or sequential: a subclassed "
            "model has no graph to change. Scale the images and omit the "
            "softmax in its `call`. "
            f"Received: model={type(model).__name__}"
        )
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise ValueError(
            "The model must have one input and one output. Received: "
            f"{len(model.inputs)} inputs and {len(model.outputs)} outputs"
        )
    low, high = pixels
    if not low < high:
        raise arguments.error("be (low, high) with low < high", pixels=pixels)
    if (mean is None) != (std is None):
        raise ValueError(
            "Arguments `mean` and `std` must both be given, or neither. "
            f"Received: mean={mean}, std={std}"
        )
    shape = model.inputs[0].shape[1:]
    inputs = keras.Input(shape)
    images = inputs
    if (low, high) != (0.0, 1.0):
        images = keras.layers.Rescaling(high - low, offset=low)(images)
    if mean is not None and std is not None:
        images = keras.layers.Normalization(
            mean=list(mean), variance=[s * s for s in std]
        )(images)
    outputs = _without_softmax(model)(images)
    return keras.Model(inputs, outputs, name=f"{model.name}_classifier")


def _without_softmax(model: keras.Model) -> keras.Model:
    """Returns the part of the model from images to logits."""
    last = model.layers[-1]
    if isinstance(last, (keras.layers.Softmax, keras.layers.Activation)):
        if isinstance(last, keras.layers.Activation) and not _is_softmax(last):
            raise ValueError(
                f"The model ends in {last.name!r}, an activation that is not "
                f"a softmax, so its logits are not available. {_CHANGE}"
            )
        return keras.Model(model.inputs, last.input)
    activation: Any = getattr(last, "activation", None)
    if activation in (None, keras.activations.linear):
        return model
    if not isinstance(last, keras.layers.Dense) or not _is_softmax(last):
        raise ValueError(
            f"The model ends in {last.name!r} with the activation "
            f"{getattr(activation, '__name__', activation)!r}, so its logits "
            f"are not available. {_CHANGE}"
        )
    config = {**last.get_config(), "activation": "linear"}
    logits = keras.layers.Dense.from_config(config)
    result = keras.Model(model.inputs, logits(last.input))
    logits.set_weights(last.get_weights())
    return result


def _is_softmax(layer: keras.layers.Layer) -> bool:
    return layer.activation is keras.activations.softmax
