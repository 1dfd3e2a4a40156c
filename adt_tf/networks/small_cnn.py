"""A small convolutional classifier for small images on a laptop.

    classifier = small_cnn(input_shape=(8, 8, 1), num_classes=10)
    logits = classifier(images, training=False)

On the 8x8 digits of scikit-learn it trains in seconds on a CPU.
"""

from collections.abc import Sequence

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks import layers
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import (
    batch_normalization,
    classifier_head,
    convolution,
)


def small_cnn(
    *,
    input_shape: Sequence[int] = (32, 32, 3),
    num_classes: int = 10,
    width: int = 32,
    seed: int = 0,
    activation: str = "relu",
) -> keras.Model:
    """Builds a classifier of three convolutions.

    Convolutions 3x3 with `width`, `2 * width` and `4 * width` filters and
    strides 1, 2 and 2, each with batch normalisation and an activation, then
    global average pooling and a dense layer.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        width: Number of filters of the first convolution.
        seed: Seed of all weights: the same seed gives the same weights.
        activation: Activation between the layers, by Keras' name.

    Returns:
        A model from images to logits. The feature map before pooling is the
        output of its layer `"features"`.

    Example:

    >>> classifier = small_cnn(input_shape=(8, 8, 1), num_classes=10)
    >>> classifier.get_layer("features").output.shape
    (None, 2, 2, 128)
    """
    num_classes = arguments.integer_at_least(2, num_classes=num_classes)
    width = arguments.integer_at_least(1, width=width)
    initializers = Initializers(seed)

    images = keras.Input(arguments.image_shape(input_shape), name="images")
    x = images
    for filters, strides, layer_name in [
        (width, 1, "relu1"),
        (2 * width, 2, "relu2"),
        (4 * width, 2, "features"),
    ]:
        x = convolution(
            x,
            filters,
            3,
            strides=strides,
            kernel_initializer=initializers.fan_out_normal(),
            dtype=precision.full() if x is images else None,
            name=f"{layer_name}_convolution",
        )
        x = batch_normalization(f"{layer_name}_normalization")(x)
        x = layers.activation(activation, layer_name)(x)
    logits = classifier_head(x, num_classes, initializers)
    return keras.Model(images, logits, name="small_cnn")
