"""Auto-PGD: projected steepest steps whose size adapts itself.

    apgd_ce(8 / 255)        # climbs the cross-entropy
    apgd_t(8 / 255)         # the difference of logits ratio, nine targets
    apgd_dlr(8 / 255)       # the same ratio without a target

The first two are the gradient attacks of AutoAttack's standard ensemble. The
ratio does not change when all logits are scaled or shifted, so it has a useful
gradient where the cross-entropy of a very confident classifier has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import checks, gradients, objectives, seeds, threat_models
from adt_tf.attacks.autoattack_parts import apgd_schedule
from adt_tf.attacks.autoattack_parts.apgd_schedule import checkpoints
from adt_tf.attacks.autoattack_parts.targets import likeliest_wrong
from adt_tf.attacks.base import PointAttack
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Problem,
    Progress,
    Strongest,
)
from adt_tf.checks import arguments
from adt_tf.objectives import (
    Objective,
    cross_entropy_of,
    dlr_of,
    targeted_dlr_of,
)
from adt_tf.threat_models import ThreatModel

MOMENTUM = 0.75

__all__ = ["APGD", "apgd_ce", "apgd_dlr", "apgd_t", "checkpoints"]


class APGD(PointAttack):
    """Momentum steps, halved for each example when progress stalls.

        z       = project(x_k + eta s(grad f(x_k))),   eta = 2 epsilon first
        x_(k+1) = project(x_k + 0.75 (z - x_k) + 0.25 (x_k - x_(k-1)))

    s(g) is the threat model's unit vector of steepest ascent, the sign in
    l-infinity. The first step goes all the way to z. At a checkpoint eta is
    halved, and the ascent continues from the best point so far, if since the
    last checkpoint

        1. f rose in fewer than 0.75 of the steps, or
        2. the best f has not changed, and eta was not halved there.

    The conditions are those of the paper. The authors' code also halves at
    exactly 0.75, omits the second condition at the first checkpoint, and
    counts the first rise after a restart from the abandoned point.

    The attack returns the strongest image met, the clean image included.

    With targets, part i climbs towards the class with the i-th highest clean
    logit, from 0, among those other than y. If the classifier has fewer
    classes, the last parts have no target: they take no step and return the
    clean image.

    Args:
        threat_model: Ball and pixel box.
        objective: Function f: an objective of `adt_tf.objectives`, or a
            function that `objectives.get` accepts, such as `dlr_of`; with
            targets a function of logits that also takes the target, such as
            `targeted_dlr_of`.
        num_steps: Number of steps; the classifier sees one image more.
        num_targets: Number of target classes, each tried as one part; None
            for an objective without a target.
        name: Name in tables.

    Reference: Croce and Hein, Reliable Evaluation of Adversarial Robustness
    with an Ensemble of Diverse Parameter-free Attacks, 2020.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> APGD(Linf(0.1), dlr_of, num_steps=20)
    <APGD: Linf(epsilon=0.1, bounds=(0.0, 1.0)), dlr_of, num_steps=20>
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        objective: Objective | Callable[..., Any],
        *,
        num_steps: int = 100,
        num_targets: int | None = None,
        name: str = "APGD",
    ) -> None:
        arguments.integer_at_least(1, num_steps=num_steps)
        if num_targets is not None:
            arguments.integer_at_least(1, num_targets=num_targets)
        super().__init__(threat_model, name)
        self.objective = objectives.get(objective)
        self.num_steps = num_steps
        self.num_targets = num_targets
        self.num_parts = num_targets or 1

    def __repr__(self) -> str:
        parts = [
            repr(self.threat_model),
            self.objective.name,
            f"num_steps={self.num_steps}",
        ]
        if self.num_targets:
            parts.append(f"num_targets={self.num_targets}")
        return f"<{self.name}: {', '.join(parts)}>"

    @property
    def length(self) -> int:
        """Number of steps, and one more to judge the start."""
        return self.num_steps + 1

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the objective cannot use the classifier."""
        self.objective.check(classifier)

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the strongest image met."""
        problem = problem._replace(y=checks.classes_of(problem.y))
        progress = self._start(problem)
        progress = self._climb(problem, progress, self.length)
        return tf.stop_gradient(progress.best.x_adv)

    def begin(self, problem: Problem) -> Progress:
        """Draws the start and selects the target."""
        return self._start(problem._replace(seed=seeds.fold(problem.seed, 0)))

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes further steps."""
        problem = problem._replace(seed=seeds.fold(problem.seed, 0))
        return self._climb(problem, progress, num_steps)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the strongest image met; the clean one was the first."""
        return self._point(progress)

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen: the strongest image counts."""
        fallen = progress.best.wrong
        return Decided(fallen, tf.zeros_like(fallen))

    def _start(self, problem: Problem) -> Progress:
        classifier, x, y, seed, part, _ = problem
        part = tf.cast(part, tf.int32)
        clean = objectives.logits_of(classifier, x[:, tf.newaxis])[:, 0]
        step, targets = tf.constant(0), {}
        if self.num_targets:
            targets = {"target": likeliest_wrong(clean, y, part)}
            # A part without a target takes no step.
            step = tf.where(part < clean.shape[-1] - 1, 0, self.length)
        threat_model = self.threat_model
        start = threat_model.random_surface(x, seeds.fold(seed, part))
        state = apgd_schedule.State.at(start, y, 2 * threat_model.epsilon)
        return Progress(step, (state, targets), Strongest.of(x, clean, y))

    def _climb(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes at most `num_steps` steps.

        The loop stays in graph mode and calls one step, which XLA may compile,
        for the reasons of `ascent_loop`. A step judges a point and moves on
        from it, so that the classifier appears once in the loop.
        """
        classifier, x, y, seed, _, jit_compile = problem
        first, (state, targets), strongest = progress
        last = tf.minimum(first + num_steps, self.length)
        value = self.objective(
            classifier, x, y, seed=seeds.fold(seed, -1), **targets
        )

        def step(
            state: apgd_schedule.State,
            strongest: Strongest,
            step_index: tf.Tensor,
            window: tf.Tensor,
        ) -> tuple[apgd_schedule.State, Strongest]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(state.x_adv)
                values, logits = value(state.x_adv[:, tf.newaxis])
                values, logits = values[:, 0], logits[:, 0]
                # Each example's own gradient, since none acts on another.
                total = tf.reduce_sum(values)
            gradient = gradients.finite(
                tape.gradient(
                    total,
                    state.x_adv,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
            )
            seen = Strongest.of(state.x_adv, logits, y)
            state, gradient = apgd_schedule.judged(
                state, values, gradient, window
            )
            momentum = tf.where(step_index == 0, 1.0, MOMENTUM)
            state = apgd_schedule.moved(
                state, gradient, momentum, self.threat_model, x
            )
            return state, strongest.updated(seen)

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)

        windows = tf.constant(apgd_schedule.windows(self.num_steps))

        def body(t: tf.Tensor, state: Any, strongest: Strongest) -> Any:
            return (t + 1, *step(state, strongest, t, windows[t]))

        _, state, strongest = tf.while_loop(
            lambda t, state, strongest: t < last,
            body,
            (first, state, strongest),
            maximum_iterations=self.length,
        )
        return Progress(last, (state, targets), strongest)


def apgd_ce(epsilon: float | ThreatModel, *, num_steps: int = 100) -> APGD:
    """Auto-PGD on the cross-entropy.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps.
    """
    return APGD(
        threat_models.get(epsilon),
        cross_entropy_of,
        num_steps=num_steps,
        name="APGD-CE",
    )


def apgd_t(
    epsilon: float | ThreatModel, *, num_steps: int = 100, num_targets: int = 9
) -> APGD:
    """Auto-PGD on the targeted ratio, for each of the likeliest wrong classes.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps for each target.
        num_targets: Number of targets; a classifier with fewer wrong classes
            is attacked towards all of them.
    """
    return APGD(
        threat_models.get(epsilon),
        targeted_dlr_of,
        num_steps=num_steps,
        num_targets=num_targets,
        name="APGD-T",
    )


def apgd_dlr(epsilon: float | ThreatModel, *, num_steps: int = 100) -> APGD:
    """Auto-PGD on the ratio without a target.

    The arguments are those of `apgd_ce`.
    """
    return APGD(
        threat_models.get(epsilon),
        dlr_of,
        num_steps=num_steps,
        name="APGD-DLR",
    )
