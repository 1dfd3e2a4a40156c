"""Winograd's 3x3 convolutions, with fewer multiplications, for CPUs.

    with winograd.convolutions(classifier):
        logits = twins.fast(classifier)(x, training=False)

Winograd's minimal algorithm F(2x2, 3x3) computes a 3x3 convolution as

    y = A' [(G w G') * (B' x B)] A

on tiles of 4x4 pixels, with 16 products instead of 36 for each 2x2 outputs. The
gradient of x is the convolution of dy with the rotated and transposed kernel.
The gradient of w is

    dw = G' [(B' x B)' (A dy A')] G,

summed over the tiles. An inner problem runs one classifier many times with the
same weights and needs gradients of its input only: G w G' is then computed once
for all steps. The error is of the order of float32's rounding, as in the direct
form. Wide layers become faster; narrow ones lose more in the transforms than
they save, so only layers with many channels are replaced. On accelerators the
libraries choose the algorithm themselves.

Reference: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
2016.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf.kernels import twins

#: Fewest input and output channels at which y and dx were measured faster.
MIN_CHANNELS = 128
#: The same for dw alone, which gains most.
MIN_TRAINED_CHANNELS = 64

# Rows of B', A' and A, each as {index: coefficient}.
_INPUT_ROWS = ({0: 1, 2: -1}, {1: 1, 2: 1}, {1: -1, 2: 1}, {1: 1, 3: -1})
_OUTPUT_ROWS = ({0: 1, 1: 1, 2: 1}, {1: 1, 2: -1, 3: -1})
_SLOPE_ROWS = ({0: 1}, {0: 1, 1: 1}, {0: 1, 1: -1}, {1: -1})
_KERNEL_ROWS = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))


def pays() -> bool:
    """Returns whether the function that is traced now should use Winograd."""
    is_traced = not tf.executing_eagerly()
    return is_traced and not tf.config.list_logical_devices("GPU")


def convolutions(
    *models: Any, trained: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Returns a block in which twins run wide convolutions by Winograd.

    Only `twins.fast(model)` uses them; the models are not changed.

    Args:
        *models: Keras models.
        trained: Whether kernels have gradients. False transforms the kernels
            once, in this call, hence outside a loop that is traced in the
            block. True transforms them in each call of the twin.
    """
    fast_call = _trained_call if trained else _fixed_call
    fewest = MIN_TRAINED_CHANNELS if trained else MIN_CHANNELS
    calls = {
        layer: fast_call(layer)
        for model in models
        for layer in wide_convolutions(model, fewest)
    }
    return twins.block(calls)


def wide_convolutions(
    model: Any, fewest: int = MIN_CHANNELS
) -> list[keras.layers.Conv2D]:
    """Returns the convolutions that Winograd makes faster.

    Args:
        model: A Keras model; models inside it are searched too.
        fewest: Fewest input and output channels.
    """
    matching_layers = []
    for layer in getattr(model, "layers", []):
        if isinstance(layer, keras.Model):
            matching_layers += wide_convolutions(layer, fewest)
        elif type(layer) is keras.layers.Conv2D and _is_wide(layer, fewest):
            matching_layers.append(layer)
    # A layer that is used twice is listed twice.
    return list({id(layer): layer for layer in matching_layers}.values())


def _is_wide(layer: keras.layers.Conv2D, fewest: int) -> bool:
    return (
        layer.built
        and layer.kernel_size == (3, 3)
        and layer.strides == (1, 1)
        and layer.dilation_rate == (1, 1)
        and layer.groups == 1
        and layer.padding == "same"
        and layer.data_format == "channels_last"
        and layer.compute_dtype == "float32"
        and not layer.use_bias
        and layer.activation is keras.activations.linear
        and layer.activity_regularizer is None
        and "call" not in vars(layer)
        and min(layer.kernel.shape[2:]) >= fewest
    )


def _is_even(images: tf.Tensor) -> bool:
    _, height, width, _ = images.shape
    return None not in (height, width) and height % 2 == width % 2 == 0


def _fixed_call(
    layer: keras.layers.Conv2D,
) -> Callable[[tf.Tensor], tf.Tensor]:
    kernel = tf.stop_gradient(tf.convert_to_tensor(layer.kernel))
    forward, backward = transformed(kernel), transformed(_turned(kernel))

    @tf.custom_gradient
    def tiled(x):
        return convolve(x, forward), lambda dy: convolve(dy, backward)

    def call(inputs):
        if not _is_even(inputs):
            return tf.nn.conv2d(inputs, kernel, 1, "SAME")
        return tiled(inputs)

    return call


def _trained_call(
    layer: keras.layers.Conv2D,
) -> Callable[[tf.Tensor], tf.Tensor]:
    wide = min(layer.kernel.shape[2:]) >= MIN_CHANNELS

    def convolution(x, kernel):
        if wide:
            return convolve(x, transformed(kernel))
        return tf.nn.conv2d(x, kernel, 1, "SAME")

    @tf.custom_gradient
    def tiled(x, kernel):
        def gradient(dy):
            # The tiles are large, so they are computed only after dy.
            with tf.control_dependencies([dy]):
                late_x = tf.identity(x)
            slope = convolution(dy, _turned(kernel))
            return slope, kernel_gradient(late_x, dy)

        return convolution(x, kernel), gradient

    def call(inputs):
        kernel = tf.convert_to_tensor(layer.kernel)
        if not _is_even(inputs):
            return tf.nn.conv2d(inputs, kernel, 1, "SAME")
        return tiled(inputs, kernel)

    return call


def _turned(kernel: tf.Tensor) -> tf.Tensor:
    """Returns the kernel of the gradient: rotated, channels exchanged."""
    return tf.transpose(kernel[::-1, ::-1], [0, 1, 3, 2])


def transformed(kernel: tf.Tensor) -> list[tf.Tensor]:
    """Returns G w G' as 16 matrices [C, D].

    Args:
        kernel: Kernel w [3, 3, C, D].
    """
    flat = tf.matmul(_kernel_matrix(), tf.reshape(kernel, [9, -1]))
    return tf.unstack(tf.reshape(flat, [16, *kernel.shape[2:]]))


def _kernel_matrix() -> tf.Tensor:
    """Returns the map from w to G w G' as a matrix [16, 9]."""
    rows = tf.constant(_KERNEL_ROWS)
    return tf.reshape(tf.einsum("ip,jq->ijpq", rows, rows), [16, 9])


def kernel_gradient(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Returns the gradient [3, 3, C, D] of the kernel.

    Args:
        x: Input of the convolution, [n, H, W, C].
        dy: Gradient of its output, [n, H, W, D].
    """
    products = [
        tf.matmul(tile, slope, transpose_a=True)
        for tile, slope in zip(_input_tiles(x), _slope_tiles(dy), strict=True)
    ]
    flat = tf.reshape(tf.stack(products), [16, -1])
    gradient = tf.matmul(_kernel_matrix(), flat, transpose_a=True)
    return tf.reshape(gradient, [3, 3, x.shape[-1], dy.shape[-1]])


def convolve(x: tf.Tensor, matrices: list[tf.Tensor]) -> tf.Tensor:
    """Returns the convolution of x, padded by one pixel on each side.

    Args:
        x: Input [n, H, W, C]; H and W are even.
        matrices: Transformed kernel, from `transformed`.
    """
    _, height, width, _ = x.shape
    products = [
        tf.matmul(tile, matrix)
        for tile, matrix in zip(_input_tiles(x), matrices, strict=True)
    ]
    return _output(products, height // 2, width // 2)


def _combined(row: dict[int, int], terms: Any) -> tf.Tensor:
    total = None
    for index, sign in row.items():
        term = terms[index]
        if total is None:
            total = term if sign > 0 else -term
        else:
            total = total + term if sign > 0 else total - term
    return total


# XLA makes one pass of the many sums of shifted images, also on a CPU.
@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _input_tiles(x: tf.Tensor) -> list[tf.Tensor]:
    """Returns B' x B of all tiles: 16 matrices [tiles, channels]."""
    _, height, width, channels = x.shape
    x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    pixels = [
        [x[:, i : i + height - 1 : 2, j : j + width - 1 : 2] for j in range(4)]
        for i in range(4)
    ]
    rows = [
        [_combined(row, [pixels[i][j] for i in range(4)]) for j in range(4)]
        for row in _INPUT_ROWS
    ]
    return [
        tf.reshape(_combined(column, row), [-1, channels])
        for row in rows
        for column in _INPUT_ROWS
    ]


@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _slope_tiles(dy: tf.Tensor) -> list[tf.Tensor]:
    """Returns A dy A' of all tiles: 16 matrices [tiles, channels]."""
    pixels = [[dy[:, i::2, j::2] for j in range(2)] for i in range(2)]
    rows = [
        [_combined(row, [pixels[i][j] for i in range(2)]) for j in range(2)]
        for row in _SLOPE_ROWS
    ]
    return [
        tf.reshape(_combined(column, row), [-1, dy.shape[-1]])
        for row in rows
        for column in _SLOPE_ROWS
    ]


@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _output(products: list[tf.Tensor], height: int, width: int) -> tf.Tensor:
    """Returns A' m A of all tiles, joined to an image."""
    channels = products[0].shape[-1]
    tiles = [
        tf.reshape(product, [-1, height, width, channels])
        for product in products
    ]
    rows = [
        [_combined(row, tiles[j::4]) for j in range(4)] for row in _OUTPUT_ROWS
    ]
    pixels = [
        tf.stack([_combined(column, row) for column in _OUTPUT_ROWS], axis=3)
        for row in rows
    ]
    image = tf.stack(pixels, axis=2)
    return tf.reshape(image, [-1, 2 * height, 2 * width, channels])
