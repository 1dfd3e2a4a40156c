"""The windows that the Square attack moves in the l2 ball.

A bump is a square with a positive and a negative half. The value of a half
falls with the distance D from its middle, in pixels along the longer axis:

    sum_{k = D + 1}^{K} 1 / k^2,

K being half the side of the square, rounded up. Both halves have the same
length, and the bump has length 1; it stands upright or is turned by a quarter.

Reference: Andriushchenko et al., Square Attack: a query-efficient black-box
adversarial attack via random search, 2020, Algorithm 3.
"""

from __future__ import annotations

import tensorflow as tf

from adt_tf import seeds

# Number of bumps along the height of an image at the start.
_ON_GRID = 5
_SMALLEST_SIDE = 3
# Keeps quotients of lengths finite.
_TINY = 1e-12


def bump(
    rows: tf.Tensor, columns: tf.Tensor, side: tf.Tensor, is_turned: tf.Tensor
) -> tf.Tensor:
    """Returns a bump [batch, height, width] of length 1, and 0 around it.

    Args:
        rows: Row of each pixel [batch, height], counted from the square's top.
        columns: Column of each pixel [batch, width], counted from its left.
        side: Side of the square, a scalar.
        is_turned: Whether the halves lie side by side [batch].
    """
    rows, columns = rows[:, :, tf.newaxis], columns[:, tf.newaxis, :]
    inside = (rows >= 0) & (rows < side) & (columns >= 0) & (columns < side)
    turned = is_turned[:, tf.newaxis, tf.newaxis]
    along = tf.where(turned, columns, rows)
    across = tf.where(turned, rows, columns)
    top = side // 2
    first = _half(along, across, inside & (along < top), top, side)
    second = _half(
        along - top, across, inside & (along >= top), side - top, side
    )
    return _unit(first - second)


def _half(
    along: tf.Tensor,
    across: tf.Tensor,
    inside: tf.Tensor,
    height: tf.Tensor,
    width: tf.Tensor,
) -> tf.Tensor:
    """Returns one half, of `height` by `width` pixels and of length 1."""
    distance = tf.maximum(
        tf.abs(along - height // 2), tf.abs(across - width // 2)
    )
    most = tf.maximum(height, width) // 2 + 1
    squares = 1.0 / tf.square(tf.range(1.0, tf.cast(most + 1, tf.float32)))
    sums = tf.concat([[0.0], tf.cumsum(squares)], axis=0)
    # The distance may be larger outside the square, where no value is used.
    value = sums[most] - tf.gather(sums, tf.minimum(distance, most))
    return _unit(tf.where(inside, value, 0.0))


def _unit(images: tf.Tensor) -> tf.Tensor:
    """Divides images [batch, height, width, ...] by their lengths."""
    return images / (_TINY + _length(images))


def _length(images: tf.Tensor) -> tf.Tensor:
    squared = tf.reduce_sum(tf.square(images), axis=[1, 2], keepdims=True)
    return tf.sqrt(squared)


def _signs(draws: tf.Tensor) -> tf.Tensor:
    return tf.where(draws < 0.5, -1.0, 1.0)


def grid_of_bumps(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns a grid of bumps for each image, five along the height.

    A bump is turned in all channels or in none; each channel has its own sign.
    """
    height, width = tf.shape(x)[1], tf.shape(x)[2]
    side = tf.maximum(height // _ON_GRID, 1)
    margin = tf.maximum(height - side * _ON_GRID, 0) // 2
    draws = seeds.per_example(
        lambda s: tf.random.stateless_uniform(
            [height // side, width // side, 1 + tf.shape(x)[3]], s
        ),
        x,
        seed,
    )
    row_cells, rows, has_row = _cells(height, side, margin)
    column_cells, columns, has_column = _cells(width, side, margin)
    drawn = tf.gather(draws, row_cells, axis=1)
    drawn = tf.gather(drawn, column_cells, axis=2)
    places = tf.range(side)[tf.newaxis]
    upright, turned = (
        tf.gather(tf.gather(pattern, rows), columns, axis=1)[..., tf.newaxis]
        for pattern in (
            bump(places, places, side, tf.constant([is_turned]))[0]
            for is_turned in (False, True)
        )
    )
    bumps = tf.where(drawn[..., :1] < 0.5, upright, turned)
    covered = (has_row[:, tf.newaxis] & has_column)[..., tf.newaxis]
    return tf.where(covered, bumps * _signs(drawn[..., 1:]), 0.0)


def _cells(
    length: tf.Tensor, side: tf.Tensor, margin: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns each pixel's cell, its position there, and if it has one."""
    places = tf.range(length) - margin
    cells = places // side
    has_cell = (places >= 0) & (cells < length // side)
    cells = tf.clip_by_value(cells, 0, length // side - 1)
    return cells, places % side, has_cell


def moved_bump(
    delta: tf.Tensor, draws: tf.Tensor, side: tf.Tensor, epsilon: tf.Tensor
) -> tf.Tensor:
    """Clears one window of a perturbation and adds a bump in another.

    The second window gets the length of both, and the length that the
    perturbation as a whole lacks to epsilon.

    Args:
        delta: Perturbations [batch, height, width, channels].
        draws: Random numbers in [0, 1) [batch, 5 + channels]: rows and columns
            of both windows, a turn, the channels' signs.
        side: Side of a window; an even side is made one pixel longer.
        epsilon: Radius of the ball.
    """
    height, width = tf.shape(delta)[1], tf.shape(delta)[2]
    most = tf.minimum(height, width)
    side = tf.maximum(side, _SMALLEST_SIDE)
    side = tf.minimum(side + 1 - side % 2, most - 1 + most % 2)

    def places(draw: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns each pixel's position relative to the window's start."""
        count = tf.cast(length - side + 1, tf.float32)
        first = tf.cast(tf.floor(draw * count), tf.int32)[:, tf.newaxis]
        return tf.range(length)[tf.newaxis] - first

    def covered(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        has_row = (rows >= 0) & (rows < side)
        has_column = (columns >= 0) & (columns < side)
        both = has_row[:, :, tf.newaxis] & has_column[:, tf.newaxis, :]
        return both[..., tf.newaxis]

    rows, columns = places(draws[:, 0], height), places(draws[:, 1], width)
    window = covered(rows, columns)
    emptied = covered(places(draws[:, 2], height), places(draws[:, 3], width))
    pattern = bump(rows, columns, side, draws[:, 4] >= 0.5)[..., tf.newaxis]
    signs = _signs(draws[:, 5:])[:, tf.newaxis, tf.newaxis]
    there = tf.where(window, delta, 0.0)
    shape = _unit(pattern * signs + _unit(there))
    squared = tf.reduce_sum(tf.square(delta), axis=[1, 2, 3], keepdims=True)
    both = tf.where(window | emptied, tf.square(delta), 0.0)
    both = tf.reduce_sum(both, axis=[1, 2, 3], keepdims=True)
    lacking = tf.maximum(epsilon**2 - squared, 0.0)
    channels = tf.cast(tf.shape(delta)[3], tf.float32)
    length = tf.sqrt(lacking / channels + both)
    left = tf.where(emptied, 0.0, delta)
    return tf.where(window, shape * length, left)
