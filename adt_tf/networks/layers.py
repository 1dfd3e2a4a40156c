"""The layers that all networks share.

    x = normalized(images, ((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)))
    x = convolution(
        x, 64, 3, strides=2, kernel_initializer=..., name="convolution"
    )
    x = batch_normalization("normalization")(x)
    x = activation("relu", "relu")(x)
    logits = classifier_head(x, num_classes=10, initializers=...)

Convolution and normalisation follow PyTorch's conventions, so that its weights
fit.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from adt_tf import precision
from adt_tf.networks.initializers import Initializers


def convolution(
    x: keras.KerasTensor,
    filters: int,
    kernel_size: int,
    *,
    strides: int = 1,
    padding: str = "both",
    use_bias: bool = False,
    kernel_initializer: keras.initializers.Initializer,
    dtype: str | None = None,
    name: str,
) -> keras.KerasTensor:
    """Applies a convolution, padded by `kernel_size // 2`.

    The padding is the same on each side, as in PyTorch. With a stride, Keras'
    `"same"` would pad an even-sized image only below and to the right, which
    shifts the image by one pixel.

    Args:
        x: Feature map `[batch, height, width, channels]`.
        filters: Number of output channels.
        kernel_size: Side of the kernel, odd.
        strides: Step of the kernel in both directions.
        padding: `"both"`, or `"end"` to pad a convolution with a stride only
            below and to the right, as TensorFlow's networks do.
        use_bias: Whether the convolution has a bias.
        kernel_initializer: Initialiser of the kernel.
        dtype: Type of the computation, or None for that of Keras' policy.
        name: Name of the layer.

    Returns:
        Feature map with `filters` channels, its sides divided by `strides`
        and rounded up.

    Example:

    >>> x = keras.Input((7, 8, 3))
    >>> convolution(
    ...     x, 4, 3, strides=2, kernel_initializer="zeros", name="convolution"
    ... ).shape
    (None, 4, 4, 4)
    """
    if strides > 1 and kernel_size > 1:
        width = kernel_size // 2
        sides = {"both": width, "end": ((0, width), (0, width))}[padding]
        x = keras.layers.ZeroPadding2D(sides, name=f"{name}_padding")(x)
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding="same" if strides == 1 else "valid",
        use_bias=use_bias,
        kernel_initializer=kernel_initializer,
        dtype=dtype,
        name=name,
    )(x)


def batch_normalization(
    name: str,
    *,
    epsilon: float = 1e-5,
    gamma_initializer: keras.initializers.Initializer | str = "ones",
) -> keras.layers.BatchNormalization:
    """Returns batch normalisation with PyTorch's defaults.

    In Keras the momentum is the weight of the old statistics, in PyTorch that
    of the new ones, so 0.9 here corresponds to 0.1 in PyTorch. In the scope of
    a tf.distribute strategy, the statistics are those of the batch of all
    replicas.

    Args:
        name: Name of the layer.
        epsilon: Number that is added to the variance.
        gamma_initializer: Initialiser of the scale gamma.

    Returns:
        The layer.

    Example:

    >>> batch_normalization("normalization").epsilon
    1e-05
    """
    return keras.layers.BatchNormalization(
        momentum=0.9,
        epsilon=epsilon,
        synchronized=tf.distribute.has_strategy(),
        gamma_initializer=gamma_initializer,
        name=name,
    )


def classifier_head(
    x: keras.KerasTensor,
    num_classes: int,
    initializers: Initializers,
    *,
    use_bias: bool = True,
) -> keras.KerasTensor:
    """Applies global average pooling and a dense layer, in full precision.

    Args:
        x: Feature map `[batch, height, width, channels]`.
        num_classes: Number of logits.
        initializers: Initialisers of the network.
        use_bias: Whether the dense layer has biases.

    Returns:
        Logits `[batch, num_classes]`.

    Example:

    >>> x = keras.Input((4, 4, 8))
    >>> classifier_head(x, 10, Initializers(0)).shape
    (None, 10)
    """
    x = keras.layers.GlobalAveragePooling2D(name="pooling")(x)
    return keras.layers.Dense(
        num_classes,
        use_bias=use_bias,
        kernel_initializer=initializers.linear(),
        dtype=precision.full(),
        name="logits",
    )(x)


def activation(function: str, name: str) -> keras.layers.Layer:
    """Returns an activation as a layer.

    Args:
        function: `"relu"`, or another activation by Keras' name.
        name: Name of the layer.

    Example:

    >>> activation("silu", "silu1").get_config()["activation"]
    'silu'
    """
    if function == "relu":
        return keras.layers.ReLU(name=name)
    return keras.layers.Activation(function, name=name)


def normalized(
    images: keras.KerasTensor,
    normalization: tuple[Sequence[float], Sequence[float]] | None,
) -> keras.KerasTensor:
    """Returns (images - mean) / std, or the images if there is no mean.

    Args:
        images: Images `[batch, height, width, channels]`.
        normalization: Mean and standard deviation of each channel, or one
            number for all, or None.

    Example:

    >>> images = keras.Input((4, 4, 3))
    >>> normalized(images, ([0.5] * 3, [0.25] * 3)).shape
    (None, 4, 4, 3)
    """
    if normalization is None:
        return images
    channels = images.shape[-1]
    try:
        mean, deviation = (
            np.broadcast_to(np.ravel(values).astype(float), channels).tolist()
            for values in normalization
        )
    except (TypeError, ValueError):
        mean = deviation = []
    if not mean or min(deviation) <= 0:
        raise ValueError(
            "Argument `normalization` must be a mean and a standard deviation "
            f"above 0 for each of the {channels} channels. "
            f"Received: normalization={normalization}"
        )
    return keras.layers.Normalization(
        mean=mean,
        variance=[value**2 for value in deviation],
        dtype=precision.full(),
        name="image_normalization",
    )(images)
