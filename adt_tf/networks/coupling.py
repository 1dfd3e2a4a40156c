"""The networks of a flow's coupling layers."""

from collections.abc import Sequence

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import convolution


def coupling(
    input_shape: Sequence[int],
    *,
    width_factor: float = 1.0,
    seed: int = 0,
) -> keras.Model:
    """Builds the network of one coupling layer of a flow.

    Its last convolution is initialised with 0, so that the coupling layer is
    the identity at first.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        width_factor: Factor of the width 64.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model from `[batch, height, width, 4 * C]`, one half of a sample
        (with zeros in the other half) and the conditioning, to C channels of
        shifts and C channels of log-scales.

    Example:

    >>> network = coupling((8, 8, 1), width_factor=1 / 8)
    >>> network.input_shape, network.output_shape
    ((None, 8, 8, 4), (None, 8, 8, 2))
    """
    height, width, channels = arguments.image_shape(input_shape)
    filters = arguments.scaled_width(64, width_factor)
    initializers = Initializers(seed, "coupling")
    inputs = keras.Input((height, width, 4 * channels), name="half")
    x = inputs
    for index in (1, 2):
        x = convolution(
            x,
            filters,
            3,
            kernel_initializer=initializers.small_normal(),
            dtype=precision.full() if index == 1 else None,
            name=f"convolution{index}",
        )
        x = keras.layers.ReLU(name=f"relu{index}")(x)
    outputs = convolution(
        x,
        2 * channels,
        3,
        kernel_initializer="zeros",
        dtype=precision.full(),
        name="head",
    )
    return keras.Model(inputs, outputs, name="coupling")
