"""What all families share that squash a density on R^d into the ball."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.configs import Configured
from adt_tf.distributions.reductions import Reduction
from adt_tf.threat_models import ThreatModel


class Squashed(Configured):
    """A density p(u) on R^d that the threat model's bijector squashes.

        -log p(delta) = -log p(u) + log det,   delta = squash(u)

    A subclass draws u, and gives -log p(u) of each sample.
    """

    threat_model: ThreatModel
    entropy_reduction: Reduction

    def scaled(self, share: float | tf.Tensor) -> Any:
        """Returns the family in a ball of radius share * epsilon."""
        threat_model = self.threat_model.scaled(share)
        return type(self)(**{**self.get_config(), "threat_model": threat_model})

    def describe(self) -> list[str]:
        """Returns the reduction of the entropy, unless it is the mean."""
        return self.entropy_reduction.describe()

    def project(self, x: tf.Tensor, params: Any) -> Any:
        """Squashing keeps every parameter inside the ball: nothing to do."""
        del x
        return params

    def _squashed(
        self, x: tf.Tensor, u: tf.Tensor, surprise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and their entropy [batch, k].

        Args:
            x: Images [batch, ...].
            u: Samples before the squashing [batch, k, ...].
            surprise: -log p(u) of each, over all dimensions [batch, k].
        """
        delta, log_det, log_scale = self.threat_model.squash(u)
        size = math.prod(u.shape[2:])
        axes = list(range(2, len(u.shape)))
        # What all coordinates share is there once, so it is broadcast first.
        log_det = tf.reduce_sum(log_det + tf.zeros_like(u), axis=axes)
        entropy = self.entropy_reduction.of_total(
            surprise + log_det + size * log_scale, size
        )
        return self.threat_model.perturb(x[:, tf.newaxis], delta), entropy


def normal_noise(
    x: tf.Tensor,
    num_samples: int,
    seed: tf.Tensor,
    *,
    size: int | None = None,
    piece: tuple[tf.Tensor, int] | None = None,
) -> tf.Tensor:
    """Draws Gaussian numbers [batch, k, ...], other ones for each image.

    Args:
        x: Images [batch, ...].
        num_samples: Number of samples, k.
        seed: The same seed gives an image the same noise in any batch.
        size: Number of them in one sample; by default as many as an image has
            pixel values, in its shape.
        piece: (first, size) for these of the k samples only, so that not more
            than one image's noise is there as a whole.
    """
    static = x.shape[1:] if size is None else [size]
    dynamic = tf.shape(x)[1:] if size is None else [size]
    shape = tf.concat([[num_samples], dynamic], axis=0)
    first, kept = piece or (0, num_samples)

    def draw(seed):
        noise = tf.random.stateless_normal(shape, seed)
        return noise if piece is None else noise[first : first + kept]

    noise = seeds.per_example(draw, x, seed)
    return tf.ensure_shape(noise, [None, kept, *static])
