"""What an adversary may do: a ball around the image, inside the pixel box.

threat_model = Linf(8 / 255)
x_adv = threat_model.perturb(x, delta)     # projected and clipped
threat_model.check(x, x_adv)               # raises if it is neither
"""

from __future__ import annotations

import math
import numbers

import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf import seeds
from adt_tf.checks import TOLERANCE

tfb = tfp.bijectors


class Linf:
    """The l-infinity ball of radius epsilon, inside the pixel box.

        S(x) = {x_adv : |x_adv - x| <= epsilon, low <= x_adv <= high}

    Args:
        epsilon: The radius, in the units of the pixels; 0 allows nothing.
        bounds: The lowest and the highest pixel value.

    Example:

    >>> threat_model = Linf(0.1)
    >>> threat_model.perturb(tf.constant([0.5, 0.95]), tf.constant([9.0, 9.0]))
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([0.6, 1. ], dtype=float32)>
    """  # noqa: E501

    def __init__(
        self, epsilon: float, bounds: tuple[float, float] = (0.0, 1.0)
    ):
        low, high = bounds
        if not -math.inf < low < high < math.inf:
            raise ValueError(
                "Argument `bounds` must be finite, (low, high) with low < "
                f"high. Received: bounds={bounds}"
            )
        if not 0 <= epsilon <= high - low:
            raise ValueError(
                f"Argument `epsilon` must be from 0 to {high - low} "
                "(the range of the pixels; 8/255 is usual for images in "
                f"[0, 1]). Received: epsilon={epsilon}"
            )
        self.epsilon = float(epsilon)
        self.bounds = (float(low), float(high))

    def __repr__(self) -> str:
        return f"Linf(epsilon={self.epsilon:g}, bounds={self.bounds})"

    def clip(self, x: tf.Tensor) -> tf.Tensor:
        """Clips an image to the pixel box."""
        return tf.clip_by_value(x, *self.bounds)

    def project(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns the point of the ball and box around x nearest to x_adv."""
        return self.clip(
            tf.clip_by_value(x_adv, x - self.epsilon, x + self.epsilon)
        )

    def perturb(self, x: tf.Tensor, delta: tf.Tensor) -> tf.Tensor:
        """Returns x + delta, with delta clipped to the ball, in the box."""
        delta = tf.clip_by_value(delta, -self.epsilon, self.epsilon)
        return self.clip(x + delta)

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

    def bijector(self) -> tfb.Bijector:
        """Squashes the real line into the ball: epsilon * tanh(u)."""
        return tfb.Chain([tfb.Scale(self.epsilon), tfb.Tanh()])

    def distance(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns the largest |x_adv - x| of each example."""
        axes = list(range(1, len(x.shape)))
        return tf.reduce_max(tf.abs(x_adv - x), axis=axes)

    def check(self, x: tf.Tensor, x_adv: tf.Tensor) -> None:
        """Raises `ValueError` if an image left the ball, the box or is NaN.

        Runs eagerly, on the images that are about to be counted.
        """
        distance = float(tf.reduce_max(self.distance(x, x_adv)))
        low = float(tf.reduce_min(x_adv))
        high = float(tf.reduce_max(x_adv))
        # As float32 has them: 0.001 is a little more there.
        bottom, top = map(float, tf.constant(self.bounds))
        # A NaN makes every comparison below false, so it is caught as well.
        if (
            distance <= self.epsilon + TOLERANCE * (top - bottom)
            and low >= bottom
            and high <= top
            and not math.isnan(distance)
        ):
            return
        raise ValueError(
            f"An attack left its threat model {self}: the largest "
            f"perturbation is {distance:g} and the pixels lie in "
            f"[{low:g}, {high:g}]. No result can be trusted; if the attack is "
            "your own, return `threat_model.project(x, x_adv)`."
        )


def get(threat_model: float | Linf) -> Linf:
    """Returns a threat model as is, or `Linf(epsilon)` for a number."""
    if isinstance(threat_model, numbers.Real):
        return Linf(threat_model)
    if not isinstance(threat_model, Linf):
        raise ValueError(
            "Argument `epsilon` must be a number or a threat model such as "
            f"`Linf(8 / 255)`. Received: epsilon={threat_model!r}"
        )
    return threat_model
