"""Distributions whose parameters a network outputs."""

from __future__ import annotations

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf.configs import Configured
from adt_tf.distributions.base import NetworkFamily, Params
from adt_tf.kernels import twins


class Generated(Configured):
    """A family whose parameters are the outputs of a network.

        phi(x) = generator([x, g1, g2]),  x_adv ~ family(phi(x))

    With a TanhGaussian it is the distribution of ADT-EXP-AM, with a Dirac the
    point of L2L.

    Args:
        family: Family whose parameters the network outputs.
        generator: Keras model from [x, g1, g2] to the parameters.
    """

    def __init__(self, family: NetworkFamily, generator: keras.Model) -> None:
        self.family = family
        self.threat_model = family.threat_model
        self.generator = generator
        self.networks = (generator,)

    def scaled(self, share: float | tf.Tensor) -> Generated:
        """Returns the family with the same network and share * epsilon."""
        return type(self)(self.family.scaled(share), *self.networks)

    def describe(self) -> list[str]:
        """Returns the settings of the family."""
        return self.family.describe()

    def noise(
        self, x: tf.Tensor, num_samples: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws the family's noise."""
        return self.family.noise(x, num_samples, seed)

    def sample(
        self,
        x: tf.Tensor,
        conditioning: tf.Tensor,
        noise: tf.Tensor,
        *,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and their entropy [batch, k]."""
        params = self._params(x, conditioning, training=training)
        return self.family.sample(x, params, noise)

    def as_tfp(self, x: tf.Tensor, conditioning: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        return self.family.as_tfp(x, self._params(x, conditioning))

    def _params(
        self, x: tf.Tensor, conditioning: tf.Tensor, *, training: bool = False
    ) -> Params:
        (generator,) = self.networks
        outputs = tf.cast(
            twins.fast(generator)(conditioning, training=training),
            tf.float32,
        )
        return self.family.from_network(x, outputs)
