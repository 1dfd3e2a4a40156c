"""The step-size schedule of Auto-PGD, which each example follows separately.

state = State.at(start, y, step_size)
state, gradient = judged(state, values, gradient, window)
state = moved(state, gradient, momentum, threat_model, x)
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from adt_tf.attacks.results import over_images
from adt_tf.threat_models import ThreatModel

RHO = 0.75


def checkpoints(num_steps: int) -> list[int]:
    """Returns the steps after which an ascent may halve its step size.

    The numbers are rounded as in the authors' code: the first interval is 22 %
    of the steps, each further one 3 % shorter, down to 6 %; a share is rounded
    down, but to at least 1. The paper rounds the sums up instead, which is the
    same for 100 steps.

    Example:

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    window, less, least = (
        max(percent * num_steps // 100, 1) for percent in (22, 3, 6)
    )
    steps = []
    step = window
    while step <= num_steps:
        steps.append(step)
        window = max(window - less, least)
        step += window
    return steps


def windows(num_steps: int) -> list[int]:
    """Returns, for 0..num_steps steps, the steps since the last checkpoint.

    The entry is -1 at a step that is no checkpoint. The start counts as the
    first checkpoint, with a window of 0.
    """
    lengths = [0] + [-1] * num_steps
    steps = checkpoints(num_steps)
    for last, step in zip([0, *steps], steps, strict=False):
        lengths[step] = step - last
    return lengths


class State(NamedTuple):
    """The state of each example's ascent.

    Attributes:
        x_adv: Point to judge next [batch, ...].
        last_x: The point before it.
        last_value: Value of the objective at `last_x` [batch].
        best_x: The best point so far.
        best_gradient: Gradient at `best_x`.
        best_value: Value at `best_x`.
        step_size: Step size eta [batch].
        rises: Number of steps since the last checkpoint in which the value
            rose.
        checked_value: The best value at the last checkpoint.
        halved: Whether eta was halved at the last checkpoint.
    """

    x_adv: tf.Tensor
    last_x: tf.Tensor
    last_value: tf.Tensor
    best_x: tf.Tensor
    best_gradient: tf.Tensor
    best_value: tf.Tensor
    step_size: tf.Tensor
    rises: tf.Tensor
    checked_value: tf.Tensor
    halved: tf.Tensor

    @classmethod
    def at(
        cls, start: tf.Tensor, y: tf.Tensor, step_size: float | tf.Tensor
    ) -> State:
        """Returns the state before the first point, which is no rise."""
        zeros = tf.zeros_like(y, tf.float32)
        return cls(
            x_adv=start,
            last_x=start,
            last_value=zeros + float("inf"),
            best_x=start,
            best_gradient=tf.zeros_like(start),
            best_value=zeros - float("inf"),
            step_size=zeros + step_size,
            rises=zeros,
            checked_value=zeros - float("inf"),
            halved=tf.zeros_like(y, tf.bool),
        )


def judged(
    state: State, values: tf.Tensor, gradient: tf.Tensor, window: tf.Tensor
) -> tuple[State, tf.Tensor]:
    """Records a point's value; at a checkpoint it may halve the step size.

    Args:
        state: State whose `x_adv` was judged.
        values: Values of the objective [batch].
        gradient: Its gradients [batch, ...].
        window: Number of steps since the last checkpoint; -1 if this step is
            no checkpoint.

    Returns:
        The state, moved to the best point where the step size was halved, and
        the gradient at its point.
    """
    better = values > state.best_value
    best_x = _where(better, state.x_adv, state.best_x)
    best_gradient = _where(better, gradient, state.best_gradient)
    best_value = tf.where(better, values, state.best_value)
    rises = state.rises + tf.cast(values > state.last_value, tf.float32)

    checked = window >= 0
    too_few = rises < RHO * tf.cast(window, tf.float32)
    stalled = ~state.halved & (best_value == state.checked_value)
    halve = checked & (too_few | stalled)
    state = state._replace(
        x_adv=_where(halve, best_x, state.x_adv),
        last_value=tf.where(halve, best_value, values),
        best_x=best_x,
        best_gradient=best_gradient,
        best_value=best_value,
        step_size=tf.where(halve, state.step_size / 2, state.step_size),
        rises=tf.where(checked, tf.zeros_like(rises), rises),
        checked_value=tf.where(checked, best_value, state.checked_value),
        halved=tf.where(checked, halve, state.halved),
    )
    return state, _where(halve, best_gradient, gradient)


def moved(
    state: State,
    gradient: tf.Tensor,
    momentum: tf.Tensor,
    threat_model: ThreatModel,
    x: tf.Tensor,
) -> State:
    """Takes one step."""
    x_adv = state.x_adv
    step_size = over_images(state.step_size, x)
    uphill = threat_model.steepest(gradient)
    ahead = threat_model.project(x, x_adv + step_size * uphill)
    mixed = momentum * (ahead - x_adv) + (1 - momentum) * (x_adv - state.last_x)
    new = threat_model.project(x, x_adv + mixed)
    return state._replace(x_adv=new, last_x=x_adv)


def _where(condition: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Selects images [batch, ...] by a condition [batch]."""
    return tf.where(over_images(condition, one), one, other)
