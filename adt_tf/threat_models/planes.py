"""Shortest steps to a plane inside the pixel box, for balls of several norms.

Let a plane be value + <normal, d> = 0 and r_j >= 0 the room that coordinate j
has in the box on its way to the plane. In many norms the shortest step moves
coordinate j by min(t * p_j, r_j) towards the plane, with a pace p_j that the
norm gives (1 in l-infinity, |normal_j| in l2) and a time t that all share. With
a_j = |normal_j| the plane is reached where

    G(t) = sum_j a_j min(t p_j, r_j) = |value|.

G is concave and made of lines: where the coordinates with r_j <= t p_j are at
their bounds, G(t) = A + t S, with A the sum of their a_j r_j and S that of the
a_j p_j of the others. Newton's method from t = 0 takes t to where the line at
hand gets there,

    t <- (|value| - A) / S.

The line is not below G, so t never passes the solution; it grows until the
line is the right one, after some five steps for images, and needs no order of
the coordinates, which are sorted nowhere.

If the box does not meet the plane, the step goes as near as it can.
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
        points: [n, d], in the box.
        values: Values of the linear function at the points [n].
        normals: Its gradients [n, d].
        bounds: The lowest and the highest value of a coordinate.
        pace: The function from |normal|, scaled to a maximum of 1, to p.

    Example:

    >>> shortest_steps(
    ...     tf.constant([[0.5, 0.9]]), tf.constant([-0.5]),
    ...     tf.constant([[1.0, 1.0]]), bounds=(0.0, 1.0),
    ...     pace=tf.ones_like).numpy().round(2)
    array([[0.4, 0.1]], dtype=float32)
    """
    return _shortest_steps(points, values, normals, bounds=bounds, pace=pace)


# One pass over the coordinates a step by XLA, on a CPU too.
@tf.function(jit_compile=True, autograph=False, reduce_retracing=False)
def _shortest_steps(points, values, normals, *, bounds, pace):
    low, high = bounds
    towards = -tf.sign(values)[:, tf.newaxis] * tf.sign(normals)
    room = tf.where(towards > 0, high - points, points - low)
    # The plane has no scale, but a product of two small floats vanishes.
    scale = tf.reduce_max(tf.abs(normals), axis=-1, keepdims=True)
    weights = tf.math.divide_no_nan(tf.abs(normals), scale)
    needed = tf.math.divide_no_nan(tf.abs(values)[:, tf.newaxis], scale)
    paces = pace(weights)

    def newton(time, _):
        bound = room <= time * paces
        spent = tf.where(bound, weights * room, 0.0)
        slope = tf.where(bound, 0.0, weights * paces)
        spent, slope = (
            tf.reduce_sum(part, axis=-1, keepdims=True)
            for part in (spent, slope)
        )
        # Without a slope all are at their bounds, and stay there.
        ahead = tf.math.divide_no_nan(needed - spent, slope)
        return tf.maximum(time, ahead), ahead > time

    # Rounding ends it too: what does not grow is not moved again.
    time, _ = tf.while_loop(
        lambda time, moves: tf.reduce_any(moves),
        newton,
        (tf.zeros_like(needed), tf.ones_like(needed, tf.bool)),
    )
    return towards * tf.minimum(time * paces, room)
