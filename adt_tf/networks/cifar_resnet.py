"""ResNets for small images, with the activation after the sum.

    classifier = resnet(18, num_classes=10)
    logits = classifier(images, training=False)

These are He et al.'s networks in their usual form for CIFAR: the first
convolution is 3x3 with stride 1, and no pooling follows it. A block computes

    y = relu(bn2(W2 * relu(bn1(W1 * x))) + shortcut(x))

where the shortcut is x itself, or a 1x1 convolution with batch normalisation if
the block changes the width or the size. In ResNet-50 the convolutions of a
block are 1x1, 3x3 and 1x1, the last one four times as wide.

Reference: He et al., "Deep Residual Learning for Image Recognition", 2015.
"""

from collections.abc import Sequence
from typing import Any

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks import layers
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import (
    batch_normalization,
    convolution,
    normalized,
)

_NUM_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


def resnet(
    depth: int,
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    width: int = 64,
    seed: int = 0,
    normalization: tuple[Sequence[float], Sequence[float]] | None = None,
    activation: str = "relu",
) -> keras.Model:
    """Builds the ResNet of the given depth.

    Args:
        depth: 18, 34 or 50.
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        width: Width of the first stage; each later stage is twice as wide.
        seed: Seed of all weights: the same seed gives the same weights.
        normalization: Mean and standard deviation of each channel, with which
            the model normalises the images, or None.
        activation: Activation between the layers, by Keras' name.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.

    Example:

    >>> resnet(18, width=4).get_layer("features").output.shape
    (None, 4, 4, 32)
    """
    arguments.one_of(_NUM_BLOCKS, depth=depth)
    num_classes = arguments.integer_at_least(2, num_classes=num_classes)
    width = arguments.integer_at_least(1, width=width)
    initializers = Initializers(seed)

    images = keras.Input(arguments.image_shape(input_shape), name="images")
    x = _normalized_convolution(
        normalized(images, normalization),
        width,
        3,
        initializers=initializers,
        name="stem",
        dtype=precision.full(),
    )
    x = layers.activation(activation, "stem_relu")(x)
    for stage, num_blocks in enumerate(_NUM_BLOCKS[depth]):
        for block in range(num_blocks):
            last = stage == 3 and block == num_blocks - 1
            x = _block(
                x,
                width * 2**stage,
                strides=2 if stage and not block else 1,
                bottleneck=depth == 50,
                initializers=initializers,
                name=f"stage{stage + 1}_block{block + 1}",
                activation=activation,
                output_name="features" if last else None,
            )
    x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
    logits = keras.layers.Dense(
        num_classes,
        kernel_initializer=initializers.linear(),
        dtype=precision.full(),
        name="logits",
    )(x)
    return keras.Model(images, logits, name=f"resnet{depth}")


def _block(
    x: keras.KerasTensor,
    filters: int,
    *,
    strides: int,
    bottleneck: bool,
    initializers: Initializers,
    name: str,
    activation: str,
    output_name: str | None,
) -> keras.KerasTensor:
    """Applies a block; `filters` is the width of its 3x3 convolutions."""
    convolutions = [(filters, 3, strides), (filters, 3, 1)]
    if bottleneck:
        convolutions = [(filters, 1, 1), (filters, 3, strides)]
        convolutions.append((4 * filters, 1, 1))
    residual = x
    for index, (width, size, step) in enumerate(convolutions, start=1):
        if index > 1:
            name_of_relu = f"{name}_relu{index - 1}"
            residual = layers.activation(activation, name_of_relu)(residual)
        residual = _normalized_convolution(
            residual,
            width,
            size,
            strides=step,
            initializers=initializers,
            name=f"{name}_convolution{index}",
        )
    width = convolutions[-1][0]
    shortcut = x
    if strides != 1 or x.shape[-1] != width:
        shortcut = _normalized_convolution(
            x,
            width,
            1,
            strides=strides,
            initializers=initializers,
            name=f"{name}_shortcut",
        )
    x = keras.layers.Add(name=f"{name}_sum")([shortcut, residual])
    return layers.activation(activation, output_name or f"{name}_relu")(x)


def _normalized_convolution(
    x: keras.KerasTensor,
    filters: int,
    size: int,
    *,
    initializers: Initializers,
    name: str,
    **kwargs: Any,
) -> keras.KerasTensor:
    x = convolution(
        x,
        filters,
        size,
        kernel_initializer=initializers.fan_out_normal(),
        name=name,
        **kwargs,
    )
    return batch_normalization(f"{name}_normalization")(x)
