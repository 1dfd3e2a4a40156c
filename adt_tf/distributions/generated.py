"""Distributions whose parameters a network gives, for all images at once."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


class Generated:
    """A family whose parameters for an image are a network's output.

        phi(x) = generator([x, g1, g2]),  x_adv ~ family(phi(x))

    With a TanhGaussian it is the distribution of ADT-EXP-AM, with a Dirac the
    point of L2L.

    Args:
        family: Has `from_network(x, outputs)` beside the usual.
        generator: A Keras model from [x, g1, g2] to the parameters.
    """

    def __init__(self, family: Any, generator: keras.Model):
        self.family = family
        self.threat_model = family.threat_model
        self.networks = (generator,)
        self.entropy_reduction = getattr(family, "entropy_reduction", "mean")

    def scaled(self, share: float | tf.Tensor) -> Generated:
        """Returns the family, same network, in a ball of share * epsilon."""
        return type(self)(self.family.scaled(share), *self.networks)

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

    def _params(self, x, conditioning, *, training=False):
        (generator,) = self.networks
        outputs = tf.cast(
            generator(conditioning, training=training), tf.float32
        )
        return self.family.from_network(x, outputs)
