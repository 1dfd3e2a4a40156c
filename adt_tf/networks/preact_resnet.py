"""ResNet-18 with pre-activation for small images.

    classifier = preact_resnet18(num_classes=10)
    logits = classifier(images, training=False)

A third of the weights of WRN-28-10, for quicker experiments.

Reference: He et al., "Identity Mappings in Deep Residual Networks", 2016.
"""

from collections.abc import Sequence

import keras

from adt_tf.networks.preactivation import Stage, preactivation_network


def preact_resnet18(
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    seed: int = 0,
) -> keras.Model:
    """Builds the ResNet-18 with pre-activation, without the initial pooling.

    A 3x3 convolution with 64 filters, four stages of two blocks with widths
    64, 128, 256 and 512 and strides 1, 2, 2 and 2, then batch normalisation,
    ReLU, global average pooling and a dense layer.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.

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
        stages=[
            Stage(64, num_blocks=2, strides=1),
            Stage(128, num_blocks=2, strides=2),
            Stage(256, num_blocks=2, strides=2),
            Stage(512, num_blocks=2, strides=2),
        ],
        num_classes=num_classes,
        seed=seed,
        name="preact_resnet18",
    )
