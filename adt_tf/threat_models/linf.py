"""The l-infinity ball: every pixel may change by epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from adt_tf import seeds
from adt_tf.threat_models import planes
from adt_tf.threat_models.base import ThreatModel, example_axes


class Linf(ThreatModel):
    """The l-infinity ball of radius epsilon, inside the pixel box.

        S(x) = {x_adv : |x_adv - x| <= epsilon, low <= x_adv <= high}

    Args:
        epsilon: Radius, in the units of the pixels; 0 allows no change.
        bounds: Lowest and highest pixel value.

    Example:

    >>> threat_model = Linf(0.1)
    >>> threat_model.perturb(tf.constant([0.5, 0.95]), tf.constant([9.0, 9.0]))
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([0.6, 1. ], dtype=float32)>
    """  # noqa: E501

    name = "l-infinity"
    allows = "change every pixel by up to {epsilon}"
    squashes = "The change of each pixel is ε tanh(u)"
    steepest_name = "sign"

    def __init__(
        self, epsilon: float, bounds: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        # Check the bounds first: the message on epsilon shows their range.
        super().__init__(0.0, bounds)
        low, high = bounds
        if not 0 <= epsilon <= high - low:
            raise ValueError(
                f"Argument `epsilon` must be from 0 to {high - low} "
                "(the range of the pixels; 8/255 is usual for images in "
                f"[0, 1]). Received: epsilon={epsilon}"
            )
        self.epsilon = float(epsilon)

    def norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns the largest |delta| of each example."""
        return tf.reduce_max(tf.abs(delta), axis=example_axes(delta))

    def limit(self, delta: tf.Tensor) -> tf.Tensor:
        """Clips every pixel's change to the radius."""
        return tf.clip_by_value(delta, -self.epsilon, self.epsilon)

    def project(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns the point of the ball and box around x nearest to x_adv."""
        return self.clip(
            tf.clip_by_value(x_adv, x - self.epsilon, x + self.epsilon)
        )

    def steepest(self, gradient: tf.Tensor) -> tf.Tensor:
        """Returns the sign of the gradient."""
        return tf.sign(gradient)

    def random_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws an image uniformly from the ball, then clips it to the box."""
        delta = seeds.per_example(
            lambda s: tf.random.stateless_uniform(
                tf.shape(x)[1:], s, -self.epsilon, self.epsilon
            ),
            x,
            seed,
        )
        return self.perturb(x, tf.reshape(delta, tf.shape(x)))

    def random_surface(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws uniform noise, scaled to the surface of the ball."""
        noise = _uniform(tf.shape(x)[1:], x, seed, -1.0)
        noise = tf.reshape(noise, tf.shape(x))
        largest = tf.reduce_max(
            tf.abs(noise), axis=example_axes(x), keepdims=True
        )
        return self.from_unit(x, tf.math.divide_no_nan(noise, largest))

    def random_direction(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws a sign for each pixel: a corner of the unit ball."""
        return _signs(_uniform(tf.shape(x)[1:], x, seed), 1.0)

    def random_noise(
        self, x: tf.Tensor, num_draws: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws noisy images [batch, num_draws, ...], in the box.

        Every second one is a corner, the others are uniform in the ball.
        """
        noise = _uniform([num_draws, *x.shape[1:]], x, seed, -1.0)
        ones = [1] * (len(x.shape) - 1)
        is_corner = tf.reshape(tf.range(num_draws) % 2 == 1, [-1, *ones])
        noise = tf.where(is_corner, tf.sign(noise), noise)
        return self.from_unit(x[:, tf.newaxis], noise)

    def bijector(self, event_shape: Sequence[int]) -> tfb.Bijector:
        """Returns epsilon * tanh(u), coordinate by coordinate."""
        del event_shape
        return tfb.Chain([tfb.Scale(self.epsilon), tfb.Tanh()])

    def squash(
        self, u: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, float | tf.Tensor]:
        """Returns epsilon * tanh(u), log(1 - tanh(u)^2) and log(epsilon)."""
        delta = self.bijector(u.shape[2:]).forward(u)
        log_det = tfb.Tanh().forward_log_det_jacobian(u, event_ndims=0)
        if tf.is_tensor(self.epsilon):
            return delta, log_det, tf.math.log(self.epsilon)
        # The entropy of a point mass is minus infinity.
        log_epsilon = math.log(self.epsilon) if self.epsilon else -math.inf
        return delta, log_det, log_epsilon

    def relative_size(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns |delta| / epsilon of each pixel."""
        return tf.abs(delta) / self.epsilon

    def largest_epsilon(self, event_shape: Sequence[int]) -> float:
        """Returns the range of the pixels."""
        del event_shape
        low, high = self.bounds
        return high - low

    def step_to_plane(
        self, points: tf.Tensor, values: tf.Tensor, normals: tf.Tensor
    ) -> tf.Tensor:
        """Returns the shortest steps that reach a plane inside the box."""
        return planes.shortest_steps(
            points, values, normals, bounds=self.bounds, pace=tf.ones_like
        )

    def square_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Adds epsilon or -epsilon to each column and channel."""
        shape = tf.concat([[1], tf.shape(x)[2:]], axis=0)
        return self.perturb(x, _signs(_uniform(shape, x, seed), self.epsilon))

    def square_draws(self, x: tf.Tensor) -> int:
        """Returns 2 for the position, and 1 for the sign of each channel."""
        return 2 + x.shape[-1]

    def square_proposal(
        self, x: tf.Tensor, x_adv: tf.Tensor, draws: tf.Tensor, side: tf.Tensor
    ) -> tf.Tensor:
        """Sets one square of each image to x plus or minus epsilon."""

        def covered(place: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
            """Returns which of `length` pixels in a row the square covers."""
            places = tf.cast(length - side + 1, tf.float32)
            first = tf.cast(tf.floor(place * places), tf.int32)[:, tf.newaxis]
            pixels = tf.range(length)[tf.newaxis]
            return (pixels >= first) & (pixels < first + side)

        rows = covered(draws[:, 0], tf.shape(x)[1])[:, :, tf.newaxis]
        columns = covered(draws[:, 1], tf.shape(x)[2])[:, tf.newaxis, :]
        color = _signs(draws[:, tf.newaxis, tf.newaxis, 2:], self.epsilon)
        return tf.where(
            (rows & columns)[..., tf.newaxis], self.perturb(x, color), x_adv
        )


def _uniform(
    shape: Sequence[int] | tf.Tensor,
    x: tf.Tensor,
    seed: tf.Tensor,
    low: float = 0.0,
) -> tf.Tensor:
    """Draws numbers in [low, 1), independent for each image."""
    return seeds.per_example(
        lambda s: tf.random.stateless_uniform(shape, s, low, 1.0), x, seed
    )


def _signs(draws: tf.Tensor, size: float | tf.Tensor) -> tf.Tensor:
    """Returns -size or size, each with probability 1/2."""
    return tf.where(draws < 0.5, -size, size)
