"""The variational posterior q(z | delta) of ADT-IMP-AM.

    q = posterior((32, 32, 3))
    mean, raw_variance = tf.split(q(delta / epsilon), 2, axis=-1)
    distribution = tfp.distributions.Normal(
        mean, tf.sqrt(tf.nn.softplus(raw_variance))
    )
    log_q = distribution.log_prob(z)

The entropy of an implicit distribution has no closed form. q predicts the
latent vector z from the perturbation delta that the generator made of it, and
so bounds the entropy from below: a better prediction means that delta contains
more of z.

Reference: Dong et al., "Adversarial Distributional Training for Robust Deep
Learning", 2020, Table 8. The paper does not give the slope of the LeakyReLU
and the initial weights; these follow its authors' released code.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras

from adt_tf import precision
from adt_tf.checks import arguments
from adt_tf.networks.initializers import Initializers
from adt_tf.networks.layers import batch_normalization


class _Convolution(NamedTuple):
    filters: int
    kernel_size: int
    strides: int


_CONVOLUTIONS = (
    _Convolution(32, 5, 1),
    _Convolution(64, 4, 2),
    _Convolution(128, 4, 1),
    _Convolution(256, 4, 2),
)


def posterior(
    input_shape: Sequence[int],
    *,
    latent_size: int = 64,
    width_factor: float = 1.0,
    seed: int = 0,
) -> keras.Model:
    """Builds the network of a Gaussian over z given a perturbation.

    Four unpadded convolutions (32x5x5, 64x4x4 with stride 2, 128x4x4, 256x4x4
    with stride 2), each with batch normalisation and LeakyReLU(0.01), then
    global average pooling and a dense layer. For images with a side below 20
    pixels, which are too small for them, the convolutions are padded. Their
    initial weights are N(0, sqrt(2 / (K * K * C_out))).

    Args:
        input_shape: Shape of a perturbation, `(height, width, channels)`.
        latent_size: Size of the latent vector z.
        width_factor: Factor of the convolutions' widths.
        seed: Seed of all weights: the same seed gives the same weights.

    Returns:
        A model from perturbations, divided by epsilon, to
        `[batch, 2 * latent_size]`: the means of z, then the raw variances. The
        variance is the softplus of the raw variance.

    Example:

    >>> q = posterior((32, 32, 3), latent_size=64, width_factor=1 / 16)
    >>> q.output_shape
    (None, 128)
    """
    input_shape = arguments.image_shape(input_shape)
    latent_size = arguments.integer_at_least(1, latent_size=latent_size)
    initializers = Initializers(seed, "posterior")
    padding = "valid" if _fits_unpadded(min(input_shape[:2])) else "same"

    perturbations = keras.Input(input_shape, name="perturbations")
    x = perturbations
    for index, layer in enumerate(_CONVOLUTIONS, start=1):
        x = keras.layers.Conv2D(
            arguments.scaled_width(layer.filters, width_factor),
            layer.kernel_size,
            strides=layer.strides,
            padding=padding,
            use_bias=False,
            kernel_initializer=initializers.fan_out_normal(),
            dtype=precision.full() if index == 1 else None,
            name=f"convolution{index}",
        )(x)
        x = batch_normalization(f"normalization{index}")(x)
        x = keras.layers.LeakyReLU(0.01, name=f"leaky_relu{index}")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
    outputs = keras.layers.Dense(
        2 * latent_size,
        kernel_initializer=initializers.linear(),
        dtype=precision.full(),
        name="mean_and_raw_variance",
    )(x)
    return keras.Model(perturbations, outputs, name="posterior")


def _fits_unpadded(size: int) -> bool:
    """Returns whether unpadded convolutions fit a side of `size` pixels."""
    for layer in _CONVOLUTIONS:
        if size < layer.kernel_size:
            return False
        size = (size - layer.kernel_size) // layer.strides + 1
    return True
