"""Plain convolutional networks for digits: TRADES' SmallCNN and LeNet-5.

    classifier = trades_small_cnn()
    classifier = lenet5()
    logits = classifier(images, training=False)

Both have convolutions with biases, ReLU and max pooling, then dense layers.

References: Zhang et al., "Theoretically Principled Trade-off between Robustness
and Accuracy", 2019; LeCun et al., "Gradient-Based Learning Applied to Document
Recognition", 1998.
"""

from collections.abc import Sequence

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import normalized

Normalization = tuple[Sequence[float], Sequence[float]]


def trades_small_cnn(
    *,
    input_shape: Sequence[int] = (28, 28, 1),
    num_classes: int = 10,
    seed: int = 0,
    normalization: Normalization | None = None,
    activation: str = "relu",
) -> keras.Model:
    """Builds the SmallCNN of TRADES, for MNIST.

    Two 3x3 convolutions with 32 filters, max pooling, two with 64, max
    pooling, all unpadded, and dense layers of 200, 200 and `num_classes`.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        seed: Seed of all weights: the same seed gives the same weights.
        normalization: Mean and standard deviation of each channel, or None.
        activation: Activation between the layers, by Keras' name.

    Example:

    >>> trades_small_cnn().get_layer("features").output.shape
    (None, 4, 4, 64)
    """
    return _plain_cnn(
        input_shape,
        convolutions=[[(32, 3), (32, 3)], [(64, 3), (64, 3)]],
        padding=0,
        units=[200, 200, num_classes],
        seed=seed,
        normalization=normalization,
        activation=activation,
        name="trades_small_cnn",
    )


def lenet5(
    *,
    input_shape: Sequence[int] = (28, 28, 1),
    num_classes: int = 10,
    filters: Sequence[int] = (6, 16),
    units: Sequence[int] = (120, 84),
    padding: int | None = None,
    seed: int = 0,
    normalization: Normalization | None = None,
    activation: str = "relu",
) -> keras.Model:
    """Builds LeNet-5 with ReLU and max pooling.

    ReLU and max pooling follow each 5x5 convolution. Only the first one may be
    padded.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_classes: Number of logits.
        filters: Numbers of filters of the two convolutions.
        units: Numbers of units of the dense layers before the last.
        padding: Padding of the first convolution. None pads images of 28x28
            by 2, to the 32x32 of the original network.
        seed: Seed of all weights: the same seed gives the same weights.
        normalization: Mean and standard deviation of each channel, or None.
        activation: Activation between the layers, by Keras' name.

    Example:

    >>> lenet5().get_layer("features").output.shape
    (None, 5, 5, 16)
    """
    if padding is None:
        padding = 2 if tuple(input_shape)[:2] == (28, 28) else 0
    return _plain_cnn(
        input_shape,
        convolutions=[[(number, 5)] for number in filters],
        padding=padding,
        units=[*units, num_classes],
        seed=seed,
        normalization=normalization,
        activation=activation,
        name="lenet5",
    )


def _plain_cnn(
    input_shape: Sequence[int],
    *,
    convolutions: Sequence[Sequence[tuple[int, int]]],
    padding: int,
    units: Sequence[int],
    seed: int,
    normalization: Normalization | None,
    activation: str,
    name: str,
) -> keras.Model:
    """Builds groups of convolutions (filters, size), each before a pooling."""
    units = [arguments.integer_at_least(1, units=number) for number in units]
    initializers = Initializers(seed)
    images = keras.Input(arguments.image_shape(input_shape), name="images")
    x = normalized(images, normalization)
    if padding:
        x = keras.layers.ZeroPadding2D(padding, name="padding")(x)
    index = 0
    for group, layers in enumerate(convolutions, start=1):
        for number, size in layers:
            index += 1
            x = keras.layers.Conv2D(
                number,
                size,
                activation=activation,
                kernel_initializer=initializers.fan_out_normal(),
                dtype=precision.full() if index == 1 else None,
                name=f"convolution{index}",
            )(x)
        last = group == len(convolutions)
        x = keras.layers.MaxPooling2D(
            2, name="features" if last else f"pooling{group}"
        )(x)
    x = keras.layers.Flatten(name="flatten")(x)
    for index, number in enumerate(units, start=1):
        last = index == len(units)
        x = keras.layers.Dense(
            number,
            activation=None if last else activation,
            kernel_initializer=initializers.linear(),
            dtype=precision.full() if last else None,
            name="logits" if last else f"dense{index}",
        )(x)
    return keras.Model(images, x, name=name)
