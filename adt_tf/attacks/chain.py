"""An ascent whose distribution is that of the points it has visited."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import gradients
from adt_tf.attacks.gradient_ascent import GradientAscent
from adt_tf.checks import arguments
from adt_tf.distributions import Dirac, Empirical
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule


class Chain(GradientAscent):
    """Climbs with a point, and remembers the last n points of the climb.

    With a noisy rule such as `step_rules.langevin` the climb is a Markov
    chain, and its last points, after it has forgotten its start, are samples
    of what it converges to. The trainer draws from them, `distribution` gives
    the empirical distribution of all of them, and a call the strongest image
    that the chain has met, as PGD does.

    Args:
        distribution: The point and where it starts, a `Dirac`.
        objective: What is climbed.
        step_rule: The rule of a step.
        num_steps: Number of steps.
        num_points: Number of the last points that are kept, n.
        gradient: Estimator of the gradient; by default backpropagation.
        name: The attack's name in tables.
    """

    def __init__(
        self,
        distribution: Dirac,
        objective: Objective,
        step_rule: StepRule,
        *,
        num_steps: int,
        num_points: int,
        gradient: gradients.GradientEstimator | None = None,
        name: str = "chain",
    ):
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
        names = (
            "objective",
            "step_rule",
            "num_steps",
            "num_points",
            "gradient",
            "name",
        )
        config = {name: getattr(self, name) for name in names}
        return {"distribution": self.family, **config}

    @property
    def _visited(self) -> Empirical:
        return Empirical(self.threat_model, num_points=self.num_points)

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the last points [batch, num_points, ...]."""

        def point(x_adv, logits, y):
            return x_adv[:, 0]

        last, visited = self._walk(
            classifier, x, y, point, seed=seed, jit_compile=jit_compile
        )
        # What a step records is where it starts from.
        points = tf.concat([visited, last[:, tf.newaxis]], axis=1)
        return tf.stop_gradient(points[:, -self.num_points :])

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Draws from the points."""
        return self._draws(
            self._visited, x, solution, num_samples=num_samples, seed=seed
        )

    def as_tfp(self, x, solution):
        """Returns the empirical distribution of the perturbations."""
        return self._visited.as_tfp(x, solution)
