"""FAB-T: the nearest image that the classifier assigns to another class.

    attack = fab_t(8 / 255)
    x_adv = attack(classifier, x, y).x_adv                  # in the ball
    closest, distance = attack.closest(classifier, x, y)    # at any distance

Other attacks search for the worst image in the ball; this one walks along the
decision boundary towards the clean image, and checks at the end whether the
boundary is within epsilon. It has no step size and does not depend on the
scale of the logits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import checks, gradients, threat_models
from adt_tf.attacks.autoattack_parts.targets import likeliest_wrong
from adt_tf.attacks.base import PointAttack
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Problem,
    Progress,
    Strongest,
    judged,
    over_images,
)
from adt_tf.checks import arguments
from adt_tf.threat_models import ThreatModel


class _Walk(NamedTuple):
    """The state of each example's walk.

    Attributes:
        x: Current point [batch, ...].
        closest: The closest misclassified point so far.
        distance: Its distance from the image [batch].
        direction: One at the target, minus one at the label [batch, classes].
    """

    x: tf.Tensor
    closest: tf.Tensor
    distance: tf.Tensor
    direction: tf.Tensor


class FAB(PointAttack):
    """Walks to the nearest point of the boundary with one target class.

        plane: z_t - z_y = 0, linearised at x_i
        d_i, d_0 = shortest steps of x_i and of x to the plane, in the box
        alpha = min(|d_i| / (|d_i| + |d_0|), alpha_max)
        x_i <- clip((1 - alpha) (x_i + eta d_i) + alpha (x + eta d_0))
        if x_i is misclassified: x_i is a candidate, x_i <- x + beta (x_i - x)

    Distances are those of the threat model, which must define `step_to_plane`.
    Each part has one target t, the classes of the highest clean logits first;
    any wrong class counts as a success. The walk starts at x itself and uses
    no noise. It keeps the closest candidate and projects it onto the ball,
    which does not change a candidate within epsilon. With fewer wrong classes
    than targets, the remaining parts take no step.

    Args:
        threat_model: Ball in which a candidate counts, and pixel box.
        num_steps: Number of steps for each target.
        num_targets: Number of target classes.
        alpha_max: Largest weight of the step from the clean image.
        eta: Overshoot of a step, 1 for a step onto the plane; at least 1.
        beta: Factor that moves a misclassified point towards the clean image.
        name: Name in tables.

    Reference: Croce and Hein, Minimally distorted Adversarial Examples with a
    Fast Adaptive Boundary Attack, 2020. The defaults are those of AutoAttack
    (Croce and Hein, Reliable Evaluation of Adversarial Robustness, 2020),
    which leaves out the paper's final search.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> FAB(Linf(0.1), num_targets=2).num_parts
    2
    """

    #: One pass for the gradient, one to classify the new point.
    passes_per_step = 2

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        num_steps: int = 100,
        num_targets: int = 9,
        alpha_max: float = 0.1,
        eta: float = 1.05,
        beta: float = 0.9,
        name: str = "FAB-T",
    ) -> None:
        arguments.integer_at_least(1, num_steps=num_steps)
        arguments.integer_at_least(1, num_targets=num_targets)
        arguments.number_between(
            0, 1, "[]", "0.1 is usual.", alpha_max=alpha_max
        )
        arguments.number_at_least(
            1,
            "A step with a smaller value does not reach the boundary; 1.05 is "
            "usual.",
            eta=eta,
        )
        arguments.number_between(0, 1, "()", "0.9 is usual.", beta=beta)
        super().__init__(threat_model, name)
        threat_model.require("step_to_plane", by=name)
        self.num_steps = num_steps
        self.num_targets = num_targets
        self.alpha_max = alpha_max
        self.eta = eta
        self.beta = beta
        self.num_parts = num_targets

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {self.threat_model}, num_steps={self.num_steps}, "
            f"num_targets={self.num_targets}, alpha_max={self.alpha_max:g}, "
            f"eta={self.eta:g}, beta={self.beta:g}>"
        )

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.num_steps

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the closest point, projected onto the ball."""
        problem = problem._replace(y=checks.classes_of(problem.y))
        walk = self._walk(problem)
        return self.threat_model.project(
            problem.x, tf.stop_gradient(walk.closest)
        )

    def closest(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        part: int | tf.Tensor = 0,
        jit_compile: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the closest misclassified images and their distances.

        If x is misclassified, the image is x itself. If the walk meets no
        misclassified image, it is x at an infinite distance.

        Args:
            classifier: Function from images to logits.
            x: Images [batch, ...], in the box.
            y: Labels [batch].
            part: Index of the target: 0 is the wrong class of the highest
                logit.
            jit_compile: Whether XLA compiles the steps.
        """
        walk = self._walk(Problem(classifier, x, y, None, part, jit_compile))
        return tf.stop_gradient(walk.closest), tf.stop_gradient(walk.distance)

    def _walk(self, problem: Problem) -> _Walk:
        """Takes all steps."""
        x, y = map(tf.convert_to_tensor, (problem.x, problem.y))
        problem = problem._replace(x=x, y=y)
        progress = self.begin(problem)
        return self.advance(problem, progress, self.length).state

    def begin(self, problem: Problem) -> Progress:
        """Selects the target; the walk starts at x."""
        classifier, x, y, _, part, _ = problem
        clean = _logits(classifier, x)
        target = likeliest_wrong(clean, y, part)
        classes = clean.shape[-1]
        direction = tf.one_hot(target, classes) - tf.one_hot(y, classes)
        best = Strongest.of(x, clean, y)
        distance = tf.where(best.wrong, 0.0, float("inf"))
        # A part without a target takes no step.
        step = tf.where(part < classes - 1, 0, self.length)
        return Progress(step, _Walk(x, x, distance, direction), best)

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes further steps of the walk."""
        classifier, x, y, *_, jit_compile = problem

        def step(walk: _Walk) -> _Walk:
            x_i = self._moved(classifier, x, walk.x, walk.direction)
            z = _logits(classifier, x_i)
            wrong = tf.argmax(z, axis=-1, output_type=y.dtype) != y
            far = self.threat_model.distance(x, x_i)
            nearer = wrong & (far < walk.distance)
            drawn_back = x + self.beta * (x_i - x)
            return _Walk(
                tf.where(over_images(wrong, x), drawn_back, x_i),
                tf.where(over_images(nearer, x), x_i, walk.closest),
                tf.where(nearer, far, walk.distance),
                walk.direction,
            )

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)
        last = tf.minimum(progress.step + num_steps, self.length)
        # The loop stays in graph mode: see `ascent_loop`.
        _, walk = tf.while_loop(
            lambda t, walk: t < last,
            lambda t, walk: (t + 1, step(walk)),
            (progress.step, progress.state),
            maximum_iterations=self.length,
        )
        return progress._replace(step=last, state=walk)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the closest point, or x itself if that is stronger."""
        closest = self.threat_model.project(problem.x, progress.state.closest)
        seen = judged(problem.classifier, closest, problem.y)
        best = progress.best.updated(seen)
        return self._point(progress._replace(best=best))

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples whose closest wrong point is in the ball.

        A later step replaces that point only by a closer wrong one.
        """
        fallen = progress.state.distance <= self.threat_model.epsilon
        return Decided(fallen, tf.zeros_like(fallen))

    def _moved(
        self,
        classifier: Any,
        x: tf.Tensor,
        x_i: tf.Tensor,
        direction: tf.Tensor,
    ) -> tf.Tensor:
        """Takes one step of the walk, in the box."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x_i)
            value = tf.reduce_sum(direction * _logits(classifier, x_i), -1)
        # Without a gradient the walk stays at its point.
        slope = gradients.finite(
            tape.gradient(
                value, x_i, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
        )
        rows = tf.shape(x)[0]
        flat_x, flat_i, normal = (
            tf.reshape(image, [rows, -1]) for image in (x, x_i, slope)
        )
        value_x = value + tf.reduce_sum(normal * (flat_x - flat_i), axis=-1)
        steps = self.threat_model.step_to_plane(
            tf.concat([flat_i, flat_x], axis=0),
            tf.concat([value, value_x], axis=0),
            tf.concat([normal, normal], axis=0),
        )
        # AutoAttack's lower bound, for an image that is already on the plane.
        length = self.threat_model.norm(steps)[:, tf.newaxis]
        length = tf.maximum(length, 1e-8)
        step_i, step_x = tf.split(steps, 2)
        length_i, length_x = tf.split(length, 2)
        alpha = tf.minimum(length_i / (length_i + length_x), self.alpha_max)
        moved = (1 - alpha) * (flat_i + self.eta * step_i) + alpha * (
            flat_x + self.eta * step_x
        )
        return self.threat_model.clip(tf.reshape(moved, tf.shape(x)))


def fab_t(
    epsilon: float | ThreatModel, *, num_steps: int = 100, num_targets: int = 9
) -> FAB:
    """The targeted FAB attack, as in AutoAttack.

    Args:
        epsilon: Radius of the ball, or a threat model.
        num_steps: Number of steps for each target.
        num_targets: Number of target classes.

    Reference: Croce and Hein, Minimally distorted Adversarial Examples with a
    Fast Adaptive Boundary Attack, 2020.
    """
    return FAB(
        threat_models.get(epsilon), num_steps=num_steps, num_targets=num_targets
    )


def _logits(classifier: Any, x: tf.Tensor) -> tf.Tensor:
    return checks.as_logits(classifier(x, training=False), classifier)
