"""Wide residual networks, the classifiers of the ADT paper.

    classifier = wide_resnet(28, 10)                     # Tables 1 to 4
    classifier = wide_resnet(34, 10)                     # Tables 5 and 6
    classifier = wide_resnet(28, 10, num_classes=100)    # CIFAR-100
    logits = classifier(images, training=False)

Reference: Zagoruyko and Komodakis, "Wide Residual Networks", 2016.
"""

from collections.abc import Sequence

import keras

from adt_tf.checks import arguments
from adt_tf.networks.preactivation import (
    Stage,
    Variant,
    preactivation_network,
)


def wide_resnet(
    depth: int,
    widen_factor: int,
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
    variant: Variant | None = None,
) -> keras.Model:
    """Builds the wide residual network WRN-depth-widen_factor.

    A 3x3 convolution with 16 filters, three stages of (depth - 4) / 6 blocks
    with pre-activation, widths 16k, 32k and 64k for widen factor k and strides
    1, 2 and 2, then batch normalisation, ReLU, global average pooling and a
    dense layer. Strided convolutions are padded by one pixel on each side, so
    that weights trained in PyTorch fit.

    Args:
        depth: Number of convolutions on the longest path, 6n + 4.
        widen_factor: Factor of the widths, at least 1.
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.
        variant: Details that weights of others need, or None.

    Returns:
        A model named `"wrn-<depth>-<widen_factor>"` from images to logits. The
        feature map before pooling is the output of its layer `"features"`.

    Example:

    >>> classifier = wide_resnet(10, 1)
    >>> classifier.name, classifier.output_shape, classifier.count_params()
    ('wrn-10-1', (None, 10), 78330)
    """
    num_blocks = blocks_per_stage(depth)
    widen_factor = arguments.integer_at_least(1, widen_factor=widen_factor)
    return preactivation_network(
        input_shape,
        stem_filters=16,
        stages=[
            Stage(16 * widen_factor, num_blocks, strides=1),
            Stage(32 * widen_factor, num_blocks, strides=2),
            Stage(64 * widen_factor, num_blocks, strides=2),
        ],
        num_classes=num_classes,
        seed=seed,
        name=f"wrn-{depth}-{widen_factor}",
        variant=variant,
    )


def blocks_per_stage(depth: int, *, depth_of_ends: int = 4) -> int:
    """Returns the number of blocks in each of three stages.

    Args:
        depth: Depth of the network.
        depth_of_ends: Depth that is not in a block of two convolutions.

    Example:

    >>> blocks_per_stage(28)
    4
    """
    depth = arguments.integer_at_least(6 + depth_of_ends, depth=depth)
    num_blocks, remainder = divmod(depth - depth_of_ends, 6)
    if remainder:
        examples = [6 * n + depth_of_ends for n in range(1, 6)]
        raise arguments.error(
            f"be 6n + {depth_of_ends} with n blocks in a stage "
            f"({', '.join(map(str, examples))}, ...)",
            depth=depth,
        )
    return num_blocks
