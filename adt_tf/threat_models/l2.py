"""The l2 ball: it limits the Euclidean length of the change of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from adt_tf import seeds
from adt_tf.threat_models import planes, windows
from adt_tf.threat_models.base import ThreatModel, example_axes
from adt_tf.threat_models.radial import RadialSquash


class L2(ThreatModel):
    """The l2 ball of radius epsilon, inside the pixel box.

        S(x) = {x_adv : |x_adv - x|_2 <= epsilon, low <= x_adv <= high}

    A perturbation is first limited to the ball and then clipped to the box,
    which only shortens it.

    Args:
        epsilon: Radius, in the units of the pixels; 0.5 is usual for 32x32
            images in [0, 1]. 0 allows no change.
        bounds: Lowest and highest pixel value.

    Example:

    >>> threat_model = L2(0.5)
    >>> x = tf.fill([1, 2, 2, 1], 0.5)
    >>> x_adv = threat_model.perturb(x, tf.ones([1, 2, 2, 1]))
    >>> threat_model.distance(x, x_adv).numpy()
    array([0.5], dtype=float32)
    """

    name = "l2"
    squashes = (
        "The change of the image is ε v / √(1 + |v|²) with v = u / √d for d "
        "pixel values, which keeps the direction of u and is shorter than ε"
    )

    def norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns the Euclidean length of each example's perturbation."""
        axes = example_axes(delta)
        return tf.sqrt(tf.reduce_sum(tf.square(delta), axis=axes))

    def limit(self, delta: tf.Tensor) -> tf.Tensor:
        """Scales perturbations longer than epsilon to that length."""
        axes = example_axes(delta)
        squared = tf.reduce_sum(tf.square(delta), axis=axes, keepdims=True)
        # The argument of the root is never near 0, so its gradient is finite.
        outside = squared > self.epsilon**2
        length = tf.sqrt(tf.where(outside, squared, 1.0))
        return tf.where(outside, self.epsilon / length * delta, delta)

    def steepest(self, gradient: tf.Tensor) -> tf.Tensor:
        """Returns the gradient divided by its length."""
        axes = example_axes(gradient)
        # The square of a small float underflows, so scale the largest to 1.
        largest = tf.reduce_max(tf.abs(gradient), axis=axes, keepdims=True)
        gradient = tf.math.divide_no_nan(gradient, largest)
        squared = tf.reduce_sum(tf.square(gradient), axis=axes, keepdims=True)
        return gradient * tf.math.rsqrt(tf.maximum(squared, 1.0))

    def pooled(self, squares: tf.Tensor) -> tf.Tensor:
        """Returns the mean over each example, which keeps the direction."""
        axes = example_axes(squares)
        return tf.reduce_mean(squares, axis=axes, keepdims=True)

    def random_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws a random direction and a uniform length up to epsilon.

        In high dimension almost all of a ball's volume lies near its surface,
        and PGD is a little weaker from there than from a uniform length.
        """
        length = seeds.per_example(
            lambda s: tf.random.stateless_uniform([1, 1, 1], s),
            x,
            seeds.fold(seed, 1),
        )
        return self.from_unit(x, length * self.random_direction(x, seed))

    def random_point(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws an image uniformly from the ball, clipped to the box."""
        noise = _in_ball(_normal([1], x, seed), x, seed)
        return self.from_unit(x, noise[:, 0])

    def random_surface(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws an image uniformly from the surface, clipped to the box."""
        return self.from_unit(x, self.random_direction(x, seed))

    def random_direction(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws a vector of length 1 in a uniform direction."""
        return self.steepest(_normal([1], x, seed)[:, 0])

    def random_noise(
        self, x: tf.Tensor, num_draws: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws noisy images [batch, num_draws, ...], in the box.

        Every second one is from the surface, the others from the whole ball.
        """
        normal = _normal([num_draws], x, seed)
        ones = [1] * (len(x.shape) - 1)
        is_surface = tf.reshape(tf.range(num_draws) % 2 == 1, [-1, *ones])
        noise = tf.where(
            is_surface, self.steepest(normal), _in_ball(normal, x, seed)
        )
        return self.from_unit(x[:, tf.newaxis], noise)

    def bijector(self, event_shape: Sequence[int]) -> tfb.Bijector:
        """Returns epsilon * v / sqrt(1 + |v|^2) with v = u / sqrt(d)."""
        return tfb.Chain([tfb.Scale(self.epsilon), RadialSquash(event_shape)])

    def largest_epsilon(self, event_shape: Sequence[int]) -> float:
        """Returns the diagonal of the box."""
        low, high = self.bounds
        return (high - low) * math.sqrt(math.prod(event_shape))

    def _reach(self, x: tf.Tensor) -> float | tf.Tensor:
        """Returns the largest allowed distance, with the rounding of pixels.

        A pixel near 1 is rounded by at most 3e-8, and d pixels by
        3e-8 * sqrt(d) in l2; twice that is allowed. Sums of d squares have a
        relative error of about 1e-7. At an epsilon of 0.5 the tolerance is 1
        part in 100,000 for d = 3,072 and 5 parts for d = 150,528.
        """
        low, high = self.bounds
        size = math.prod(x.shape[-3:])
        return self.epsilon * (1 + 2e-6) + 6e-8 * math.sqrt(size) * (high - low)

    def step_to_plane(
        self, points: tf.Tensor, values: tf.Tensor, normals: tf.Tensor
    ) -> tf.Tensor:
        """Returns the shortest steps that reach a plane inside the box."""
        return planes.shortest_steps(
            points, values, normals, bounds=self.bounds, pace=tf.identity
        )

    def square_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Adds a grid of bumps of total length epsilon to the image."""
        return self.from_unit(x, self.steepest(windows.grid_of_bumps(x, seed)))

    def square_draws(self, x: tf.Tensor) -> int:
        """Returns 4 for two positions, 1 for a turn, 1 for each sign."""
        return 5 + x.shape[-1]

    def square_proposal(
        self, x: tf.Tensor, x_adv: tf.Tensor, draws: tf.Tensor, side: tf.Tensor
    ) -> tf.Tensor:
        """Moves a window's length, and the unused length, to a bump."""
        delta = windows.moved_bump(x_adv - x, draws, side, self.epsilon)
        return self.from_unit(x, self.steepest(delta))


def _normal(shape: Sequence[int], x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Draws Gaussian noise [batch, *shape, ...], independent for each image."""
    shape = tf.concat([shape, tf.shape(x)[1:]], axis=0)
    noise = seeds.per_example(
        lambda s: tf.random.stateless_normal(shape, s), x, seed
    )
    return tf.ensure_shape(noise, [None, None, *x.shape[1:]])


def _in_ball(normal: tf.Tensor, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Turns Gaussian draws [batch, n, ...] into uniform ones in the unit ball.

    The direction of a uniform draw is that of a Gaussian draw, and its length
    is the d-th root of a uniform number.
    """
    shape = [tf.shape(normal)[1]] + [1] * (len(normal.shape) - 2)
    uniform = seeds.per_example(
        lambda s: tf.random.stateless_uniform(shape, s),
        x,
        seeds.fold(seed, 1),
    )
    axes = list(range(2, len(normal.shape)))
    length = tf.sqrt(tf.reduce_sum(tf.square(normal), axis=axes, keepdims=True))
    size = math.prod(normal.shape[2:])
    return tf.math.divide_no_nan(normal, length) * uniform ** (1 / size)
