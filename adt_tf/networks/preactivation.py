"""Residual networks with pre-activation.

    preactivation_network(
        (32, 32, 3),
        stem_filters=16,
        stages=[Stage(160, 4, 1), Stage(320, 4, 2), Stage(640, 4, 2)],
        num_classes=10,
        seed=0,
        name="wrn-28-10",
    )

`wide_resnet` and `preact_resnet` use it. A network is a 3x3 convolution, stages
of blocks, batch normalisation, ReLU, global average pooling and a dense layer.
A `Variant` changes the details that weights of others need. A block with
weights W1, W2 computes

    a = relu(bn1(x))
    y = W2 * relu(bn2(W1 * a)) + shortcut

where the shortcut is x itself, or a 1x1 convolution of the *activated* input a
if the block changes the width or the size.

Reference: He et al., "Identity Mappings in Deep Residual Networks", 2016.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import (
    activation,
    batch_normalization,
    classifier_head,
    convolution,
    normalized,
)


class Stage(NamedTuple):
    """A sequence of blocks of one width.

    Args:
        filters: Width of all blocks.
        num_blocks: Number of blocks.
        strides: Stride of the first block; the others have stride 1.

    Example:

    >>> Stage(filters=160, num_blocks=4, strides=1).filters
    160
    """

    filters: int
    num_blocks: int
    strides: int


class Variant(NamedTuple):
    """Details in which implementations of one network differ.

    Args:
        activation: Activation between the layers, by Keras' name.
        padding: Padding of convolutions with a stride, `"both"` or `"end"`:
            see `convolution`.
        raw_shortcut: Whether a shortcut convolves the block's input x instead
            of the activated input a.
        shortcut_size: Side of the shortcuts' kernels.
        final_normalization: Whether batch normalisation and the activation
            come before the pooling.
        use_bias: Whether the dense layer has a bias.
        normalization: Mean and standard deviation of each channel, with which
            the model normalises the images, or None.

    Example:

    >>> Variant(activation="silu", padding="end").shortcut_size
    1
    """

    activation: str = "relu"
    padding: str = "both"
    raw_shortcut: bool = False
    shortcut_size: int = 1
    final_normalization: bool = True
    use_bias: bool = True
    normalization: tuple[Sequence[float], Sequence[float]] | None = None


def preactivation_network(
    input_shape: Sequence[int],
    *,
    stem_filters: int,
    stages: Sequence[Stage],
    num_classes: int,
    seed: int,
    name: str,
    variant: Variant | None = None,
) -> keras.Model:
    """Builds a residual classifier with pre-activation.

    Convolutions have no bias. Their initial weights are
    N(0, sqrt(2 / (K * K * C_out))); those of the dense layer are U(-a, a),
    a = 1 / sqrt(fan_in), with bias 0.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        stem_filters: Width of the first convolution.
        stages: The stages in order.
        num_classes: Number of logits.
        seed: Seed of all weights.
        name: Name of the model.
        variant: Details that differ from He et al.'s, or None.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.

    Example:

    >>> classifier = preactivation_network(
    ...     (8, 8, 1),
    ...     stem_filters=4,
    ...     stages=[Stage(4, 1, 1), Stage(8, 1, 2)],
    ...     num_classes=10,
    ...     seed=0,
    ...     name="tiny",
    ... )
    >>> classifier.get_layer("features").output.shape
    (None, 4, 4, 8)
    """
    num_classes = arguments.integer_at_least(2, num_classes=num_classes)
    initializers = Initializers(seed)
    variant = variant or Variant()

    images = keras.Input(arguments.image_shape(input_shape), name="images")
    x = convolution(
        normalized(images, variant.normalization),
        stem_filters,
        3,
        kernel_initializer=initializers.fan_out_normal(),
        dtype=precision.full(),
        name="stem",
    )
    for stage_index, stage in enumerate(stages, start=1):
        for block_index in range(1, stage.num_blocks + 1):
            x = preactivation_block(
                x,
                stage.filters,
                strides=stage.strides if block_index == 1 else 1,
                initializers=initializers,
                name=f"stage{stage_index}_block{block_index}",
                variant=variant,
            )
    if variant.final_normalization:
        x = batch_normalization("normalization")(x)
        x = activation(variant.activation, "features")(x)
    logits = classifier_head(
        x, num_classes, initializers, use_bias=variant.use_bias
    )
    return keras.Model(images, logits, name=name)


def preactivation_block(
    x: keras.KerasTensor,
    filters: int,
    *,
    strides: int,
    initializers: Initializers,
    name: str,
    variant: Variant | None = None,
) -> keras.KerasTensor:
    """Applies one residual block with pre-activation.

    Args:
        x: Feature map `[batch, height, width, channels]`.
        filters: Number of output channels.
        strides: Stride of the first convolution and of the shortcut.
        initializers: Initialisers of the network.
        name: Prefix of the layers' names.
        variant: Details that differ from He et al.'s, or None.

    Returns:
        Feature map with `filters` channels.

    Example:

    >>> x = keras.Input((8, 8, 4))
    >>> preactivation_block(
    ...     x, 6, strides=2, initializers=Initializers(0), name="block"
    ... ).shape
    (None, 4, 4, 6)
    """
    variant = variant or Variant()
    activate = variant.activation
    activated = batch_normalization(f"{name}_normalization1")(x)
    activated = activation(activate, f"{name}_{activate}1")(activated)

    shortcut = x
    if strides != 1 or x.shape[-1] != filters:
        shortcut = convolution(
            x if variant.raw_shortcut else activated,
            filters,
            variant.shortcut_size,
            strides=strides,
            padding=variant.padding,
            kernel_initializer=initializers.fan_out_normal(),
            name=f"{name}_shortcut",
        )

    residual = convolution(
        activated,
        filters,
        3,
        strides=strides,
        padding=variant.padding,
        kernel_initializer=initializers.fan_out_normal(),
        name=f"{name}_convolution1",
    )
    residual = batch_normalization(f"{name}_normalization2")(residual)
    residual = activation(activate, f"{name}_{activate}2")(residual)
    residual = convolution(
        residual,
        filters,
        3,
        kernel_initializer=initializers.fan_out_normal(),
        name=f"{name}_convolution2",
    )
    return keras.layers.Add(name=f"{name}_sum")([shortcut, residual])
