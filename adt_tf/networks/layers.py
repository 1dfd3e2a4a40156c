"""The layers that all networks share.

    x = convolution(
        x, 64, 3, strides=2, kernel_initializer=..., name="convolution"
    )
    x = batch_normalization("normalization")(x)
    logits = classifier_head(x, num_classes=10, initializers=...)

Convolution and normalisation follow PyTorch's conventions, so that weights
trained there fit.
"""

import keras
import tensorflow as tf

from adt_tf import precision
from adt_tf.networks.initializers import Initializers


def convolution(
    x: keras.KerasTensor,
    filters: int,
    kernel_size: int,
    *,
    strides: int = 1,
    kernel_initializer: keras.initializers.Initializer,
    dtype: str | None = None,
    name: str,
) -> keras.KerasTensor:
    """Applies a convolution without bias, padded by `kernel_size // 2`.

    The padding is the same on each side, as in PyTorch. With a stride Keras'
    `"same"` would pad an even-sized image only below and to the right, and
    see the image shifted by one pixel.

    Args:
        x: Feature map `[batch, height, width, channels]`.
        filters: Number of output channels.
        kernel_size: Side of the kernel, odd.
        strides: Step of the kernel in both directions.
        kernel_initializer: Initialiser of the kernel.
        dtype: Of the computation, unless the one of Keras' policy.
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
    padding = "same"
    if strides > 1:
        padding = "valid"
        if kernel_size > 1:
            x = keras.layers.ZeroPadding2D(
                kernel_size // 2, name=f"{name}_padding"
            )(x)
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=strides,
        padding=padding,
        use_bias=False,
        kernel_initializer=kernel_initializer,
        dtype=dtype,
        name=name,
    )(x)


def batch_normalization(
    name: str,
    *,
    gamma_initializer: keras.initializers.Initializer | str = "ones",
) -> keras.layers.BatchNormalization:
    """Returns batch normalisation with PyTorch's defaults.

    Keras' momentum is the weight of the old statistics, PyTorch's that of the
    new ones: 0.9 here is 0.1 there. Built in the scope of a strategy of
    tf.distribute, it takes its statistics from the batch of all replicas.

    Args:
        name: Name of the layer.
        gamma_initializer: Initialiser of the scale gamma.

    Returns:
        The layer.

    Example:

    >>> batch_normalization("normalization").epsilon
    1e-05
    """
    return keras.layers.BatchNormalization(
        momentum=0.9,
        epsilon=1e-5,
        synchronized=tf.distribute.has_strategy(),
        gamma_initializer=gamma_initializer,
        name=name,
    )


def classifier_head(
    x: keras.KerasTensor, num_classes: int, initializers: Initializers
) -> keras.KerasTensor:
    """Applies global average pooling and a dense layer, in full precision.

    Args:
        x: Feature map `[batch, height, width, channels]`.
        num_classes: Number of logits.
        initializers: Source of the dense layer's weights.

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
        kernel_initializer=initializers.linear(),
        dtype=precision.full(),
        name="logits",
    )(x)
