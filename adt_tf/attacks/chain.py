"""An ascent whose distribution is that of the points it has visited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import gradients
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.attacks.results import AdversarialBatch, Draw, Problem
from adt_tf.checks import arguments
from adt_tf.distributions import Dirac, Empirical
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule


class Chain(GradientAscent):
    """Climbs with a point, and remembers the last n points of the climb.

    With a noisy rule such as `step_rules.langevin` the climb is a Markov
    chain, and its last points, after it has forgotten its start, are samples
    of its limit distribution. The trainer draws from these points,
    `distribution` returns their empirical distribution, and a call returns the
    strongest image that the chain has met, as PGD does.

    Args:
        distribution: The point and its start, a `Dirac`.
        objective: Function that is climbed.
        step_rule: Rule of a step.
        num_steps: Number of steps.
        num_points: Number of the last points that are kept, n.
        gradient: Estimator of the gradient; by default backpropagation.
        name: Name in tables.
    """

    def __init__(
        self,
        distribution: Dirac,
        objective: Objective | Callable[..., Any],
        step_rule: StepRule,
        *,
        num_steps: int,
        num_points: int,
        gradient: gradients.GradientEstimator | None = None,
        name: str = "chain",
    ) -> None:
        super().__init__(
            distribution,
            objective,
            step_rule,
            num_steps=num_steps,
            gradient=gradient,
            name=name,
        )
        arguments.integer_at_least(1, num_points=num_points)
        if num_points > num_steps:
            raise arguments.error(
                f"not be above the number of steps, {num_steps}",
                num_points=num_points,
            )
        self.num_points = num_points

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        for name in ("num_samples", "entropy_weight", "keep"):
            del config[name]
        return {**config, "num_points": self.num_points}

    @property
    def _visited(self) -> Empirical:
        return Empirical(self.threat_model, num_points=self.num_points)

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the last points [batch, num_points, ...]."""

        def point(
            x_adv: tf.Tensor, logits: tf.Tensor, y: tf.Tensor
        ) -> tf.Tensor:
            return x_adv[:, 0]

        last, visited = self._walk(problem, point)
        # A step records the point from which it starts.
        points = tf.concat([visited, last[:, tf.newaxis]], axis=1)
        return tf.stop_gradient(points[:, -self.num_points :])

    def _sample(
        self, x: tf.Tensor, solution: tf.Tensor, draw: Draw
    ) -> AdversarialBatch:
        """Draws from the points."""
        return self._draws(self._visited, x, solution, draw)

    def as_tfp(self, x: tf.Tensor, solution: tf.Tensor) -> tfd.Distribution:
        """Returns the empirical distribution of the perturbations."""
        return self._visited.as_tfp(x, solution)
