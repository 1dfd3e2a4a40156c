"""Makes a classifier for attacks of a model that was built without them.

classifier = as_classifier(model, pixels=(0, 255))   # and off the softmax
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from adt_tf.checks import arguments

_CHANGE = (
    "Build the classifier without it: the last layer gives logits, "
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

    The model's layers are shared: training the classifier trains the model.
    Only where the last layer has a softmax of its own, that layer is copied
    without it.

    Args:
        model: A functional or Sequential Keras model of one image input, that
            gives logits or probabilities by a softmax.
        pixels: The lowest and the highest pixel value that the model expects,
            such as (0, 255) or (-1, 1).
        mean: Mean of each channel, in the units of `pixels`, where the model
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
            "A subclassed model has no graph to change. Scale the images and "
            "leave the softmax out in its `call`, or wrap it yourself. "
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
        raise ValueError("Give both `mean` and `std`, or neither.")
    shape = model.inputs[0].shape[1:]
    inputs = keras.Input(shape)
    images = inputs
    if (low, high) != (0.0, 1.0):
        images = keras.layers.Rescaling(high - low, offset=low)(images)
    if mean is not None:
        images = keras.layers.Normalization(
            mean=list(mean), variance=[s * s for s in std]
        )(images)
    outputs = _without_softmax(model)(images)
    return keras.Model(inputs, outputs, name=f"{model.name}_classifier")


def _without_softmax(model: keras.Model) -> keras.Model:
    """Returns the model up to its logits."""
    last = model.layers[-1]
    if isinstance(last, (keras.layers.Softmax, keras.layers.Activation)):
        if isinstance(last, keras.layers.Activation) and not _is_softmax(last):
            raise ValueError(
                f"The model ends in {last.name!r}, an activation that is no "
                f"softmax, so its logits cannot be had. {_CHANGE}"
            )
        return keras.Model(model.inputs, last.input)
    activation: Any = getattr(last, "activation", None)
    if activation in (None, keras.activations.linear):
        return model
    if not isinstance(last, keras.layers.Dense) or not _is_softmax(last):
        raise ValueError(
            f"The model ends in {last.name!r} with the activation "
            f"{getattr(activation, '__name__', activation)!r}, so its logits "
            f"cannot be had. {_CHANGE}"
        )
    config = {**last.get_config(), "activation": "linear"}
    logits = keras.layers.Dense.from_config(config)
    result = keras.Model(model.inputs, logits(last.input))
    logits.set_weights(last.get_weights())
    return result


def _is_softmax(layer: keras.layers.Layer) -> bool:
    return layer.activation is keras.activations.softmax
