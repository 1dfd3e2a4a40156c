"""The implicit distribution whose entropy is estimated from samples."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.distributions import reductions, stein
from adt_tf.distributions.implicit import Latent
from adt_tf.distributions.reductions import Reduction
from adt_tf.threat_models import ThreatModel


class ImplicitStein(Latent):
    """Perturbations delta = epsilon * g(z; x, g1, g2), with Stein's entropy.

    This is the distribution of `Implicit`. There a second network q bounds the
    entropy from below; here the spectral Stein gradient estimator computes the
    entropy's gradient from n samples of each image's distribution, so that
    only the generator is trained. Each sample takes n passes of the generator:
    one for itself and n - 1 for its companions.

    Args:
        threat_model: Ball that the generator's tanh fills.
        generator: Keras model from [conditioning, z] to [-1, 1].
        num_particles: Number of samples in an estimate, n.
        latent_size: Number of dimensions of z.
        entropy_reduction: "mean" or "sum" over the dimensions of the image.

    Reference: Shi, Sun and Zhu, A Spectral Approach to Gradient Estimation
    for Implicit Distributions, 2018.
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        generator: keras.Model,
        *,
        num_particles: int = 8,
        latent_size: int = 64,
        entropy_reduction: str | Reduction = "mean",
    ) -> None:
        arguments.integer_at_least(2, num_particles=num_particles)
        self.threat_model = threat_model
        self.generator = generator
        self.networks = (generator,)
        self.num_particles = num_particles
        self.latent_size = latent_size
        self.entropy_reduction = reductions.get(entropy_reduction)

    def describe(self) -> list[str]:
        """Returns the estimator, its number of samples and the reduction."""
        return [f"stein({self.num_particles})", *super().describe()]

    def noise(
        self, x: tf.Tensor, num_samples: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws z [batch, k, n, latent_size]: a sample and its companions."""
        noise = super().noise(x, num_samples * self.num_particles, seed)
        shape = [-1, num_samples, self.num_particles, self.latent_size]
        return tf.reshape(noise, shape)

    def sample(
        self,
        x: tf.Tensor,
        conditioning: tf.Tensor,
        noise: tf.Tensor,
        *,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and entropies [batch, k].

        The entropies are those of delta / epsilon.
        """
        num_samples, size = noise.shape[1], math.prod(x.shape[1:])
        each = [num_samples, self.num_particles]
        z = tf.reshape(noise, [-1, math.prod(each), self.latent_size])
        directions = self._directions(conditioning, z, training=training)
        entropy = stein.entropy(tf.reshape(directions, [-1, *each, size]))
        first = tf.reshape(directions, [-1, *each, *x.shape[1:]])[:, :, 0]
        x_adv = self.threat_model.from_unit(x[:, tf.newaxis], first)
        return x_adv, self.entropy_reduction.of_total(entropy, size)
