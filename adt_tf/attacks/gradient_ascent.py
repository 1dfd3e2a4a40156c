"""The one ascent loop: any distribution, objective and step rule."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.base import AdversarialBatch, Attack
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule


class GradientAscent(Attack):
    """Climbs E_p[objective] + entropy_weight * H(p) in the parameters of p.

        phi <- project(step(phi, grad mean_k [objective(x + delta_k)
                                              - entropy_weight * log p(delta_k)]))

    With a Dirac family it is FGSM, PGD, MIM or C&W; with a TanhGaussian it is
    the inner problem of ADT-EXP. Every example climbs on its own: no result
    depends on the others in the batch, unless the objective couples them, as
    `transport_distance` does by its nature.

    Args:
        distribution: The family p and its parameters' start and projection.
        objective: What is climbed, a function of `adt_tf.objectives`.
        step_rule: How, a rule of `adt_tf.step_rules`.
        num_steps: How many steps.
        num_samples: Monte-Carlo samples a step, k.
        entropy_weight: lambda.
        name: How tables call it.
    """  # noqa: E501

    def __init__(
        self,
        distribution: Any,
        objective: Objective,
        step_rule: StepRule,
        *,
        num_steps: int,
        num_samples: int = 1,
        entropy_weight: float = 0.0,
        name: str = "ascent",
    ):
        for key, value in {
            "num_steps": num_steps,
            "num_samples": num_samples,
        }.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"Argument `{key}` must be a positive integer. "
                    f"Received: {key}={value}"
                )
        if entropy_weight < 0:
            raise ValueError(
                "Argument `entropy_weight` must not be negative. Received: "
                f"entropy_weight={entropy_weight}"
            )
        super().__init__(distribution.threat_model, name)
        self.family = distribution
        self.objective = objective
        self.step_rule = step_rule
        self.num_steps = num_steps
        self.num_samples = num_samples
        self.entropy_weight = entropy_weight

    def __repr__(self) -> str:
        parts = [
            f"{type(self.family).__name__} in {self.threat_model}",
            getattr(self.objective, "__name__", "objective"),
            self.step_rule.name,
            f"num_steps={self.num_steps}",
        ]
        if self.num_samples > 1:
            parts.append(f"num_samples={self.num_samples}")
        if self.entropy_weight:
            parts.append(f"entropy_weight={self.entropy_weight:g}")
        return f"<{self.name}: {', '.join(parts)}>"

    def solve(self, classifier, x, y, *, seed, jit_compile=False):
        """Returns the parameters after `num_steps` steps.

        The loop stays in graph mode and calls one step, which XLA compiles
        where asked: convolutions inside an XLA loop lose their fast path on a
        CPU. The noise is drawn outside the step, so that the compiled and the
        plain step see the same.
        """
        value = self.objective(classifier, x, y, seed=seeds.fold(seed, -1))
        params = self.family.init(x, seeds.fold(seed, -2))

        def step(params, state, noise):
            gradients = self._gradients(value, x, params, noise)
            params, state = self.step_rule.update(params, gradients, state)
            return self.family.project(x, params), state

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)

        def body(t, params, state):
            noise = self.family.noise(x, self.num_samples, seeds.fold(seed, t))
            return (t + 1, *step(params, state, noise))

        _, params, _ = tf.while_loop(
            lambda t, *_: t < self.num_steps,
            body,
            (0, params, self.step_rule.init(params)),
            maximum_iterations=self.num_steps,
        )
        return tf.nest.map_structure(tf.stop_gradient, params)

    def _gradients(self, value, x, params, noise):
        # Examples do not interact, so the gradient of the sum over the batch
        # is each example's own.
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            x_adv, entropy = self.family.sample(x, params, noise)
            climbed = value(x_adv)
            if self.entropy_weight:
                climbed += self.entropy_weight * entropy
            total = tf.reduce_sum(tf.reduce_mean(climbed, axis=1))
        return tape.gradient(total, params)

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Draws fresh samples of the distribution found."""
        noise = self.family.noise(x, num_samples, seed)
        x_adv, entropy = self.family.sample(x, solution, noise)
        return AdversarialBatch(x_adv, entropy, self.entropy_weight * entropy)

    def as_tfp(self, x, solution):
        """Returns the distribution found, over perturbations."""
        return self.family.as_tfp(x, solution)
