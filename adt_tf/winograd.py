"""Fewer multiplications in 3x3 convolutions, where only images are climbed.

    with winograd.convolutions(classifier):
        logits = classifier(x, training=False)   # traced with the fast form

An inner problem runs one classifier on the same weights again and again, and
wants gradients of its input alone. Then a 3x3 convolution may be done in the
minimal way of Winograd, F(2x2, 3x3),

    y = A' [(G w G') * (B' x B)] A

on tiles of 4x4 pixels, with 16 products in place of 36 for each 2x2 outputs.
G w G' is made once for all steps, and its turned and transposed twin serves
the way back. The error is of the order of float32's rounding, as that of the
direct form is. Wide layers gain, narrow ones lose more in the transforms than
they save, so only those with many channels are changed. For CPUs: libraries
on accelerators choose by themselves.

Reference: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
2016.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

#: Fewest channels, in and out, at which it is measured to pay.
MIN_CHANNELS = 128

# Rows of B' and A', each as {index: coefficient}.
_INPUT_ROWS = ({0: 1, 2: -1}, {1: 1, 2: 1}, {1: -1, 2: 1}, {1: 1, 3: -1})
_OUTPUT_ROWS = ({0: 1, 1: 1, 2: 1}, {1: 1, 2: -1, 3: -1})
_KERNEL_ROWS = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))


@contextlib.contextmanager
def convolutions(classifier: Any) -> Iterator[None]:
    """Replaces the wide convolutions of a model inside the block.

    The kernels are transformed where the block begins; outside a loop that is
    traced in it, therefore, and once for all its steps. No gradient of the
    kernels passes. The model is as it was when the block ends.
    """
    changed = []
    try:
        for layer in wide_convolutions(classifier):
            layer.call = _fast_call(layer.kernel)
            changed.append(layer)
        yield
    finally:
        for layer in changed:
            del layer.call


def wide_convolutions(model: Any) -> list[keras.layers.Conv2D]:
    """Returns the layers, of models inside it too, that the fast form suits."""
    found = []
    for layer in getattr(model, "layers", []):
        if isinstance(layer, keras.Model):
            found += wide_convolutions(layer)
        elif type(layer) is keras.layers.Conv2D and _is_wide(layer):
            found.append(layer)
    # A layer that is used twice is there twice.
    return list({id(layer): layer for layer in found}.values())


def _is_wide(layer: keras.layers.Conv2D) -> bool:
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
        and min(layer.kernel.shape[2:]) >= MIN_CHANNELS
    )


def _fast_call(kernel: Any):
    kernel = tf.stop_gradient(tf.convert_to_tensor(kernel))
    forward = transformed(kernel)
    # The way back is the convolution with the kernel turned by half a turn,
    # its channels exchanged.
    turned = tf.transpose(kernel[::-1, ::-1], [0, 1, 3, 2])
    backward = transformed(turned)

    @tf.custom_gradient
    def fast(x):
        return convolve(x, forward), lambda dy: convolve(dy, backward)

    def call(inputs):
        _, height, width, _ = inputs.shape
        if height is None or width is None or height % 2 or width % 2:
            return tf.nn.conv2d(inputs, kernel, 1, "SAME")
        return fast(inputs)

    return call


def transformed(kernel: tf.Tensor) -> list[tf.Tensor]:
    """Returns G w G' of a kernel [3, 3, C, D]: 16 matrices [C, D]."""
    rows = tf.constant(_KERNEL_ROWS)
    channels = kernel.shape[2:]
    both = tf.einsum("ip,jq->ijpq", rows, rows)
    flat = tf.matmul(tf.reshape(both, [16, 9]), tf.reshape(kernel, [9, -1]))
    return tf.unstack(tf.reshape(flat, [16, *channels]))


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
