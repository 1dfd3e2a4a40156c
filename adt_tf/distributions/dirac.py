"""The point mass: gradient ascent on its parameter is PGD."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf.checks import arguments
from adt_tf.distributions.base import Scalable
from adt_tf.threat_models import ThreatModel


class Dirac(Scalable):
    """A point mass on one image, which is the parameter itself.

    Args:
        threat_model: Ball and box of the image.
        random_start: Whether to start from a uniform draw instead of x.
        start_share: Radius of that draw, as a share of epsilon.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> distribution = Dirac(Linf(0.1), random_start=False)
    >>> params = distribution.init(tf.zeros([2, 8, 8, 1]), seed=None)
    >>> params.shape
    TensorShape([2, 8, 8, 1])
    """

    #: Whether samples are the parameters themselves.
    is_point = True

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        random_start: bool = True,
        start_share: float = 1.0,
    ) -> None:
        self.threat_model = threat_model
        self.random_start = random_start
        self.start_share = arguments.number_between(
            0, 1, "[]", start_share=start_share
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, without a default share."""
        config = super().get_config()
        if self.start_share == 1:
            del config["start_share"]
        return config

    def describe(self) -> list[str]:
        """Returns nothing: the attack's name shows the kind of start."""
        return []

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Returns the starting image."""
        if self.random_start:
            ball = self.threat_model
            if self.start_share != 1:
                ball = ball.scaled(self.start_share)
            return ball.random_start(x, seed)
        return x

    def from_network(self, x: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Takes outputs in [-1, 1] as delta / epsilon."""
        return self.threat_model.from_unit(x, outputs)

    def noise(
        self,
        x: tf.Tensor,
        num_samples: int,
        seed: tf.Tensor,
        *,
        piece: tuple[tf.Tensor, int] | None = None,
    ) -> tf.Tensor:
        """Returns zeros, whose shape has the number of samples."""
        del seed
        _, num_samples = piece or (0, num_samples)
        ones = [1] * (len(x.shape) - 1)
        return tf.zeros([tf.shape(x)[0], num_samples, *ones])

    def sample(
        self, x: tf.Tensor, params: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the point [batch, k, ...] and an entropy of 0."""
        del x
        entropy = tf.zeros(tf.shape(noise)[:2])
        return params[:, tf.newaxis] + noise, entropy

    def project(self, x: tf.Tensor, params: tf.Tensor) -> tf.Tensor:
        """Returns the nearest point of the ball and the box."""
        return self.threat_model.project(x, params)

    def as_tfp(self, x: tf.Tensor, params: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        return tfd.Independent(
            tfd.Deterministic(params - x),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )
