"""Initialisers of all layers of a network, derived from one seed.

    initializers = Initializers(seed=0)
    keras.layers.Conv2D(
        16, 3, kernel_initializer=initializers.fan_out_normal()
    )
    keras.layers.Dense(10, kernel_initializer=initializers.linear())

Every call returns an initialiser with another seed. So a network that calls
them in a fixed order has the same weights, bit for bit, for the same seed, and
no two layers have the same random numbers.
"""

import random

import keras

from adt_tf.checks import arguments


class Initializers:
    """Creates Keras initialisers whose seeds derive from one seed.

    Args:
        seed: A non-negative integer.
        stream: Name that distinguishes networks with the same seed.

    Example:

    >>> first, second = Initializers(0), Initializers(0)
    >>> bool((first.linear()((2, 3)) == second.linear()((2, 3))).numpy().all())
    True
    """

    def __init__(self, seed: int, stream: str = "") -> None:
        seed = arguments.integer_at_least(0, seed=seed)
        self._generator = random.Random(f"{stream}/{seed}" if stream else seed)

    def fan_out_normal(self) -> keras.initializers.Initializer:
        """Returns N(0, stddev) with stddev = sqrt(2 / (K * K * C_out)).

        This is He et al.'s initialiser for the outgoing connections of a
        convolution with C_out filters of size K x K. Wide ResNets use it.
        """
        return keras.initializers.VarianceScaling(
            scale=2.0,
            mode="fan_out",
            distribution="untruncated_normal",
            seed=self._next_seed(),
        )

    def small_normal(self, mean: float = 0.0) -> keras.initializers.Initializer:
        """Returns N(mean, 0.02), which is usual in convolutional generators.

        Args:
            mean: Mean of the weights.
        """
        return keras.initializers.RandomNormal(
            mean=mean, stddev=0.02, seed=self._next_seed()
        )

    def linear(self) -> keras.initializers.Initializer:
        """Returns U(-a, a), a = 1 / sqrt(fan_in), as in PyTorch's Linear."""
        # VarianceScaling's uniform limit is sqrt(3 * scale / fan_in).
        return keras.initializers.VarianceScaling(
            scale=1 / 3,
            mode="fan_in",
            distribution="uniform",
            seed=self._next_seed(),
        )

    def _next_seed(self) -> int:
        return self._generator.getrandbits(31)
