"""Shortest steps to a plane inside the pixel box, for balls of several norms.

Let a plane be value + <normal, d> = 0, and r_j >= 0 the distance of coordinate
j from its bound in the direction of the plane. In many norms the shortest step
moves coordinate j by min(t * p_j, r_j) towards the plane, with a pace p_j that
depends on the norm (1 in l-infinity, |normal_j| in l2) and a common time t.
With a_j = |normal_j| the plane is reached where

    G(t) = sum_j a_j min(t p_j, r_j) = |value|.

G is concave and piecewise linear: if the coordinates with r_j <= t p_j are at
their bounds, G(t) = A + t S, where A is the sum of their a_j r_j and S is the
sum of the a_j p_j of the others. Newton's method from t = 0 iterates

    t <- (|value| - A) / S.

No line lies below G, so t never passes the solution; it grows until it is on
the right line, after about five iterations for images. The coordinates need
not be sorted.

If the box does not meet the plane, the step ends as near to it as possible.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def shortest_steps(
    points: tf.Tensor,
    values: tf.Tensor,
    normals: tf.Tensor,
    *,
    bounds: tuple[float, float],
    pace: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Returns the shortest steps [n, d] that reach a plane inside the box.

    Args:
        points: Points in the box [n, d].
        values: Values of the linear function at the points [n].
        normals: Gradients of the linear function [n, d].
        bounds: Lowest and highest value of a coordinate.
        pace: Function from |normal|, scaled to a maximum of 1, to p.

    Example:

    >>> shortest_steps(
    ...     tf.constant([[0.5, 0.9]]), tf.constant([-0.5]),
    ...     tf.constant([[1.0, 1.0]]), bounds=(0.0, 1.0),
    ...     pace=tf.ones_like).numpy().round(2)
    array([[0.4, 0.1]], dtype=float32)
    """
    return _solve((points, values, normals), bounds, pace)


# XLA fuses an iteration into one pass over the coordinates, also on a CPU.
@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _solve(
    problem: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    bounds: tuple[float, float],
    pace: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    points, values, normals = problem
    low, high = bounds
    towards = -tf.sign(values)[:, tf.newaxis] * tf.sign(normals)
    room = tf.where(towards > 0, high - points, points - low)
    # The plane has no scale; without one, small products would underflow.
    scale = tf.reduce_max(tf.abs(normals), axis=-1, keepdims=True)
    weights = tf.math.divide_no_nan(tf.abs(normals), scale)
    needed = tf.math.divide_no_nan(tf.abs(values)[:, tf.newaxis], scale)
    paces = pace(weights)

    def newton(time: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        bound = room <= time * paces
        spent = tf.where(bound, weights * room, 0.0)
        slope = tf.where(bound, 0.0, weights * paces)
        spent, slope = (
            tf.reduce_sum(part, axis=-1, keepdims=True)
            for part in (spent, slope)
        )
        # If the slope is 0, all coordinates are at their bounds.
        ahead = tf.math.divide_no_nan(needed - spent, slope)
        return tf.maximum(time, ahead), ahead > time

    # A time that no longer grows because of rounding also ends the loop.
    time, _ = tf.while_loop(
        lambda time, moves: tf.reduce_any(moves),
        newton,
        (tf.zeros_like(needed), tf.ones_like(needed, tf.bool)),
    )
    return towards * tf.minimum(time * paces, room)
