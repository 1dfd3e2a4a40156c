"""ResNets with pre-activation for small images.

    classifier = preact_resnet18()
    classifier = preact_resnet34(num_classes=100)
    logits = classifier(images, training=False)

Reference: He et al., "Identity Mappings in Deep Residual Networks", 2016.
"""

from collections.abc import Sequence
from typing import Any

import keras

from adt_tf.checks import arguments
from adt_tf.networks.preactivation import (
    Stage,
    Variant,
    preactivation_network,
)

_NUM_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
_WIDTHS_AND_STRIDES = ((64, 1), (128, 2), (256, 2), (512, 2))


def preact_resnet(
    depth: int,
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
    variant: Variant | None = None,
) -> keras.Model:
    """Builds a ResNet with pre-activation, without the initial pooling.

    A 3x3 convolution with 64 filters, four stages of blocks with widths 64,
    128, 256 and 512 and strides 1, 2, 2 and 2, then batch normalisation, ReLU,
    global average pooling and a dense layer. Depth 18 has 2 blocks in each
    stage; depth 34 has 3, 4, 6 and 3.

    Args:
        depth: 18 or 34.
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.
        variant: Details that weights of others need, or None.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.

    Example:

    >>> classifier = preact_resnet(18)
    >>> classifier.get_layer("features").output.shape
    (None, 4, 4, 512)
    """
    arguments.one_of(_NUM_BLOCKS, depth=depth)
    return preactivation_network(
        input_shape,
        stem_filters=64,
        stages=[
            Stage(filters, num_blocks, strides)
            for num_blocks, (filters, strides) in zip(
                _NUM_BLOCKS[depth], _WIDTHS_AND_STRIDES, strict=True
            )
        ],
        num_classes=num_classes,
        seed=seed,
        name=f"preact_resnet{depth}",
        variant=variant,
    )


def preact_resnet18(**kwargs: Any) -> keras.Model:
    """Builds the ResNet-18 with pre-activation.

    Args:
        **kwargs: Arguments of `preact_resnet`, without the depth.
    """
    return preact_resnet(18, **kwargs)


def preact_resnet34(**kwargs: Any) -> keras.Model:
    """Builds the ResNet-34 with pre-activation.

    Args:
        **kwargs: Arguments of `preact_resnet`, without the depth.
    """
    return preact_resnet(34, **kwargs)
