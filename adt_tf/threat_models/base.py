"""The interface of a threat model: a ball of some norm, inside the pixel box.

A norm is one subclass of `ThreatModel`. It defines `name`, `norm`, `limit`,
`steepest`, `random_start`, `random_surface`, `random_direction`,
`random_noise` and `largest_epsilon`. The other methods use these; a subclass
overrides them to compute the same more exactly or faster, or where the pixel
box deforms its perturbations (docs/own_norm.md). `bijector` (for ADT-EXP and
its kin), `step_to_plane` (for FAB), `square_start`, `square_draws` and
`square_proposal` (for Square) are optional: the constructor of an attack or a
distribution rejects a norm that lacks a hook which it needs. `check` tries the
methods of a subclass.

Images are [..., height, width, channels]: "each example" refers to the last
three axes, or to all axes but the first if there are fewer.
"""

from __future__ import annotations

import abc
import copy
import math
import numbers
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow_probability import bijectors as tfb

from adt_tf import configs
from adt_tf.threat_models.verification import Verified


def example_axes(x: tf.Tensor) -> list[int]:
    """Returns the axes of one example in a batch of images or samples."""
    rank = len(x.shape)
    return list(range(max(1, rank - 3), rank))


class ThreatModel(Verified, configs.Configured, abc.ABC):
    """A ball of radius epsilon around each image, inside the pixel box.

        S(x) = {x_adv : norm(x_adv - x) <= epsilon, low <= x_adv <= high}

    A constructor of a subclass may take more arguments, if it stores each under
    its name: copies, files and `repr` repeat them. What depends on epsilon
    belongs in the methods, since `scaled` changes `epsilon` alone.

    Args:
        epsilon: Radius, in the units of the pixels; 0 allows no change.
        bounds: Lowest and highest pixel value.
    """

    #: The name of the norm, such as "l-infinity".
    name: str

    #: Words for what an adversary may do.
    allows: str = "move the image by up to {epsilon} in {name}"

    #: How `bijector` maps u into the ball, as the start of a sentence.
    squashes: str = "The change of the image is u, mapped into the ball"

    #: Name of a step along `steepest` in reports.
    steepest_name: str = "steepest"

    #: The radius: a number, or a scalar tensor after `scaled(tensor)`.
    epsilon: float | tf.Tensor

    #: The lowest and the highest pixel value.
    bounds: tuple[float, float]

    def __init__(
        self, epsilon: float, bounds: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        low, high = bounds
        if not -math.inf < low < high < math.inf:
            raise ValueError(
                "Argument `bounds` must be finite, (low, high) with low < "
                f"high. Received: bounds={bounds}"
            )
        if not 0 <= epsilon < math.inf:
            raise ValueError(
                "Argument `epsilon` must be a finite number, 0 or more. "
                f"Received: epsilon={epsilon}"
            )
        self.epsilon = float(epsilon)
        self.bounds = (float(low), float(high))

    def __repr__(self) -> str:
        arguments = {
            name: repr(getattr(self, name))
            for name in configs.argument_names(type(self))
            if hasattr(self, name)
        }
        arguments["epsilon"] = "(a tensor)"
        if self._is_constant():
            arguments["epsilon"] = f"{self.epsilon:g}"
        listed = ", ".join(f"{k}={text}" for k, text in arguments.items())
        return f"{type(self).__name__}({' '.join(listed.split())})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        if not (self._is_constant() and other._is_constant()):
            return self is other
        ours, theirs = self.get_config(), other.get_config()
        return configs.fingerprint(ours) == configs.fingerprint(theirs)

    def __hash__(self) -> int:
        if not self._is_constant():
            return id(self)
        return hash((type(self), self.epsilon, self.bounds))

    def describe(self, epsilon: str) -> str:
        """Returns what an adversary may do, as the end of a sentence.

        Args:
            epsilon: Radius, formatted for display.
        """
        return self.allows.format(epsilon=epsilon, name=self.name)

    def _is_constant(self) -> bool:
        return isinstance(self.epsilon, float)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as plain data."""
        if not self._is_constant():
            raise ValueError(
                "A threat model whose epsilon is a tensor has no config: use "
                "the config of the threat model that was scaled."
            )
        config = super().get_config()
        return {k: list(v) if k == "bounds" else v for k, v in config.items()}

    def with_epsilon(self, epsilon: float) -> ThreatModel:
        """Returns this threat model with another radius."""
        return self.from_config({**self.get_config(), "epsilon": epsilon})

    def scaled(self, share: float | tf.Tensor) -> ThreatModel:
        """Returns this threat model with a radius of share * epsilon.

        Args:
            share: A number, or a scalar tensor, for example from a schedule;
                then the radius is a tensor as well.
        """
        if self._is_constant() and isinstance(share, numbers.Real):
            epsilon: Any = share * self.epsilon
            return self.with_epsilon(epsilon)
        scaled = copy.copy(self)
        scaled.epsilon = self.epsilon * tf.cast(share, tf.float32)
        return scaled

    def has(self, hook: str) -> bool:
        """Returns whether this norm defines an optional hook.

        Args:
            hook: Name of a method, such as "step_to_plane".
        """
        return getattr(type(self), hook) is not getattr(ThreatModel, hook)

    def require(self, *hooks: str, by: str) -> None:
        """Raises `ValueError` if this norm lacks an optional hook.

        Args:
            *hooks: Names of methods, such as "step_to_plane".
            by: Name of the attack that needs them.
        """
        missing = [hook for hook in hooks if not self.has(hook)]
        if missing:
            raise ValueError(
                f"{by} cannot attack in the {self.name} norm: it needs "
                f"{missing} of the threat model. Received: {self!r}; define "
                "the methods, or choose another attack, such as "
                "`adt_tf.attacks.apgd_ce`."
            )

    @abc.abstractmethod
    def norm(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns the norm of each example's perturbation."""

    @abc.abstractmethod
    def limit(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns the point of the ball around 0 nearest to delta."""

    @abc.abstractmethod
    def steepest(self, gradient: tf.Tensor) -> tf.Tensor:
        """Returns each example's unit vector of steepest ascent.

            argmax_d <gradient, d>   with   norm(d) <= 1

        It is zero if the gradient is zero.
        """

    def pooled(self, squares: tf.Tensor) -> tf.Tensor:
        """Averages squared gradients over the coordinates that share a step.

        Adam divides by the root of the result. By default each coordinate has
        its own square, which makes a sign step, as suits l-infinity.
        """
        return squares

    @abc.abstractmethod
    def random_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws an image from the ball around each example, in the box."""

    def random_point(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws a uniform image from the ball around each example, in the box.

        By default it is `random_start`; override it if that is not uniform.
        """
        return self.random_start(x, seed)

    @abc.abstractmethod
    def random_surface(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws noise, scaled to the surface of the ball, in the box."""

    @abc.abstractmethod
    def random_direction(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws a unit vector for each example: an extreme point of the ball.

        It is a possible result of `steepest`.
        """

    @abc.abstractmethod
    def random_noise(
        self, x: tf.Tensor, num_draws: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws noisy images [batch, num_draws, ...], in the box.

        Every second image is an extreme point of the ball; the others lie
        anywhere in it.
        """

    def bijector(self, event_shape: Sequence[int]) -> tfb.Bijector:
        """Returns a bijector from R^d onto the open ball around 0."""
        raise NotImplementedError

    @abc.abstractmethod
    def largest_epsilon(self, event_shape: Sequence[int]) -> float:
        """Returns the smallest radius whose ball contains the whole box."""

    def clip(self, x: tf.Tensor) -> tf.Tensor:
        """Clips an image to the pixel box."""
        return tf.clip_by_value(x, *self.bounds)

    def perturb(self, x: tf.Tensor, delta: tf.Tensor) -> tf.Tensor:
        """Returns x + delta, with delta limited to the ball, in the box."""
        return self.clip(x + self.limit(delta))

    def project(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns a point of the ball and box around x, near x_adv.

        A point inside stays unchanged.
        """
        return self.perturb(x, x_adv - x)

    def from_unit(self, x: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
        """Returns x + epsilon * direction, in the ball and the box.

        Args:
            x: Images.
            direction: Vector of the unit ball, or outputs of a network in
                [-1, 1]; vectors outside the unit ball are limited to it.
        """
        return self.perturb(x, self.epsilon * direction)

    def limit_to_unit(self, direction: tf.Tensor) -> tf.Tensor:
        """Returns the point of the unit ball nearest to a direction."""
        unit = copy.copy(self)
        unit.epsilon = 1.0
        return unit.limit(direction)

    def distance(self, x: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
        """Returns the norm of x_adv - x of each example."""
        return self.norm(x_adv - x)

    def relative_size(self, delta: tf.Tensor) -> tf.Tensor:
        """Returns the size of perturbations relative to the ball, 0 to 1.

        The tensor may have any shape; a trainer reports its mean.
        """
        return self.norm(delta) / self.epsilon

    def squash(
        self, u: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, float | tf.Tensor]:
        """Maps u into the ball by `bijector`, with the log-determinant.

        Args:
            u: Samples [batch, k, ...].

        Returns:
            The perturbations, a tensor that broadcasts against u, and a
            number. The log-determinant of the map is the sum of the last two
            over the dimensions of an example, so that callers can take the
            mean over the dimensions as well as the sum.
        """
        event_shape = u.shape[2:]
        bijector = self.bijector(event_shape)
        log_det = bijector.forward_log_det_jacobian(
            u, event_ndims=len(event_shape)
        )
        ones = [1] * len(event_shape)
        log_det = tf.reshape(log_det, tf.concat([tf.shape(u)[:2], ones], 0))
        return bijector.forward(u), log_det / math.prod(event_shape), 0.0

    def step_to_plane(
        self, points: tf.Tensor, values: tf.Tensor, normals: tf.Tensor
    ) -> tf.Tensor:
        """Returns the shortest steps in this norm to a plane inside the box.

            min norm(d)  with  value + <normal, d> = 0,  low <= point + d <= high

        Args:
            points: Points in the box [n, d].
            values: Values of the linear function at the points [n].
            normals: Gradients of the linear function [n, d].
        """  # noqa: E501
        raise NotImplementedError

    def square_start(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Returns the images from which the Square attack starts."""
        raise NotImplementedError

    def square_draws(self, x: tf.Tensor) -> int:
        """Returns the number of random numbers in a proposal of Square."""
        raise NotImplementedError

    def square_proposal(
        self, x: tf.Tensor, x_adv: tf.Tensor, draws: tf.Tensor, side: tf.Tensor
    ) -> tf.Tensor:
        """Changes one window of each image, as the Square attack proposes.

        Args:
            x: Clean images [batch, height, width, channels].
            x_adv: Images to change.
            draws: Random numbers in [0, 1) [batch, square_draws(x)].
            side: Side of the window, in pixels.
        """
        raise NotImplementedError
