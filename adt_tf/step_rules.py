"""How an ascent moves its parameters: pure (init, update) pairs.

    rule = sign(2 / 255)                 # PGD
    rule = momentum(2 / 255)             # MIM
    rule = adam(0.3)                     # ADT-EXP
    state = rule.init(params)
    params, state = rule.update(params, gradients, state)

Parameters may be any nest of tensors whose first axis is the batch. The state
is a nest of tensors as well, so a rule lives in a tf.while_loop and under XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

map_structure = tf.nest.map_structure


class StepRule(NamedTuple):
    """An ascent rule. `init(params)`, `update(params, gradients, state)`.

    `name` describes it in reports.
    """

    name: str
    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(
            f"Argument `{name}` must be above 0. Received: {name}={value}"
        )


def normalize_gradient(gradient: tf.Tensor) -> tf.Tensor:
    """Divides each example's gradient by the mean of its absolute values."""
    axes = list(range(1, len(gradient.shape)))
    scale = tf.reduce_mean(tf.abs(gradient), axis=axes, keepdims=True)
    return tf.math.divide_no_nan(gradient, scale)


def sign(step_size: float | Callable[[], float]) -> StepRule:
    """p <- p + step_size * sign(g), the steepest ascent in l-infinity.

    Args:
        step_size: A number, or a function that gives one when the step is
            traced, such as a share of an epsilon that is being warmed up.
    """
    size = step_size if callable(step_size) else lambda: step_size
    if not callable(step_size):
        _positive("step_size", step_size)

    def update(params, gradients, state):
        moved = map_structure(
            lambda p, g: p + size() * tf.sign(g), params, gradients
        )
        return moved, state

    return StepRule(f"sign({size():.4g})", lambda params: (), update)


def accumulate(
    rule: StepRule,
    decay: float,
    normalize: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> StepRule:
    """Feeds `rule` with m <- decay * m + normalize(g) in place of g."""

    def init(params):
        return map_structure(tf.zeros_like, params), rule.init(params)

    def update(params, gradients, state):
        average, inner = state
        average = map_structure(
            lambda m, g: decay * m + normalize(g), average, gradients
        )
        params, inner = rule.update(params, average, inner)
        return params, (average, inner)

    name = f"accumulate({rule.name}, {decay:g})"
    return StepRule(name, init, update)


def momentum(
    step_size: float | Callable[[], float], decay: float = 1.0
) -> StepRule:
    """m <- decay * m + g / mean|g|;  p <- p + step_size * sign(m).

    The mean is over each example's own gradient.

    Reference: Dong et al., Boosting Adversarial Attacks with Momentum, 2018.
    """
    return accumulate(sign(step_size), decay, normalize_gradient)


def adam(
    learning_rate: float,
    beta_1: float = 0.0,
    beta_2: float = 0.0,
    epsilon: float = 1e-8,
) -> StepRule:
    """Adam with bias correction, ascending.

        m <- beta_1 m + (1 - beta_1) g,  v <- beta_2 v + (1 - beta_2) g^2
        p <- p + learning_rate * m_hat / (sqrt(v_hat) + epsilon)

    With both betas 0, the paper's choice for phi, a step is
    learning_rate * g / (|g| + epsilon): a sign step that fades where the
    gradient does.
    """
    _positive("learning_rate", learning_rate)

    def init(params):
        zeros = map_structure(tf.zeros_like, params)
        return zeros, zeros, tf.constant(0.0)

    def update(params, gradients, state):
        first, second, count = state
        count += 1.0
        first = map_structure(
            lambda m, g: beta_1 * m + (1 - beta_1) * g, first, gradients
        )
        second = map_structure(
            lambda v, g: beta_2 * v + (1 - beta_2) * g * g, second, gradients
        )
        first_scale = 1.0 - tf.pow(beta_1, count)
        second_scale = 1.0 - tf.pow(beta_2, count)
        params = map_structure(
            lambda p, m, v: (
                p
                + learning_rate
                * (m / first_scale)
                / (tf.sqrt(v / second_scale) + epsilon)
            ),
            params,
            first,
            second,
        )
        return params, (first, second, count)

    name = f"adam({learning_rate:g}, {beta_1:g}, {beta_2:g})"
    return StepRule(name, init, update)
