"""The wide residual network of Madry et al.'s CIFAR-10 challenge.

    classifier = madry_wide_resnet(32, 10)
    logits = classifier(images, training=False)

Its released weights need these details, in which it differs from
`wide_resnet`:

- each image is standardised: (x - mean) / max(deviation, 1 / sqrt(N)) over the
  N numbers of the image, with pixels from 0 to 255;
- the activation is a leaky ReLU of slope 0.1, and the epsilon of batch
  normalisation is 1e-3;
- a convolution of stride 2 is padded below and to the right only;
- a shortcut has no weights. It averages 2x2 pixels and adds channels of zeros
  on both sides. In the first block it takes the activated input, in the others
  the input itself.

Reference: Madry et al., "Towards Deep Learning Models Resistant to Adversarial
Attacks", 2018.
"""

import math
from collections.abc import Sequence

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import (
    batch_normalization,
    classifier_head,
    convolution,
)
from adt_tf.networks.wide_resnet import blocks_per_stage


def madry_wide_resnet(
    depth: int,
    widen_factor: int,
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
) -> keras.Model:
    """Builds the network, of three stages with (depth - 2) / 6 blocks each.

    Args:
        depth: Number of layers with weights on the longest path, 6n + 2.
        widen_factor: Factor of the widths 16, 32 and 64, at least 1.
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model named `"madry-wrn-<depth>-<widen_factor>"` from images in
        [0, 1] to logits. The feature map before pooling is the output of its
        layer `"features"`.

    Example:

    >>> classifier = madry_wide_resnet(8, 1)
    >>> classifier.name, classifier.output_shape, classifier.count_params()
    ('madry-wrn-8-1', (None, 10), 75770)
    """
    num_blocks = blocks_per_stage(depth, depth_of_ends=2)
    widen_factor = arguments.integer_at_least(1, widen_factor=widen_factor)
    num_classes = arguments.integer_at_least(2, num_classes=num_classes)
    initializers = Initializers(seed)

    images = keras.Input(arguments.image_shape(input_shape), name="images")
    x = convolution(
        _standardize(images),
        16,
        3,
        kernel_initializer=initializers.fan_out_normal(),
        dtype=precision.full(),
        name="stem",
    )
    for stage in (1, 2, 3):
        for block in range(1, num_blocks + 1):
            x = _block(
                x,
                8 * 2**stage * widen_factor,
                strides=2 if stage > 1 and block == 1 else 1,
                activated_shortcut=stage == block == 1,
                initializers=initializers,
                name=f"stage{stage}_block{block}",
            )
    x = _normalize_and_activate(x, "normalization", "features")
    logits = classifier_head(x, num_classes, initializers)
    name = f"madry-wrn-{depth}-{widen_factor}"
    return keras.Model(images, logits, name=name)


def _standardize(images: keras.KerasTensor) -> keras.KerasTensor:
    """Applies tf.image.per_image_standardization to pixels from 0 to 255."""
    axes = (1, 2, 3)
    pixels = keras.layers.Rescaling(255.0, dtype=precision.full())(images)
    centered = pixels - keras.ops.mean(pixels, axes, keepdims=True)
    variance = keras.ops.mean(keras.ops.square(centered), axes, keepdims=True)
    # The bound is inside the root, whose gradient at 0 is not finite.
    bounded = keras.ops.maximum(variance, 1.0 / math.prod(images.shape[1:]))
    return centered / keras.ops.sqrt(bounded)


def _block(
    x: keras.KerasTensor,
    filters: int,
    *,
    strides: int,
    activated_shortcut: bool,
    initializers: Initializers,
    name: str,
) -> keras.KerasTensor:
    activated = _normalize_and_activate(
        x, f"{name}_normalization1", f"{name}_relu1"
    )
    shortcut = activated if activated_shortcut else x
    if strides > 1:
        pool = keras.layers.AveragePooling2D(strides, name=f"{name}_pooling")
        shortcut = pool(shortcut)
    if x.shape[-1] != filters:
        zeros = (filters - x.shape[-1]) // 2
        shortcut = keras.ops.pad(
            shortcut, [[0, 0], [0, 0], [0, 0], [zeros, zeros]]
        )
    residual = convolution(
        activated,
        filters,
        3,
        strides=strides,
        padding="end",
        kernel_initializer=initializers.fan_out_normal(),
        name=f"{name}_convolution1",
    )
    residual = convolution(
        _normalize_and_activate(
            residual, f"{name}_normalization2", f"{name}_relu2"
        ),
        filters,
        3,
        kernel_initializer=initializers.fan_out_normal(),
        name=f"{name}_convolution2",
    )
    return keras.layers.Add(name=f"{name}_sum")([shortcut, residual])


def _normalize_and_activate(
    x: keras.KerasTensor, normalization: str, activation: str
) -> keras.KerasTensor:
    x = batch_normalization(normalization, epsilon=1e-3)(x)
    return keras.layers.LeakyReLU(negative_slope=0.1, name=activation)(x)
