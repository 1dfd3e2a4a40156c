"""FAB-T: the nearest image that the classifier takes for another class.

    attack = fab_t(8 / 255)
    x_adv = attack(classifier, x, y).x_adv              # in the ball
    closest, distance = attack.closest(classifier, x, y)    # in it or not

Other attacks look for the worst image in the ball; this one walks along the
decision boundary towards the clean image, and asks at the end whether the
boundary is within epsilon. It has no step size, and no scale of the logits
matters to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import checks, gradients, threat_models
from adt_tf.attacks.base import (
    Decided,
    PointAttack,
    Progress,
    Strongest,
    judged,
)
from adt_tf.threat_models import ThreatModel


class _Walk(NamedTuple):
    """Where each example's walk is.

    Attributes:
        x: The point [batch, ...].
        closest: The closest misclassified point so far.
        distance: How far that is from the image [batch].
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

    Distances are those of the threat model, which must have a `step_to_plane`.
    Each part is one target t, the classes of the highest clean logits first;
    any wrong class counts as a success. The search starts at x itself and
    draws nothing. Of the candidates the closest is kept, and projected on the
    ball: within epsilon it stays as it is.
    With fewer classes than targets the parts left over take no step.

    Args:
        threat_model: The ball in which a candidate counts, and the box.
        num_steps: How many steps for each target.
        num_targets: How many target classes.
        alpha_max: The greatest weight of the step from the clean image.
        eta: How far beyond the plane a step goes; above 1.
        beta: How far back towards the clean image a success is drawn.
        name: How tables call it.

    Reference: Croce and Hein, Minimally distorted Adversarial Examples with a
    Fast Adaptive Boundary Attack, 2020. The defaults are those of AutoAttack
    (Croce and Hein, Reliable Evaluation of Adversarial Robustness, 2020),
    which leaves out the paper's final search.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> FAB(Linf(0.1), num_targets=2).num_parts
    2
    """

    #: A gradient, and a look at where the step leads.
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
    ):
        for key, value in {
            "num_steps": num_steps,
            "num_targets": num_targets,
        }.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"Argument `{key}` must be a positive integer. "
                    f"Received: {key}={value}"
                )
        if not 0 <= alpha_max <= 1:
            raise ValueError(
                "Argument `alpha_max` must be from 0 to 1, 0.1 is usual. "
                f"Received: alpha_max={alpha_max}"
            )
        if not eta >= 1:
            raise ValueError(
                "Argument `eta` must be at least 1, or no step reaches the "
                f"boundary; 1.05 is usual. Received: eta={eta}"
            )
        if not 0 < beta < 1:
            raise ValueError(
                "Argument `beta` must be between 0 and 1, 0.9 is usual. "
                f"Received: beta={beta}"
            )
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
        """The number of steps."""
        return self.num_steps

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the closest point, projected where it is not in the ball."""
        del seed
        y = checks.classes_of(y)
        closest, _ = self.closest(
            classifier, x, y, part=part, jit_compile=jit_compile
        )
        return self.threat_model.project(x, closest)

    def closest(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        part: int | tf.Tensor = 0,
        jit_compile: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the closest misclassified images and how far they are.

        Where x is misclassified it is x itself; where none was found it is x
        as well, at an infinite distance.

        Args:
            classifier: From images to logits.
            x: Images [batch, ...], in the box.
            y: Labels [batch].
            part: Which target: 0 is the wrong class of the highest logit.
            jit_compile: Whether XLA compiles the steps.
        """
        x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        progress = self.begin(classifier, x, y, seed=None, part=part)
        progress = self.advance(
            classifier,
            x,
            y,
            progress,
            seed=None,
            num_steps=self.length,
            jit_compile=jit_compile,
        )
        walk = progress.state
        return tf.stop_gradient(walk.closest), tf.stop_gradient(walk.distance)

    def begin(self, classifier, x, y, *, seed, part=0):
        """Chooses the target; the walk starts at x."""
        clean = _logits(classifier, x)
        target = self._target(clean, y, part)
        classes = clean.shape[-1]
        direction = tf.one_hot(target, classes) - tf.one_hot(y, classes)
        best = Strongest.of(x, clean, y)
        distance = tf.where(best.wrong, 0.0, float("inf"))
        # A classifier of few classes has no target for the last parts: these
        # are at their end.
        step = tf.where(part < classes - 1, 0, self.length)
        return Progress(step, _Walk(x, x, distance, direction), best)

    def advance(
        self,
        classifier,
        x,
        y,
        progress,
        *,
        seed,
        part=0,
        num_steps,
        jit_compile=False,
    ):
        """Takes further steps of the walk."""

        def step(walk):
            x_i = self._moved(classifier, x, walk.x, walk.direction)
            z = _logits(classifier, x_i)
            wrong = tf.argmax(z, axis=-1, output_type=y.dtype) != y
            far = self.threat_model.distance(x, x_i)
            nearer = wrong & (far < walk.distance)
            drawn_back = x + self.beta * (x_i - x)
            return _Walk(
                tf.where(_wide(wrong, x), drawn_back, x_i),
                tf.where(_wide(nearer, x), x_i, walk.closest),
                tf.where(nearer, far, walk.distance),
                walk.direction,
            )

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)
        last = tf.minimum(progress.step + num_steps, self.length)
        # The loop stays in graph mode: see `GradientAscent`.
        _, walk = tf.while_loop(
            lambda t, walk: t < last,
            lambda t, walk: (t + 1, step(walk)),
            (progress.step, progress.state),
            maximum_iterations=self.length,
        )
        return progress._replace(step=last, state=walk)

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Returns the closest point, or x itself if that is stronger."""
        found = self.threat_model.project(x, progress.state.closest)
        best = progress.best.updated(judged(classifier, found, y))
        return self._point(progress._replace(best=best))

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples whose closest wrong point is in the ball.

        A later step replaces that point only by a closer wrong one.
        """
        fallen = progress.state.distance <= self.threat_model.epsilon
        return Decided(fallen, tf.zeros_like(fallen))

    def _target(self, clean, y, part):
        classes = clean.shape[-1]
        is_true = tf.one_hot(y, classes, True, False)
        others = tf.where(is_true, clean.dtype.min, clean)
        ranked = tf.math.top_k(others, classes - 1).indices
        return tf.gather(ranked, tf.minimum(part, classes - 2), axis=1)

    def _moved(self, classifier, x, x_i, direction):
        """One step of the walk, in the box."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x_i)
            value = tf.reduce_sum(direction * _logits(classifier, x_i), -1)
        # Without any gradient the walk stays where it is.
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
        # AutoAttack's floor, for an image that is on the plane already.
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
        epsilon: The radius of the ball, or a threat model.
        num_steps: How many steps for each target.
        num_targets: How many target classes.

    Reference: Croce and Hein, Minimally distorted Adversarial Examples with a
    Fast Adaptive Boundary Attack, 2020.
    """
    return FAB(
        threat_models.get(epsilon), num_steps=num_steps, num_targets=num_targets
    )


def _logits(classifier: Any, x: tf.Tensor) -> tf.Tensor:
    return checks.as_logits(classifier(x, training=False), classifier)


def _wide(condition: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Shapes a condition [batch] to broadcast against images."""
    return tf.reshape(condition, [-1] + [1] * (len(x.shape) - 1))
