"""Generators of adversarial perturbations, one trunk with three heads.

    generator = explicit_generator((32, 32, 3))    # ADT-EXP-AM
    mean, rho = tf.split(generator(conditioning), 2, axis=-1)

    generator = implicit_generator((32, 32, 3))    # ADT-IMP-AM
    delta = epsilon * generator([conditioning, z])

    generator = point_generator((32, 32, 3))       # L2L
    delta = epsilon * generator(conditioning)

The conditioning is the image, the gradient of the loss at the image and the
gradient at its FGSM point, concatenated along the channels: for images of C
channels `[batch, height, width, 3 * C]`. All convolutions are 3x3 with stride
1, without bias. As in the authors' released code, the initial kernels of
convolutions and dense layers are N(0, 0.02), and the initial scales gamma of
batch normalisation are N(1, 0.02).

Reference: Dong et al., "Adversarial Distributional Training for Robust Deep
Learning", 2020, Appendix C.
"""

from collections.abc import Sequence

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import batch_normalization, convolution


def explicit_generator(
    input_shape: Sequence[int],
    *,
    num_maps: int = 2,
    width_factor: float = 1.0,
    seed: int = 0,
) -> keras.Model:
    """Builds the generator of an explicit distribution's parameters.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        num_maps: Number of parameters of each pixel value, M.
        width_factor: Factor of the widths 256 and 512 of the trunk.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model from the conditioning `[batch, height, width, 3 * C]` to
        `[batch, height, width, M * C]`. For a Gaussian these are C channels of
        means, then C channels of rho, the standard deviations before their
        softplus.

    Example:

    >>> generator = explicit_generator((8, 8, 1), width_factor=1 / 32)
    >>> generator.input_shape, generator.output_shape
    ((None, 8, 8, 3), (None, 8, 8, 2))
    """
    num_maps = arguments.integer_at_least(1, num_maps=num_maps)
    initializers = Initializers(seed, "generator")
    conditioning = _conditioning_input(input_shape)
    x = _trunk(conditioning, width_factor, initializers)
    outputs = _head(x, num_maps * input_shape[-1], initializers)
    return keras.Model(conditioning, outputs, name="explicit_generator")


def implicit_generator(
    input_shape: Sequence[int],
    *,
    latent_size: int = 64,
    width_factor: float = 1.0,
    seed: int = 0,
) -> keras.Model:
    """Builds the generator of samples of an implicit distribution.

    Two dense layers (256 and height * width units, ReLU) turn the latent
    vector into one more channel of the conditioning.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        latent_size: Size of the latent vector z.
        width_factor: Factor of the widths 256 and 512 of the trunk.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model from `[conditioning, z]`, of shapes
        `[batch, height, width, 3 * C]` and `[batch, latent_size]`, to
        `[batch, height, width, C]` in [-1, 1]. The caller multiplies it by
        epsilon.

    Example:

    >>> generator = implicit_generator((8, 8, 1), width_factor=1 / 32)
    >>> generator.input_shape, generator.output_shape
    ([(None, 8, 8, 3), (None, 64)], (None, 8, 8, 1))
    """
    latent_size = arguments.integer_at_least(1, latent_size=latent_size)
    initializers = Initializers(seed, "generator")
    conditioning = _conditioning_input(input_shape)
    height, width, _ = conditioning.shape[1:]

    z = keras.Input((latent_size,), name="latent")
    encoded = z
    for index, units in enumerate([256, height * width], start=1):
        encoded = keras.layers.Dense(
            units,
            activation="relu",
            kernel_initializer=initializers.small_normal(),
            dtype=precision.full(),
            name=f"latent_dense{index}",
        )(encoded)
    encoded = keras.layers.Reshape(
        (height, width, 1), dtype=precision.full(), name="latent_channel"
    )(encoded)
    x = keras.layers.Concatenate(
        dtype=precision.full(), name="conditioning_and_latent"
    )([conditioning, encoded])
    x = _trunk(x, width_factor, initializers)
    outputs = _squashed_head(x, input_shape[-1], initializers)
    return keras.Model([conditioning, z], outputs, name="implicit_generator")


def point_generator(
    input_shape: Sequence[int],
    *,
    width_factor: float = 1.0,
    seed: int = 0,
) -> keras.Model:
    """Builds the generator of one perturbation for an image, as in L2L.

    Args:
        input_shape: Shape of an image, `(height, width, channels)`.
        width_factor: Factor of the widths 256 and 512 of the trunk.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model from the conditioning `[batch, height, width, 3 * C]` to
        `[batch, height, width, C]` in [-1, 1]. The caller multiplies it by
        epsilon.

    Example:

    >>> generator = point_generator((8, 8, 1), width_factor=1 / 32)
    >>> generator.input_shape, generator.output_shape
    ((None, 8, 8, 3), (None, 8, 8, 1))
    """
    initializers = Initializers(seed, "generator")
    conditioning = _conditioning_input(input_shape)
    x = _trunk(conditioning, width_factor, initializers)
    outputs = _squashed_head(x, input_shape[-1], initializers)
    return keras.Model(conditioning, outputs, name="point_generator")


def _conditioning_input(input_shape: Sequence[int]) -> keras.KerasTensor:
    height, width, channels = arguments.image_shape(input_shape)
    return keras.Input((height, width, 3 * channels), name="conditioning")


def _trunk(
    x: keras.KerasTensor, width_factor: float, initializers: Initializers
) -> keras.KerasTensor:
    """Applies a convolution and the residual blocks."""
    narrow = arguments.scaled_width(256, width_factor)
    wide = arguments.scaled_width(512, width_factor)
    x = _normalized_convolution(
        x, narrow, 3, initializers, "stem", dtype=precision.full()
    )
    x = keras.layers.ReLU(name="stem_relu")(x)
    # The paper's table has 512 filters in all three blocks; its authors' code
    # has 256 in the last one.
    for index, filters in enumerate([wide, wide, narrow], start=1):
        x = _residual_block(x, filters, initializers, f"block{index}")
    return x


def _residual_block(
    x: keras.KerasTensor, filters: int, initializers: Initializers, name: str
) -> keras.KerasTensor:
    """Applies relu(bn(W2 * relu(bn(W1 * x))) + shortcut(x))."""
    residual = _normalized_convolution(
        x, filters, 3, initializers, f"{name}_convolution1"
    )
    residual = keras.layers.ReLU(name=f"{name}_convolution1_relu")(residual)
    residual = _normalized_convolution(
        residual, filters, 3, initializers, f"{name}_convolution2"
    )
    shortcut = x
    if x.shape[-1] != filters:
        shortcut = _normalized_convolution(
            x, filters, 1, initializers, f"{name}_shortcut"
        )
    x = keras.layers.Add(name=f"{name}_sum")([shortcut, residual])
    return keras.layers.ReLU(name=f"{name}_relu")(x)


def _normalized_convolution(
    x: keras.KerasTensor,
    filters: int,
    kernel_size: int,
    initializers: Initializers,
    name: str,
    *,
    dtype: str | None = None,
) -> keras.KerasTensor:
    x = convolution(
        x,
        filters,
        kernel_size,
        kernel_initializer=initializers.small_normal(),
        dtype=dtype,
        name=name,
    )
    return batch_normalization(
        f"{name}_normalization",
        gamma_initializer=initializers.small_normal(mean=1.0),
    )(x)


def _head(
    x: keras.KerasTensor, filters: int, initializers: Initializers
) -> keras.KerasTensor:
    return convolution(
        x,
        filters,
        3,
        kernel_initializer=initializers.small_normal(),
        dtype=precision.full(),
        name="head",
    )


def _squashed_head(
    x: keras.KerasTensor, filters: int, initializers: Initializers
) -> keras.KerasTensor:
    """Applies the head and a tanh."""
    return keras.layers.Activation("tanh", dtype=precision.full(), name="tanh")(
        _head(x, filters, initializers)
    )
