"""The implicit distribution of ADT-IMP-AM: noise pushed through a network."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.distributions import reductions
from adt_tf.distributions.base import Scalable
from adt_tf.distributions.reductions import Reduction
from adt_tf.kernels import twins
from adt_tf.threat_models import ThreatModel


class Latent(Scalable):
    """The base of implicit families: a generator transforms latent noise."""

    generator: keras.Model
    latent_size: int
    entropy_reduction: Reduction

    def describe(self) -> list[str]:
        """Returns the reduction of the entropy, unless it is the mean."""
        return self.entropy_reduction.describe()

    def noise(
        self, x: tf.Tensor, num_samples: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws z [batch, k, latent_size] for each image."""
        shape = [num_samples, self.latent_size]
        noise = seeds.per_example(
            lambda s: tf.random.stateless_uniform(shape, s, -1.0, 1.0), x, seed
        )
        return tf.ensure_shape(noise, [None, *shape])

    def _directions(
        self, conditioning: tf.Tensor, noise: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        """Returns delta / epsilon [batch * k, ...] of z [batch, k, ...]."""
        z = tf.reshape(noise, [-1, self.latent_size])
        repeated = tf.repeat(conditioning, noise.shape[1], axis=0)
        direction = twins.fast(self.generator)([repeated, z], training=training)
        return self.threat_model.limit_to_unit(tf.cast(direction, tf.float32))

    def as_tfp(self, x: tf.Tensor, conditioning: tf.Tensor) -> Any:
        """Raises `ValueError`: an implicit distribution has no density."""
        raise ValueError(
            "An implicit distribution has no density, so there is no TFP "
            "distribution of it. Draw samples by calling the attack, with "
            "another seed for each."
        )


class Implicit(Latent):
    """Perturbations delta = epsilon * g(z; x, g1, g2), z ~ U(-1, 1).

    It has no density. Its entropy is bounded from below, up to a constant, by

        H(p) >= E_z log q(z | delta) + c,

    with a diagonal Gaussian q, whose means and variances a network computes
    from delta / epsilon. The entropy of a sample is this log q.

    Args:
        threat_model: Ball that the generator's tanh fills.
        generator: Keras model from [conditioning, z] to [-1, 1].
        posterior: Keras model from delta / epsilon to 2 * latent_size numbers,
            means and then (through softplus) variances.
        latent_size: Number of dimensions of z.
        entropy_reduction: "mean" or "sum" over the dimensions of z.

    Reference: Dong et al., Adversarial Distributional Training, App. A.3.
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        generator: keras.Model,
        posterior: keras.Model,
        *,
        latent_size: int = 64,
        entropy_reduction: str | Reduction = "mean",
    ) -> None:
        self.threat_model = threat_model
        self.generator, self.posterior = generator, posterior
        self.networks = (generator, posterior)
        self.latent_size = latent_size
        self.entropy_reduction = reductions.get(entropy_reduction)

    def sample(
        self,
        x: tf.Tensor,
        conditioning: tf.Tensor,
        noise: tf.Tensor,
        *,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and log q(z | delta) [batch, k]."""
        num_samples = noise.shape[1]
        z = tf.reshape(noise, [-1, self.latent_size])
        direction = self._directions(conditioning, noise, training=training)
        posterior = twins.fast(self.posterior)
        heads = tf.cast(posterior(direction, training=training), tf.float32)
        mean, raw = tf.split(heads, 2, axis=-1)
        q = tfd.Normal(mean, tf.sqrt(tf.nn.softplus(raw) + 1e-6))
        log_q = self.entropy_reduction(q.log_prob(z), axis=-1)
        shape = [-1, num_samples, *x.shape[1:]]
        x_adv = self.threat_model.from_unit(
            x[:, tf.newaxis], tf.reshape(direction, shape)
        )
        return x_adv, tf.reshape(log_q, [-1, num_samples])
