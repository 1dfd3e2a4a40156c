"""DeepMind's residual networks for robust training, with SiLU.

    classifier = dm_wide_resnet(28, 10)
    classifier = dm_preact_resnet(18)
    logits = classifier(images, training=False)

They differ from `wide_resnet` and `preact_resnet` in the activation and in the
padding of strided convolutions, which is TensorFlow's, and they normalise the
images themselves. A shortcut of the ResNets is a 3x3 convolution of the block's
input before its activation. Many models of RobustBench use these networks.

Reference: Gowal et al., "Uncovering the Limits of Adversarial Training against
Norm-Bounded Adversarial Examples", 2020.
"""

from collections.abc import Sequence
from typing import Any

import keras

from adt_tf.networks.preact_resnet import preact_resnet
from adt_tf.networks.preactivation import Variant
from adt_tf.networks.wide_resnet import wide_resnet

#: Mean and standard deviation of the channels in the networks.
CIFAR10 = ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
CIFAR100 = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


def dm_wide_resnet(
    depth: int,
    widen_factor: int,
    *,
    activation: str = "silu",
    normalization: tuple[Sequence[float], Sequence[float]] | None = CIFAR10,
    **kwargs: Any,
) -> keras.Model:
    """Builds DeepMind's wide residual network.

    Args:
        depth: Number of convolutions on the longest path, 6n + 4.
        widen_factor: Factor of the widths, at least 1.
        activation: Activation, by Keras' name.
        normalization: Mean and standard deviation of each channel, or None.
        **kwargs: `input_shape`, `num_classes` and `seed` of `wide_resnet`.

    Returns:
        A model from images in [0, 1] to logits.

    Example:

    >>> dm_wide_resnet(10, 1).output_shape
    (None, 10)
    """
    variant = Variant(
        activation=activation, padding="end", normalization=normalization
    )
    return wide_resnet(depth, widen_factor, variant=variant, **kwargs)


def dm_preact_resnet(
    depth: int,
    *,
    activation: str = "silu",
    normalization: tuple[Sequence[float], Sequence[float]] | None = CIFAR10,
    **kwargs: Any,
) -> keras.Model:
    """Builds DeepMind's ResNet with pre-activation.

    Args:
        depth: 18 or 34.
        activation: Activation, as in `dm_wide_resnet`.
        normalization: Mean and standard deviation, as in `dm_wide_resnet`.
        **kwargs: `input_shape`, `num_classes` and `seed` of `preact_resnet`.

    Returns:
        A model from images in [0, 1] to logits.
    """
    variant = Variant(
        activation=activation,
        padding="end",
        raw_shortcut=True,
        shortcut_size=3,
        normalization=normalization,
    )
    return preact_resnet(depth, variant=variant, **kwargs)
