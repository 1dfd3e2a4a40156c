"""The check that adversarial images satisfy their threat model."""

from __future__ import annotations

import abc
import math

import tensorflow as tf

from adt_tf import checks

_ADVICE = (
    "an attack of your own must return `threat_model.project(x, x_adv)`, and a "
    "norm of your own whose perturbations the pixel box deforms must override "
    "`project` and `distance`."
)


class Verified(abc.ABC):
    """Checks images against the ball and the pixel box.

    A `ThreatModel` has `epsilon`, `bounds` and `distance`.
    """

    epsilon: float | tf.Tensor
    bounds: tuple[float, float]

    @abc.abstractmethod
    def distance(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns the norm of x_adv - x of each example."""

    def check(self, x: tf.Tensor, x_adv: tf.Tensor) -> None:
        """Raises `ValueError` if an image is NaN or outside ball or box.

        Runs eagerly, on images that are about to be counted.
        """
        distance, low, high = map(float, self._extent(x, x_adv))
        # In float32, where 0.001 is a little larger.
        bottom, top = map(float, tf.constant(self.bounds))
        # NaN makes every comparison false, so it is caught as well.
        if (
            distance <= self._reach(x)
            and low >= bottom
            and high <= top
            and not math.isnan(distance)
        ):
            return
        raise ValueError(
            f"{checks.ESCAPED} {self}: the largest "
            f"perturbation is {distance:g} and the pixels lie in "
            f"[{low:g}, {high:g}]. No result can be trusted: {_ADVICE}"
        )

    def assert_inside(
        self, x: tf.Tensor, x_adv: tf.Tensor, name: str
    ) -> tf.Tensor:
        """Returns adversarial images, or fails in the graph if one is outside.

        This is `check` for images [batch, samples, ...] inside a step.

        Args:
            x: Clean images [batch, ...].
            x_adv: Adversarial images [batch, samples, ...].
            name: Name of the attack.
        """
        distance, low, high = self._extent(x[:, tf.newaxis], x_adv)
        bottom, top = self.bounds
        finite = tf.reduce_all(tf.math.is_finite(x_adv))
        inside = (distance <= self._reach(x)) & (low >= bottom) & (high <= top)
        context = (
            f"{name}, {self}: {_ADVICE} The largest perturbation, and pixels:"
        )
        assertions = [
            tf.debugging.Assert(finite, [checks.IMAGE_NOT_FINITE, name]),
            # The other assertion reports images that are not finite.
            tf.debugging.Assert(
                inside | ~finite,
                [checks.ESCAPED, context, distance, low, high],
            ),
        ]
        with tf.control_dependencies([a for a in assertions if a is not None]):
            return tf.identity(x_adv)

    def _extent(
        self, x: tf.Tensor, x_adv: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the largest distance, the lowest and the highest pixel."""
        distance = tf.reduce_max(self.distance(x, x_adv))
        return distance, tf.reduce_min(x_adv), tf.reduce_max(x_adv)

    def _reach(self, x: tf.Tensor) -> float | tf.Tensor:
        """Returns the largest allowed distance, with the rounding of pixels."""
        low, high = self.bounds
        return self.epsilon + checks.TOLERANCE * (high - low)
