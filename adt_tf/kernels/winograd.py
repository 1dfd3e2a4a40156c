"""Fewer multiplications in 3x3 convolutions, on CPUs.

    with winograd.convolutions(classifier):
        logits = twins.fast(classifier)(x, training=False)

A 3x3 convolution may be done in the minimal way of Winograd, F(2x2, 3x3),

    y = A' [(G w G') * (B' x B)] A

on tiles of 4x4 pixels, with 16 products in place of 36 for each 2x2 outputs.
The turned and transposed twin of w serves the way back to x, and

    dw = G' [(B' x B)' (A dy A')] G,

summed over the tiles, the way back to w. An inner problem runs one classifier
on the same weights again and again and wants gradients of its input alone:
then G w G' is made once for all steps. The error is of the order of float32's
rounding, as that of the direct form is. Wide layers gain, narrow ones lose
more in the transforms than they save, so only those with many channels are
changed. Libraries on accelerators choose by themselves.

Reference: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
2016.
"""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import tensorflow as tf

from adt_tf.kernels import twins

#: Fewest channels, in and out, at which it is measured to pay: of y and dx,
MIN_CHANNELS = 128
#: and of dw alone, which gains most.
MIN_TRAINED_CHANNELS = 64

# Rows of B', A' and A, each as {index: coefficient}.
_INPUT_ROWS = ({0: 1, 2: -1}, {1: 1, 2: 1}, {1: -1, 2: 1}, {1: 1, 3: -1})
_OUTPUT_ROWS = ({0: 1, 1: 1, 2: 1}, {1: 1, 2: -1, 3: -1})
_SLOPE_ROWS = ({0: 1}, {0: 1, 1: 1}, {0: 1, 1: -1}, {1: -1})
_KERNEL_ROWS = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))


def pays() -> bool:
    """Says whether what is traced now should have the fast form."""
    traced = not tf.executing_eagerly()
    return traced and not tf.config.list_logical_devices("GPU")


def convolutions(
    *models: Any, trained: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Returns a block in which wide convolutions of models have a fast form.

    Only what calls `twins.fast(model)` there runs it; the models stay as they
    are.

    Args:
        *models: Keras models.
        trained: False transforms the kernels where this is called, outside a
            loop that is traced in it, therefore, and once for all its
            steps; no gradient of them passes. True transforms them in each
            call, and gradients pass.
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
    """Returns the layers, of models inside it too, that the fast form suits."""
    found = []
    for layer in getattr(model, "layers", []):
        if isinstance(layer, keras.Model):
            found += wide_convolutions(layer, fewest)
        elif type(layer) is keras.layers.Conv2D and _is_wide(layer, fewest):
            found.append(layer)
    # A layer that is used twice is there twice.
    return list({id(layer): layer for layer in found}.values())


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


def _fixed_call(layer: keras.layers.Conv2D):
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


def _trained_call(layer: keras.layers.Conv2D):
    wide = min(layer.kernel.shape[2:]) >= MIN_CHANNELS

    def convolution(x, kernel):
        if wide:
            return convolve(x, transformed(kernel))
        return tf.nn.conv2d(x, kernel, 1, "SAME")

    @tf.custom_gradient
    def tiled(x, kernel):
        def gradient(dy):
            # Not earlier than dy: the tiles are large.
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
    """The kernel of the way back: half a turn, its channels exchanged."""
    return tf.transpose(kernel[::-1, ::-1], [0, 1, 3, 2])


def transformed(kernel: tf.Tensor) -> list[tf.Tensor]:
    """Returns G w G' of a kernel [3, 3, C, D]: 16 matrices [C, D]."""
    flat = tf.matmul(_kernel_matrix(), tf.reshape(kernel, [9, -1]))
    return tf.unstack(tf.reshape(flat, [16, *kernel.shape[2:]]))


def _kernel_matrix() -> tf.Tensor:
    """Returns w -> G w G' as a matrix [16, 9]."""
    rows = tf.constant(_KERNEL_ROWS)
    return tf.reshape(tf.einsum("ip,jq->ijpq", rows, rows), [16, 9])


def kernel_gradient(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Returns the gradient [3, 3, C, D] of the kernel, that of y being dy."""
    products = [
        tf.matmul(tile, slope, transpose_a=True)
        for tile, slope in zip(_input_tiles(x), _slope_tiles(dy), strict=True)
    ]
    flat = tf.reshape(tf.stack(products), [16, -1])
    gradient = tf.matmul(_kernel_matrix(), flat, transpose_a=True)
    return tf.reshape(gradient, [3, 3, x.shape[-1], dy.shape[-1]])


def convolve(x: tf.Tensor, matrices: list[tf.Tensor]) -> tf.Tensor:
    """Returns the convolution, padded by one pixel, of x [n, H, W, C].

    H and W are even; `matrices` is what `transformed` makes of the kernel.
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


# XLA makes one pass of the many sums of shifted images, on a CPU too.
@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _input_tiles(x):
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
def _slope_tiles(dy):
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
def _output(products, height, width):
    """Returns A' m A of all tiles, put together to an image."""
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
