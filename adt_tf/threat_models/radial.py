"""A bijector from R^d onto the open unit ball of l2."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf
from tensorflow_probability import bijectors as tfb


class RadialSquash(tfb.Bijector):
    """Shortens every vector along its own direction.

        delta = v / sqrt(1 + |v|^2),   v = u / sqrt(d)

    Dividing by sqrt(d) keeps the length of a Gaussian draw near its deviation
    in any dimension, so that a draw from N(0, 0.69^2) lies inside the ball, not
    at its surface. The Jacobian of v -> delta has the eigenvalue
    (1 + r^2)^(-3/2) along v, with r = |v|, and (1 + r^2)^(-1/2) across it,
    d - 1 times. Hence

        log det = -(d + 2) / 2 * log(1 + r^2) - d / 2 * log d.

    Args:
        event_shape: Shape of one vector, such as (height, width, channels).

    Example:

    >>> squash = RadialSquash([2])
    >>> squash.forward([[3.0, 4.0]]).numpy().round(4)
    array([[0.5774, 0.7698]], dtype=float32)
    """

    def __init__(
        self,
        event_shape: Sequence[int],
        validate_args: bool = False,
        name: str = "radial_squash",
    ) -> None:
        parameters = dict(locals())
        self._event_axes = list(range(-len(event_shape), 0))
        self._size = math.prod(event_shape)
        super().__init__(
            forward_min_event_ndims=len(event_shape),
            validate_args=validate_args,
            parameters=parameters,
            name=name,
        )

    @classmethod
    def _is_increasing(cls) -> bool:
        return True

    def _squared_length(self, vectors: tf.Tensor, keepdims: bool) -> tf.Tensor:
        return tf.reduce_sum(
            tf.square(vectors), axis=self._event_axes, keepdims=keepdims
        )

    def _forward(self, u: tf.Tensor) -> tf.Tensor:
        squared = self._squared_length(u, True) / self._size
        return u * tf.math.rsqrt(self._size * (1.0 + squared))

    def _inverse(self, delta: tf.Tensor) -> tf.Tensor:
        squared = self._squared_length(delta, True)
        return delta * tf.sqrt(self._size / (1.0 - squared))

    def _forward_log_det_jacobian(self, u: tf.Tensor) -> tf.Tensor:
        squared = self._squared_length(u, False) / self._size
        return -0.5 * (
            (self._size + 2) * tf.math.log1p(squared)
            + self._size * math.log(self._size)
        )
