"""Equal mass on several images, such as the points of a chain."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.checks import arguments
from adt_tf.distributions.base import Scalable
from adt_tf.threat_models import ThreatModel


class Empirical(Scalable):
    """The empirical distribution of n images, which are the parameters.

    `attacks.Chain` returns it for the points of a Langevin chain. In a
    `GradientAscent` it is a swarm of n points; each step moves the points that
    it samples. Its entropy counts as 0.

    Args:
        threat_model: Ball and box of the images.
        num_points: Number of images, n.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> family = Empirical(Linf(0.1), num_points=5)
    >>> family.init(tf.zeros([2, 8, 8, 1]), tf.constant([0, 0])).shape
    TensorShape([2, 5, 8, 8, 1])
    """

    def __init__(self, threat_model: ThreatModel, *, num_points: int) -> None:
        arguments.integer_at_least(1, num_points=num_points)
        self.threat_model = threat_model
        self.num_points = num_points

    def describe(self) -> list[str]:
        """Returns the number of points."""
        return [f"num_points={self.num_points}"]

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws the points from the ball around each image."""
        points = [
            self.threat_model.random_start(x, seeds.fold(seed, i))
            for i in range(self.num_points)
        ]
        return tf.stack(points, axis=1)

    def noise(
        self,
        x: tf.Tensor,
        num_samples: int,
        seed: tf.Tensor,
        *,
        piece: tuple[tf.Tensor, int] | None = None,
    ) -> tf.Tensor:
        """Draws a uniform number for each sample [batch, k]."""
        first, size = piece or (0, num_samples)
        noise = seeds.per_example(
            lambda s: tf.random.stateless_uniform([num_samples], s), x, seed
        )
        return tf.ensure_shape(noise[:, first : first + size], [None, size])

    def sample(
        self, x: tf.Tensor, params: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns one of the points for each sample, and an entropy of 0."""
        del x
        index = tf.cast(noise * self.num_points, tf.int32)
        # A float32 below 1 may round up to the number of points.
        index = tf.minimum(index, self.num_points - 1)
        return tf.gather(params, index, axis=1, batch_dims=1), 0.0 * noise

    def project(self, x: tf.Tensor, params: tf.Tensor) -> tf.Tensor:
        """Returns the nearest points of the ball and the box."""
        return self.threat_model.project(x[:, tf.newaxis], params)

    def as_tfp(self, x: tf.Tensor, params: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        points = tfd.Independent(
            tfd.Deterministic(params - x[:, tf.newaxis]),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )
        weights = tf.zeros(tf.shape(params)[:2])
        return tfd.MixtureSameFamily(tfd.Categorical(logits=weights), points)
