"""Auto-PGD: projected steepest steps whose size looks after itself.

    apgd_ce(8 / 255)        # climbs the cross-entropy
    apgd_t(8 / 255)         # the difference of logits ratio, nine targets
    apgd_dlr(8 / 255)       # the same ratio without a target

The first two are the gradient attacks of AutoAttack's standard ensemble. The
ratio does not change when all logits are scaled or shifted, so it keeps its
slope where a classifier is so sure that the cross-entropy has lost its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import checks, gradients, objectives, seeds, threat_models
from adt_tf.attacks.base import Decided, PointAttack, Progress, Strongest
from adt_tf.objectives import (
    Objective,
    cross_entropy_of,
    dlr_of,
    targeted_dlr_of,
)
from adt_tf.threat_models import ThreatModel

MOMENTUM = 0.75
RHO = 0.75


def checkpoints(num_steps: int) -> list[int]:
    """The steps after which an ascent may halve its step size.

    Whole numbers as in the authors' code: the first stretch is 22 % of the
    steps, each further one 3 % shorter, down to 6 %; a share is rounded down,
    to 1 at least. The paper rounds the sums up instead, which for 100 steps is
    the same.

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


class APGD(PointAttack):
    """Momentum steps, halved per example where they stop paying.

        z       = project(x_k + eta s(grad f(x_k))),   eta = 2 epsilon first
        x_(k+1) = project(x_k + 0.75 (z - x_k) + 0.25 (x_k - x_(k-1)))

    s(g) is the threat model's unit vector of steepest ascent, the sign in
    l-infinity. The first step goes all the way to z. At a checkpoint eta is
    halved, and the ascent goes on from the best point it knows, if since the
    last one

        1. f rose in fewer than 0.75 of the steps, or
        2. the best f has not changed, and eta was not halved there.

    The conditions are those of the paper. The authors' code also halves at
    exactly 0.75, leaves out the second condition at the first checkpoint, and
    counts the first rise after a restart from the point that was left.

    What it returns is the strongest image met, the clean one included:
    misclassified first, then of the highest cross-entropy.

    With targets, part i climbs towards the class with the i-th highest clean
    logit, from 0, among those other than y. A classifier with fewer classes
    has no such target for the last parts: these take no step at all and
    return the clean image.

    Args:
        threat_model: The ball and the box.
        objective: f, an objective of `adt_tf.objectives`, or a function that
            `objectives.get` takes, such as `dlr_of`; with targets one of
            logits that takes the target as well, such as `targeted_dlr_of`.
        num_steps: How many steps; an image is seen once more than that.
        num_targets: How many target classes are tried, each as one part; None
            for an objective without a target.
        name: How tables call it.

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
    ):
        numbers = {"num_steps": num_steps}
        if num_targets is not None:
            numbers["num_targets"] = num_targets
        for key, value in numbers.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"Argument `{key}` must be a positive integer. "
                    f"Received: {key}={value}"
                )
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
        """The number of steps, and the start, which is looked at as well."""
        return self.num_steps + 1

    def check(self, classifier: Any) -> None:
        """Asks the objective."""
        self.objective.check(classifier)

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the strongest image met."""
        y = checks.classes_of(y)
        progress = self._start(classifier, x, y, seed, part)
        progress = self._climb(
            classifier, x, y, progress, self.length, seed, jit_compile
        )
        return tf.stop_gradient(progress.best.x_adv)

    def begin(self, classifier, x, y, *, seed, part=0):
        """Draws the start and chooses the target."""
        return self._start(classifier, x, y, seeds.fold(seed, 0), part)

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
        """Takes further steps."""
        seed = seeds.fold(seed, 0)
        return self._climb(
            classifier, x, y, progress, num_steps, seed, jit_compile
        )

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Returns the strongest image met; the clean one was the first."""
        return self._point(progress)

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen: the strongest image counts."""
        fallen = progress.best.wrong
        return Decided(fallen, tf.zeros_like(fallen))

    def _start(self, classifier, x, y, seed, part):
        part = tf.cast(part, tf.int32)
        clean = _logits(classifier, x)
        step, targets = tf.constant(0), {}
        if self.num_targets:
            targets = {"target": _target(clean, y, part)}
            # A classifier of few classes has no target for the last parts:
            # these are at their end.
            step = tf.where(part < clean.shape[-1] - 1, 0, self.length)
        threat_model = self.threat_model
        start = threat_model.random_surface(x, seeds.fold(seed, part))
        state = _State.at(start, y, 2 * threat_model.epsilon)
        return Progress(step, (state, targets), Strongest.of(x, clean, y))

    def _climb(self, classifier, x, y, progress, num_steps, seed, jit_compile):
        """Takes at most so many steps.

        The loop stays in graph mode and calls one step, which XLA compiles
        where asked, for the reasons of `GradientAscent`. A step judges a point
        and moves on from it, so the classifier appears once in the loop.
        """
        first, (state, targets), strongest = progress
        last = tf.minimum(first + num_steps, self.length)
        value = self.objective(
            classifier, x, y, seed=seeds.fold(seed, -1), **targets
        )

        def step(state, strongest, step_index, window):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(state.x_adv)
                values, logits = value(state.x_adv[:, tf.newaxis])
                values, logits = values[:, 0], logits[:, 0]
                # Each example's own gradient, since none acts on another.
                total = tf.reduce_sum(values)
            # Without any gradient only the random start is left.
            gradient = gradients.finite(
                tape.gradient(
                    total,
                    state.x_adv,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
            )
            seen = Strongest.of(state.x_adv, logits, y)
            state, gradient = _judged(state, values, gradient, window)
            momentum = tf.where(step_index == 0, 1.0, MOMENTUM)
            state = _moved(state, gradient, momentum, self.threat_model, x)
            return state, strongest.updated(seen)

        if jit_compile:
            step = tf.function(step, jit_compile=True, autograph=False)

        windows = tf.constant(_windows(self.num_steps))

        def body(t, state, strongest):
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
        epsilon: The radius of the ball, or a threat model.
        num_steps: How many steps.
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
        epsilon: The radius of the ball, or a threat model.
        num_steps: Steps for each target.
        num_targets: How many targets; a classifier with fewer wrong classes
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

    Args:
        epsilon: The radius of the ball, or a threat model.
        num_steps: How many steps.
    """
    return APGD(
        threat_models.get(epsilon),
        dlr_of,
        num_steps=num_steps,
        name="APGD-DLR",
    )


class _State(NamedTuple):
    """Where each example's ascent is, and what decides on its step size.

    Attributes:
        x_adv: The point to judge next [batch, ...].
        last_x: The point before it.
        last_value: What it had [batch].
        best_x: The best point so far.
        best_gradient: There.
        best_value: There.
        step_size: eta [batch].
        rises: Steps since the last checkpoint in which the value rose.
        checked_value: The best value at the last checkpoint.
        halved: Whether eta was halved there.
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
    ) -> _State:
        """The state before the first point is judged, which is no rise."""
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


def _judged(
    state: _State, values: tf.Tensor, gradient: tf.Tensor, window: tf.Tensor
) -> tuple[_State, tf.Tensor]:
    """Books a point's value and restarts from the best where it is time to.

    Returns the state and the gradient at its point. `window` is the number of
    steps since the last checkpoint, or -1 where this is none.
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


def _moved(
    state: _State,
    gradient: tf.Tensor,
    momentum: tf.Tensor,
    threat_model: ThreatModel,
    x: tf.Tensor,
) -> _State:
    """Takes one step."""
    x_adv = state.x_adv
    step_size = _wide(state.step_size, x)
    uphill = threat_model.steepest(gradient)
    ahead = threat_model.project(x, x_adv + step_size * uphill)
    mixed = momentum * (ahead - x_adv) + (1 - momentum) * (x_adv - state.last_x)
    moved = threat_model.project(x, x_adv + mixed)
    return state._replace(x_adv=moved, last_x=x_adv)


def _windows(num_steps: int) -> list[int]:
    """For 0..num_steps steps: those since the last checkpoint, -1 at none.

    The start counts as the first, without a window.
    """
    windows = [0] + [-1] * num_steps
    steps = checkpoints(num_steps)
    for last, step in zip([0, *steps], steps, strict=False):
        windows[step] = step - last
    return windows


def _logits(classifier: Any, images: tf.Tensor) -> tf.Tensor:
    return objectives.logits_of(classifier, images[:, tf.newaxis])[:, 0]


def _target(clean: tf.Tensor, y: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """The wrong class [batch] of rank `part` by its clean logit."""
    classes = clean.shape[-1]
    is_true = tf.one_hot(y, classes, True, False)
    wrong = tf.where(is_true, clean.dtype.min, clean)
    ranked = tf.argsort(wrong, direction="DESCENDING", stable=True)
    return tf.gather(ranked, tf.minimum(part, classes - 2), axis=1)


def _wide(values: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Values [batch] that broadcast over images [batch, ...]."""
    return tf.reshape(values, [-1] + [1] * (len(images.shape) - 1))


def _where(condition: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Chooses images [batch, ...] by a condition [batch]."""
    return tf.where(_wide(condition, one), one, other)
