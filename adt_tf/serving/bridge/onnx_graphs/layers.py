"""Converts ONNX operators on images and features to Keras layers.

    value = OPERATORS["Relu"]("relu_3", {}, Symbol(x, channels_first=True))

`pooling` has the poolings; `arithmetic` has sums, products and changes of
shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from adt_tf.serving.bridge.onnx_graphs import arithmetic, pooling
from adt_tf.serving.bridge.onnx_graphs.values import (
    Symbol,
    Unsupported,
    feature_map,
    padded,
)


def _convolution(name, attributes, x, weight, bias=None):
    x = feature_map(x)
    if not isinstance(weight, np.ndarray) or weight.ndim != 4:
        raise Unsupported("without a constant kernel of two axes")
    filters, inputs, *size = weight.shape
    groups = attributes.get("group", 1)
    channels = x.tensor.shape[-1]
    if groups * inputs != channels or filters % groups:
        raise Unsupported(f"of {groups * inputs} channels, not {channels}")
    settings = {
        "strides": list(attributes.get("strides", [1, 1])),
        "dilation_rate": list(attributes.get("dilations", [1, 1])),
        "use_bias": bias is not None,
        "name": name,
    }
    tensor = x.tensor
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic == "SAME_UPPER":
        settings["padding"] = "same"
    elif automatic in ("NOTSET", "VALID"):
        pads = list(attributes.get("pads", [0, 0, 0, 0]))
        tensor = padded(name, tensor, pads)
    else:
        raise Unsupported(f"with the padding {automatic}")
    kernel = weight.transpose(2, 3, 1, 0)
    if groups == channels > 1:
        multiplier = filters // groups
        layer = keras.layers.DepthwiseConv2D(
            size, depth_multiplier=multiplier, **settings
        )
        kernel = weight.reshape(groups, multiplier, *size).transpose(2, 3, 0, 1)
    else:
        layer = keras.layers.Conv2D(filters, size, groups=groups, **settings)
    return x.like(_filled(layer, tensor, kernel, bias))


def _filled(layer, tensor, *arrays):
    outputs = layer(tensor)
    layer.set_weights([np.asarray(a) for a in arrays if a is not None])
    return outputs


def _gemm(name, attributes, x, weight, bias=None):
    if attributes.get("transA", 0):
        raise Unsupported("of a transposed batch")
    if attributes.get("transB", 0):
        weight = weight.T
    weight = attributes.get("alpha", 1.0) * weight
    if bias is not None:
        bias = attributes.get("beta", 1.0) * bias
    return _dense(name, x, weight, bias)


def _matmul(name, attributes, x, weight):
    return _dense(name, x, weight, None)


def _dense(name, x, weight, bias):
    if not isinstance(x, Symbol) or x.rank != 2:
        raise Unsupported("of another value than [batch, features]")
    if not isinstance(weight, np.ndarray) or weight.ndim != 2:
        raise Unsupported("without constant weights")
    if weight.shape[0] != x.tensor.shape[1]:
        raise Unsupported(f"of {weight.shape[0]} features")
    if bias is not None:
        bias = np.broadcast_to(np.ravel(bias), weight.shape[1:])
    layer = keras.layers.Dense(
        weight.shape[1], use_bias=bias is not None, name=name
    )
    return x.like(_filled(layer, x.tensor, weight, bias))


def _batch_normalization(name, attributes, x, gamma, beta, mean, variance):
    arrays = (gamma, beta, mean, variance)
    if x.rank == 4:
        x = feature_map(x)
    channels = (x.tensor.shape[-1],)
    if any(getattr(array, "shape", None) != channels for array in arrays):
        raise Unsupported("whose parameters are not one for each channel")
    layer = keras.layers.BatchNormalization(
        momentum=attributes.get("momentum", 0.9),
        epsilon=attributes.get("epsilon", 1e-5),
        name=name,
    )
    return x.like(_filled(layer, x.tensor, *arrays))


def _clip(name, attributes, x, low=None, high=None):
    low = attributes.get("min", low)
    high = attributes.get("max", high)
    if low is None or float(low) != 0:
        raise Unsupported("from a number other than 0")
    high = None if high is None else float(high)
    return x.like(keras.layers.ReLU(max_value=high, name=name)(x.tensor))


def _leaky_relu(name, attributes, x):
    slope = attributes.get("alpha", 0.01)
    return x.like(keras.layers.LeakyReLU(slope, name=name)(x.tensor))


def _prelu(name, attributes, x, slope):
    if x.rank == 4:
        x = feature_map(x)
    channels = x.tensor.shape[-1]
    if not isinstance(slope, np.ndarray) or slope.size not in (1, channels):
        raise Unsupported("whose slopes are not one for each channel")
    shared = list(range(1, x.rank - 1))
    layer = keras.layers.PReLU(shared_axes=shared or None, name=name)
    slopes = np.broadcast_to(np.ravel(slope), (*[1] * len(shared), channels))
    return x.like(_filled(layer, x.tensor, slopes))


def _elu(name, attributes, x):
    alpha = attributes.get("alpha", 1.0)
    return x.like(keras.layers.ELU(alpha, name=name)(x.tensor))


def _gelu(name, attributes, x):
    approximate = attributes.get("approximate", "none") == "tanh"
    return x.like(keras.ops.gelu(x.tensor, approximate=approximate))


def _softmax(name, attributes, x):
    if x.rank != 2 or attributes.get("axis", -1) not in (-1, 1):
        raise Unsupported("of another value than [batch, classes]")
    return x.like(keras.layers.Softmax(name=name)(x.tensor))


def _activation(function: str) -> Callable[..., Symbol]:
    def convert(name, attributes, x):
        layer = keras.layers.Activation(function, name=name)
        return x.like(layer(x.tensor))

    return convert


def _relu(name, attributes, x):
    return x.like(keras.layers.ReLU(name=name)(x.tensor))


def _same(name: str, attributes: dict[str, Any], x: Symbol, *_: Any) -> Symbol:
    return x


OPERATORS: dict[str, Callable[..., Any]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "BatchNormalization": _batch_normalization,
    "Relu": _relu,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Elu": _elu,
    "Gelu": _gelu,
    "Sigmoid": _activation("sigmoid"),
    "Tanh": _activation("tanh"),
    "Softplus": _activation("softplus"),
    "HardSwish": _activation("hard_swish"),
    "Clip": _clip,
    "Softmax": _softmax,
    # Dropout has no effect in inference mode.
    "Dropout": _same,
    "Identity": _same,
    "Cast": _same,
    "MaxPool": pooling.max_pool,
    "AveragePool": pooling.average_pool,
    "GlobalAveragePool": pooling.global_pool(
        keras.layers.GlobalAveragePooling2D
    ),
    "GlobalMaxPool": pooling.global_pool(keras.layers.GlobalMaxPooling2D),
    "ReduceMean": pooling.reduce_mean,
    "Add": arithmetic.add,
    "Sub": arithmetic.subtract,
    "Mul": arithmetic.multiply,
    "Div": arithmetic.divide,
    "Concat": arithmetic.concatenate,
    "Flatten": arithmetic.flatten,
    "Reshape": arithmetic.reshape,
    "Squeeze": arithmetic.squeeze,
    "Transpose": arithmetic.transpose,
    "Pad": arithmetic.pad,
}
