"""Shortest steps to a plane inside the pixel box, for balls of several norms.

Let a plane be value + <normal, d> = 0 and r_j >= 0 the room that coordinate j
has in the box on its way to the plane. In many norms the shortest step moves
coordinate j by min(t * p_j, r_j) towards the plane, with a pace p_j that the
norm gives (1 in l-infinity, |normal_j| in l2) and a time t that all share. With
a_j = |normal_j| the plane is reached where

    G(t) = sum_j a_j min(t p_j, r_j) = |value|.

Let the times r_j / p_j ascend. G is the least of the lines t -> A_k + t S_k,
which take the first k coordinates to be at their bounds: A_k adds up their
a_j r_j, and S_k the a_j p_j of the others. So t is where the last line gets
there:

    t = max_k (|value| - A_k) / S_k.

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
    low, high = bounds
    towards = -tf.sign(values)[:, tf.newaxis] * tf.sign(normals)
    room = tf.where(towards > 0, high - points, points - low)
    # The plane has no scale, but a product of two small floats vanishes.
    scale = tf.reduce_max(tf.abs(normals), axis=-1, keepdims=True)
    weights = tf.math.divide_no_nan(tf.abs(normals), scale)
    needed = tf.math.divide_no_nan(tf.abs(values)[:, tf.newaxis], scale)
    paces = pace(weights)
    # What does not move is never at its bound.
    times = tf.where(paces > 0, room / paces, float("inf"))
    order = tf.argsort(times, axis=-1)
    cost = tf.gather(weights * room, order, batch_dims=1)
    speed = tf.gather(weights * paces, order, batch_dims=1)
    spent = tf.cumsum(cost, axis=-1, exclusive=True)
    # Added up from its end: a difference of sums would not be exactly 0 there.
    slope = tf.cumsum(speed, axis=-1, reverse=True)
    time = tf.reduce_max(
        tf.math.divide_no_nan(needed - spent, slope), axis=-1, keepdims=True
    )
    return towards * tf.minimum(time * paces, room)
