"""Step rules: how an ascent moves its parameters.

    rule = steepest(2 / 255)             # PGD; `sign` is the same
    rule = steepest(share=1 / 4)         # a step of epsilon / 4
    rule = momentum(2 / 255)             # MIM
    rule = adam(0.3)                     # ADT-EXP
    rule = langevin(temperature=0.1)     # a noisy ascent, as in DALE
    state = rule.init(params)
    state = rule.draw(state, x, seed)    # noise, for a noisy rule
    params, state = rule.update(params, gradients, state, threat_model)

Parameters and state are nests of tensors whose first axis is the batch, so a
rule works in a tf.while_loop and under XLA. Rules with the same data are equal.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.checks import arguments
from adt_tf.configs import Configured
from adt_tf.threat_models import ThreatModel

map_structure = tf.nest.map_structure


class StepRule(Configured, abc.ABC):
    """An ascent rule."""

    #: Whether a step depends on the parameters and their gradient alone.
    is_memoryless: bool = False

    @abc.abstractmethod
    def init(self, params: Any) -> Any:
        """Returns the state before the first step."""

    @abc.abstractmethod
    def update(
        self, params: Any, gradients: Any, state: Any, threat_model: ThreatModel
    ) -> tuple[Any, Any]:
        """Returns the parameters and the state after a step.

        Args:
            params: Parameters before the step.
            gradients: Gradients, a nest like `params`.
            state: State after the last step, or `init`.
            threat_model: Threat model whose norm defines the steepest ascent,
                and whose epsilon may define the step size.
        """

    def draw(self, state: Any, x: tf.Tensor, seed: tf.Tensor) -> Any:
        """Returns the state with the noise of the next step, if any.

        A loop calls this before each `update`, outside of the part that XLA
        compiles. An image x has the same noise in any batch.
        """
        del x, seed
        return state

    def describe(self, threat_model: ThreatModel) -> str:
        """Returns a short name for reports, with the step size."""
        del threat_model
        return type(self).__name__.lower()


def normalize_gradient(gradient: tf.Tensor) -> tf.Tensor:
    """Divides each example's gradient by the mean of its absolute values."""
    axes = list(range(1, len(gradient.shape)))
    scale = tf.reduce_mean(tf.abs(gradient), axis=axes, keepdims=True)
    return tf.math.divide_no_nan(gradient, scale)


@dataclasses.dataclass(frozen=True)
class Steepest(StepRule):
    """Steepest ascent in the norm of the threat model.

        p <- p + step_size * s(g)

    In l-infinity s(g) is sign(g).

    Args:
        step_size: Length of a step; None for a share of epsilon.
        share: Share of epsilon, if `step_size` is None. If epsilon follows a
            schedule, the step follows it too.
    """

    step_size: float | None = None
    _: dataclasses.KW_ONLY
    share: float = 1 / 4

    is_memoryless = True

    def __post_init__(self) -> None:
        if self.step_size is not None:
            arguments.number_above(0, step_size=self.step_size)
        arguments.number_above(0, share=self.share)

    def init(self, params: Any) -> tuple[()]:
        """Returns an empty state: steps do not depend on each other."""
        return ()

    def update(
        self, params: Any, gradients: Any, state: Any, threat_model: ThreatModel
    ) -> tuple[Any, Any]:
        """Takes a step of fixed length."""
        size = self.size(threat_model)
        params = map_structure(
            lambda p, g: p + size * threat_model.steepest(g), params, gradients
        )
        return params, state

    def describe(self, threat_model: ThreatModel) -> str:
        """Returns the name of the rule with the length of a step."""
        size = self.size(threat_model)
        shown = "a tensor" if tf.is_tensor(size) else f"{size:.4g}"
        return f"{threat_model.steepest_name}({shown})"

    def size(self, threat_model: ThreatModel) -> float | tf.Tensor:
        """Returns the length of a step."""
        return self.step_size or self.share * threat_model.epsilon


@dataclasses.dataclass(frozen=True)
class Langevin(StepRule):
    """A steepest step with Gaussian noise.

        p <- p + h s(g) + sqrt(2 h T epsilon) n,  n ~ N(0, I)

    The visited points spread around the maximum at which a steepest ascent
    would end. If the slope in the norm is 1 everywhere, as for a linear
    function, they follow the density exp(f(p) / (T epsilon)) in the ball as h
    becomes small. The noise is divided by the norm of a vector of ones, so
    that T has the same meaning in each norm.

    Args:
        step_size: Length h of a step; None for a share of epsilon.
        share: Share of epsilon, if `step_size` is None.
        temperature: Temperature T; 0 gives `steepest`.

    Reference: Robey et al., Adversarial Robustness with Semi-Infinite
    Constrained Learning, 2021 (DALE), which uses these steps along the sign.
    """

    step_size: float | None = None
    _: dataclasses.KW_ONLY
    share: float = 1 / 4
    temperature: float = 0.01

    def __post_init__(self) -> None:
        arguments.number_at_least(0, temperature=self.temperature)
        self._steepest()

    def _steepest(self) -> Steepest:
        return Steepest(self.step_size, share=self.share)

    def init(self, params: Any) -> Any:
        """Returns zero noise."""
        return map_structure(tf.zeros_like, params)

    def draw(self, state: Any, x: tf.Tensor, seed: tf.Tensor) -> Any:
        """Draws the noise of the next step, independent for each image."""
        leaves = []
        for i, leaf in enumerate(tf.nest.flatten(state)):
            shape = tf.shape(leaf)[1:]
            noise = seeds.per_example(
                functools.partial(tf.random.stateless_normal, shape),
                x,
                seeds.fold(seed, i),
            )
            leaves.append(tf.ensure_shape(noise, leaf.shape))
        return tf.nest.pack_sequence_as(state, leaves)

    def update(
        self, params: Any, gradients: Any, state: Any, threat_model: ThreatModel
    ) -> tuple[Any, Any]:
        """Takes a steepest step and adds the noise."""
        rule = self._steepest()
        params, _ = rule.update(params, gradients, (), threat_model)
        variance = 2.0 * rule.size(threat_model) * self.temperature
        deviation = tf.sqrt(variance * threat_model.epsilon)

        def noisy(p: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
            unit = threat_model.norm(tf.ones_like(p[:1]))
            return p + deviation / tf.reduce_max(unit) * noise

        return map_structure(noisy, params, state), state

    def describe(self, threat_model: ThreatModel) -> str:
        """Returns the name with the step size and the temperature."""
        step = self._steepest().describe(threat_model)
        return f"langevin({step}, {self.temperature:g})"


@dataclasses.dataclass(frozen=True)
class Accumulate(StepRule):
    """Applies a rule to m <- decay * m + normalize(g) in place of g.

    Args:
        rule: Rule that takes the step.
        decay: Weight of the earlier gradients.
        normalize: Function applied to each gradient first; None for none.
    """

    rule: StepRule
    decay: float
    normalize: Callable[[tf.Tensor], tf.Tensor] | None = None

    def init(self, params: Any) -> tuple[Any, Any]:
        """Returns m = 0, and the state of the rule."""
        return map_structure(tf.zeros_like, params), self.rule.init(params)

    def update(
        self, params: Any, gradients: Any, state: Any, threat_model: ThreatModel
    ) -> tuple[Any, Any]:
        """Adds the gradient to m, and takes a step of the rule along m."""
        average, inner = state
        if self.normalize is not None:
            gradients = map_structure(self.normalize, gradients)
        average = map_structure(
            lambda m, g: self.decay * m + g, average, gradients
        )
        params, inner = self.rule.update(params, average, inner, threat_model)
        return params, (average, inner)

    def draw(self, state: Any, x: tf.Tensor, seed: tf.Tensor) -> Any:
        """Draws the noise of the rule."""
        average, inner = state
        return average, self.rule.draw(inner, x, seed)

    def describe(self, threat_model: ThreatModel) -> str:
        """Returns the names of both rules, and the decay."""
        return f"accumulate({self.rule.describe(threat_model)}, {self.decay:g})"


@dataclasses.dataclass(frozen=True)
class Adam(StepRule):
    """Adam with bias correction, ascending.

        m <- beta_1 m + (1 - beta_1) g,  v <- beta_2 v + (1 - beta_2) g^2
        p <- p + learning_rate * m_hat / (sqrt(v_hat) + epsilon)

    With both betas 0, the paper's choice for phi, a step in l-infinity is
    learning_rate * g / (|g| + epsilon): a sign step that vanishes with the
    gradient. Other norms share v among the coordinates (`ThreatModel.pooled`):
    in l2 the step is learning_rate * g / rms(g), along the gradient and as
    long as the sign step.

    Args:
        learning_rate: Length of a step in each coordinate; None for a share
            of epsilon.
        beta_1: Decay of the mean of the gradients.
        beta_2: Decay of the mean of their squares.
        epsilon: Constant that keeps the quotient finite. An implementation
            whose gradient is c times ours, such as the gradient of a batch's
            mean, and which adds 1e-8, corresponds to epsilon = 1e-8 / c.
        share: Share of the threat model's epsilon that a step covers in its
            norm, if `learning_rate` is None and all coordinates move.
    """

    learning_rate: float | None
    beta_1: float = 0.0
    beta_2: float = 0.0
    epsilon: float = 1e-8
    _: dataclasses.KW_ONLY
    share: float = 1 / 4

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            arguments.number_above(0, learning_rate=self.learning_rate)
        arguments.number_above(0, epsilon=self.epsilon)
        arguments.number_above(0, share=self.share)

    def init(self, params: Any) -> tuple[Any, Any, tf.Tensor]:
        """Returns m = 0, v = 0 and each example's number of steps."""
        zeros = map_structure(tf.zeros_like, params)
        size = tf.shape(tf.nest.flatten(params)[0])[:1]
        return zeros, zeros, tf.zeros(size)

    def update(
        self, params: Any, gradients: Any, state: Any, threat_model: ThreatModel
    ) -> tuple[Any, Any]:
        """Takes a step."""
        beta_1, beta_2 = self.beta_1, self.beta_2
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

        def rate(p: tf.Tensor) -> float | tf.Tensor:
            if self.learning_rate is not None:
                return self.learning_rate
            unit = threat_model.norm(tf.ones_like(p[:1]))[0]
            return self.share * threat_model.epsilon / unit

        def moved(p: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            ones = [1] * (len(p.shape) - 1)
            m /= tf.reshape(first_scale, [-1, *ones])
            v = threat_model.pooled(v / tf.reshape(second_scale, [-1, *ones]))
            return p + rate(p) * m / (tf.sqrt(v) + self.epsilon)

        params = map_structure(moved, params, first, second)
        return params, (first, second, count)

    def describe(self, threat_model: ThreatModel) -> str:
        """Returns the name of the rule with its numbers."""
        del threat_model
        rate = f"{self.share:g} epsilon"
        if self.learning_rate is not None:
            rate = f"{self.learning_rate:g}"
        numbers = [self.beta_1, self.beta_2]
        if self.epsilon != type(self).epsilon:
            numbers.append(self.epsilon)
        return f"adam({', '.join([rate, *(f'{n:g}' for n in numbers)])})"


steepest = sign = Steepest
accumulate = Accumulate
adam = Adam
langevin = Langevin


def momentum(
    step_size: float | None = None, decay: float = 1.0, *, share: float = 1 / 4
) -> StepRule:
    """Steepest ascent along accumulated gradients.

        m <- decay * m + g / mean|g|,   p <- p + step_size * s(m)

    The mean is over each example's own gradient; s is the steepest ascent of
    the threat model's norm.

    Args:
        step_size: Length of a step; None for a share of epsilon.
        decay: Weight of the earlier gradients.
        share: Share of epsilon, if `step_size` is None.

    Reference: Dong et al., Boosting Adversarial Attacks with Momentum, 2018.
    """
    rule = Steepest(step_size, share=share)
    return Accumulate(rule, decay, normalize_gradient)
