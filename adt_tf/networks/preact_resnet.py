"""ResNets with pre-activation for small images.

    classifier = preact_resnet18(num_classes=10)
    classifier = preact_resnet34(num_classes=10)
    logits = classifier(images, training=False)

ResNet-18 has a third of the weights of WRN-28-10, for quicker experiments.

Reference: He et al., "Identity Mappings in Deep Residual Networks", 2016.
"""

from collections.abc import Sequence

import keras

from adt_tf.networks.preactivation import (
    Stage,
    Variant,
    preactivation_network,
)


def preact_resnet18(
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
    variant: Variant | None = None,
) -> keras.Model:
    """Builds the ResNet-18 with pre-activation, without the initial pooling.

    A 3x3 convolution with 64 filters, four stages of two blocks with widths
    64, 128, 256 and 512 and strides 1, 2, 2 and 2, then batch normalisation,
    ReLU, global average pooling and a dense layer.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.
        variant: Details that others' weights need, or None.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.

    Example:

    >>> classifier = preact_resnet18()
    >>> classifier.get_layer("features").output.shape
    (None, 4, 4, 512)
    """
    return preactivation_network(
        input_shape,
        stem_filters=64,
        stages=_stages([2, 2, 2, 2]),
        num_classes=num_classes,
        seed=seed,
        name="preact_resnet18",
        variant=variant,
    )


def preact_resnet34(
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
    variant: Variant | None = None,
) -> keras.Model:
    """Builds the ResNet-34: the same with 3, 4, 6 and 3 blocks in a stage.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.
        variant: Details that others' weights need, or None.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.
    """
    return preactivation_network(
        input_shape,
        stem_filters=64,
        stages=_stages([3, 4, 6, 3]),
        num_classes=num_classes,
        seed=seed,
        name="preact_resnet34",
        variant=variant,
    )


def _stages(num_blocks: Sequence[int]) -> list[Stage]:
    widths_and_strides = [(64, 1), (128, 2), (256, 2), (512, 2)]
    return [
        Stage(filters, blocks, strides)
        for blocks, (filters, strides) in zip(
            num_blocks, widths_and_strides, strict=True
        )
    ]
