"""A threat model of another norm, to hold the interface to its word."""

import math

import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf import seeds
from adt_tf.threat_models import ThreatModel
from adt_tf.threat_models.base import example_axes

tfb = tfp.bijectors


class Euclidean(ThreatModel):
    """The l2 ball, without the hooks of FAB and Square."""

    name = "l2"

    def norm(self, delta):
        squares = tf.reduce_sum(tf.square(delta), example_axes(delta))
        return tf.sqrt(squares)

    def _unit(self, delta):
        return tf.math.l2_normalize(delta, example_axes(delta), 1e-24)

    def limit(self, delta):
        norm = tf.norm(delta, axis=example_axes(delta)[0], keepdims=True)
        for axis in example_axes(delta)[1:]:
            norm = tf.norm(norm, axis=axis, keepdims=True)
        return delta * tf.minimum(
            1.0, tf.math.divide_no_nan(self.epsilon, norm)
        )

    def steepest(self, gradient):
        return self._unit(gradient)

    def _directions(self, x, shape, seed):
        noise = seeds.per_example(
            lambda s: tf.random.stateless_normal(shape, s), x, seed
        )
        return self._unit(noise)

    def random_direction(self, x, seed):
        return self._directions(x, x.shape[1:], seed)

    def random_surface(self, x, seed):
        return self.from_unit(x, self.random_direction(x, seed))

    def random_start(self, x, seed):
        return self.from_unit(x, 0.5 * self.random_direction(x, seed))

    def random_noise(self, x, num_draws, seed):
        shape = [num_draws, *x.shape[1:]]
        directions = self._directions(x, shape, seed)
        is_extreme = tf.reshape(tf.range(num_draws) % 2 == 1, [-1, 1, 1, 1])
        return self.from_unit(
            x[:, tf.newaxis], directions * tf.where(is_extreme, 1.0, 0.5)
        )

    def bijector(self, event_shape):
        return tfb.Chain([tfb.Scale(self.epsilon), _Radial(len(event_shape))])

    def largest_epsilon(self, event_shape):
        low, high = self.bounds
        return (high - low) * math.sqrt(math.prod(event_shape))


class _Radial(tfb.Bijector):
    """u / sqrt(1 + |u|^2): log-determinant -(d / 2 + 1) log(1 + |u|^2).

    The Jacobian is s I - s^3 u u^T with s = (1 + |u|^2)^(-1/2): d - 1
    eigenvalues are s, and that along u is s - s^3 |u|^2 = s^3.
    """

    def __init__(self, rank):
        super().__init__(forward_min_event_ndims=rank, name="radial")
        self.axes = list(range(-rank, 0))

    def _squares(self, u):
        return tf.reduce_sum(tf.square(u), self.axes, keepdims=True)

    def _forward(self, u):
        return u / tf.sqrt(1 + self._squares(u))

    def _inverse(self, v):
        return v / tf.sqrt(1 - self._squares(v))

    def _forward_log_det_jacobian(self, u):
        size = math.prod(u.shape[axis] for axis in self.axes)
        squares = tf.squeeze(self._squares(u), self.axes)
        return -(size / 2 + 1) * tf.math.log1p(squares)
