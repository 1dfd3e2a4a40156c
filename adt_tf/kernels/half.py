"""A classifier with fixed weights, whose inner layers run in bfloat16.

    with half.block(classifier):
        logits = twins.fast(classifier)(x, training=False)

It is for an inner problem, which runs one classifier many times in inference
mode with the same weights, and needs gradients of its input only. Images,
weights, logits, and the first and last layer with weights stay in float32: the
eight bits of bfloat16 distinguish only 17 values within 8/255 of a pixel.
Between these layers, kernels are cast once, at the start of the block. Batch
normalisation becomes one multiplication and one addition of constants, which
are computed there too, in one pass with the ReLU after it. Layers of other
kinds run unchanged. The classifier is not changed: see `twins`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf.kernels import twins

layers = keras.layers

DTYPE = "bfloat16"

# Layers without weights that compute the same in any type.
_PLAIN = (
    layers.Activation,
    layers.Add,
    layers.AveragePooling2D,
    layers.Concatenate,
    layers.LeakyReLU,
    layers.MaxPooling2D,
    layers.ReLU,
    layers.ZeroPadding2D,
)


def block(classifier: Any) -> contextlib.AbstractContextManager[None]:
    """Returns a block in which `twins.fast` runs the classifier in bfloat16.

    Args:
        classifier: A functional or sequential Keras model.
    """
    inner = inner_layers(classifier)
    if not any(type(layer) is layers.Conv2D for layer in inner):
        raise ValueError(
            "Only a functional or sequential Keras model with convolutions "
            "between its first and its last layer can be searched in "
            "bfloat16: search it in float32. Received: "
            f"classifier={classifier}"
        )
    calls = {layer: _call(layer) for layer in inner}
    calls |= {layer: _cast_behind(layer) for layer in _first(classifier)}
    for normalization, activation in _pairs(classifier, inner):
        calls[normalization] = tf.identity
        calls[activation] = _affine(normalization, relu=True)
    return twins.block(calls, dtype=DTYPE)


def inner_layers(model: Any) -> list[keras.layers.Layer]:
    """Returns the layers between a model's ends that can run in bfloat16.

    Models inside the model are searched too; each has its own ends.

    Args:
        model: A functional or sequential Keras model.
    """
    matching_layers = []
    for inner in getattr(model, "layers", []):
        if isinstance(inner, keras.Model):
            matching_layers += inner_layers(inner)
    operations = _operations(model)
    after: set[int] = set()
    for operation, inputs, outputs in operations:
        if _has_weights(operation) or after & inputs:
            after |= outputs
    before: set[int] = set()
    for operation, inputs, outputs in reversed(operations):
        if _has_weights(operation) or before & outputs:
            before |= inputs
    matching_layers += [
        operation
        for operation, inputs, outputs in operations
        if after & inputs and before & outputs and _has_form(operation)
    ]
    # A model that is used twice is listed twice.
    return list({id(layer): layer for layer in matching_layers}.values())


def _first(model: Any) -> list[keras.layers.Conv2D]:
    """Returns the convolutions without a layer with weights before them."""
    after: set[int] = set()
    convolutions = []
    for operation, inputs, outputs in _operations(model):
        if not after & inputs and type(operation) is layers.Conv2D:
            convolutions.append(operation)
        if _has_weights(operation) or after & inputs:
            after |= outputs
    return [layer for layer in convolutions if _has_form(layer)]


def _cast_behind(
    layer: keras.layers.Conv2D,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that runs a layer and casts its outputs once."""

    def call(inputs: tf.Tensor) -> tf.Tensor:
        return tf.cast(layer(inputs, training=False), DTYPE)

    # mypy knows no attributes of functions.
    call.takes = layer.compute_dtype  # type: ignore[attr-defined]
    return call


def multiplications(model: Any) -> int:
    """Returns the number of bfloat16 multiplications for one image.

    Args:
        model: A functional or sequential Keras model.
    """
    total = 0
    for layer in inner_layers(model):
        if type(layer) is layers.Conv2D:
            _, height, width, _ = layer.output.shape
            size = layer.kernel.shape.num_elements()
            # If the image size is not fixed, the count is for one pixel.
            total += (height or 1) * (width or 1) * size
    return total


def _operations(model: Any) -> list[tuple[Any, set[int], set[int]]]:
    """Returns operations with one use, and the ids of their tensors."""
    operations = []
    for operation in getattr(model, "operations", getattr(model, "layers", [])):
        try:
            tensors = operation.input, operation.output
        except (AttributeError, ValueError):
            continue
        ids = (set(map(id, tf.nest.flatten(t))) for t in tensors)
        operations.append((operation, *ids))
    return operations


def _has_weights(operation: Any) -> bool:
    kinds = (layers.BatchNormalization, layers.Normalization)
    return bool(
        isinstance(operation, layers.Layer)
        and operation.weights
        and not isinstance(operation, kinds)
    )


def _has_form(layer: Any) -> bool:
    if (
        not isinstance(layer, layers.Layer)
        or layer.compute_dtype not in ("float32", DTYPE)
        or layer.activity_regularizer is not None
        or "call" in vars(layer)
    ):
        return False
    if type(layer) is layers.Conv2D:
        # On CPUs without bfloat16 instructions, TensorFlow cannot compute the
        # gradient of a dilated convolution in it, and may end the process.
        return (
            layer.groups == 1
            and layer.data_format == "channels_last"
            and layer.dilation_rate == (1, 1)
        )
    if type(layer) is layers.BatchNormalization:
        return layer.axis in (-1, len(layer.output.shape) - 1)
    return type(layer) in _PLAIN


def _call(layer: keras.layers.Layer) -> Callable[[Any], tf.Tensor]:
    if type(layer) is layers.Conv2D:
        return _convolution(layer)
    if type(layer) is layers.BatchNormalization:
        return _affine(layer, relu=False)
    return type(layer).from_config({**layer.get_config(), "dtype": DTYPE})


def _convolution(
    layer: keras.layers.Conv2D,
) -> Callable[[tf.Tensor], tf.Tensor]:
    kernel = _constant(layer.kernel, DTYPE)
    bias = _constant(layer.bias, DTYPE) if layer.use_bias else None

    def call(inputs: tf.Tensor) -> tf.Tensor:
        outputs = tf.nn.conv2d(
            inputs, kernel, layer.strides, layer.padding.upper()
        )
        if bias is not None:
            outputs = tf.nn.bias_add(outputs, bias)
        return layer.activation(outputs)

    return call


def _affine(
    layer: keras.layers.BatchNormalization, *, relu: bool
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns x -> scale * x + shift, or the ReLU of it."""
    scale = tf.math.rsqrt(_constant(layer.moving_variance) + layer.epsilon)
    if layer.scale:
        scale *= _constant(layer.gamma)
    shift = -_constant(layer.moving_mean) * scale
    if layer.center:
        shift += _constant(layer.beta)
    forward, backward = (_cut, _cut_back) if relu else (_line, _line_back)

    @tf.custom_gradient
    def call(inputs: tf.Tensor) -> tuple[tf.Tensor, Callable[..., tf.Tensor]]:
        outputs = forward(inputs, scale, shift)
        return outputs, lambda slope: backward(slope, outputs, scale)

    return call


def _constant(variable: Any, dtype: str = "float32") -> tf.Tensor:
    return tf.cast(tf.stop_gradient(tf.convert_to_tensor(variable)), dtype)


# XLA makes one pass of each, also on a CPU, and computes it in float32.
_pass = tf.function(jit_compile=True, autograph=False, reduce_retracing=False)


@_pass
def _line(x: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.cast(x, tf.float32) * scale + shift, x.dtype)


@_pass
def _line_back(slope: tf.Tensor, y: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    del y
    return tf.cast(tf.cast(slope, tf.float32) * scale, slope.dtype)


@_pass
def _cut(x: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    y = tf.nn.relu(tf.cast(x, tf.float32) * scale + shift)
    return tf.cast(y, x.dtype)


@_pass
def _cut_back(slope: tf.Tensor, y: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    slope = tf.where(y > 0, tf.cast(slope, tf.float32) * scale, 0.0)
    return tf.cast(slope, y.dtype)


def _pairs(
    model: Any, inner: list[keras.layers.Layer]
) -> list[tuple[keras.layers.Layer, keras.layers.Layer]]:
    """Returns normalisations whose outputs only a ReLU reads, with the ReLU."""
    pairs = []
    for part in getattr(model, "layers", []):
        if isinstance(part, keras.Model):
            pairs += _pairs(part, inner)
    readers: dict[int, list[Any]] = {}
    for operation, inputs, _ in _operations(model):
        for tensor in inputs:
            readers.setdefault(tensor, []).append(operation)
    for tensor in tf.nest.flatten(getattr(model, "outputs", None) or []):
        readers.setdefault(id(tensor), []).append(None)
    inner_ids = {id(layer) for layer in inner}
    for layer in inner:
        if type(layer) is not layers.BatchNormalization:
            continue
        (reader, *others) = readers.get(id(layer.output), [None])
        if not others and id(reader) in inner_ids and _is_relu(reader):
            pairs.append((layer, reader))
    return pairs


def _is_relu(layer: keras.layers.Layer) -> bool:
    if type(layer) is layers.ReLU:
        is_unbounded = layer.max_value is None and not layer.threshold
        return is_unbounded and not layer.negative_slope
    activation = keras.activations.relu
    return type(layer) is layers.Activation and layer.activation is activation
