"""Outer steps: where the gradients of the weights are computed.

    AdversarialTrainer(classifier, attack, loss)              # Descent()
    AdversarialTrainer(classifier, attack, loss,
                       outer_step=AWP(0.005, warmup_steps=3900))

A trainer computes one scalar S(theta, phi) of the classifier's weights theta
and the attack's own weights phi, and an outer step returns its gradients:
`Descent` at theta, `AWP` at adversarially perturbed weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from adt_tf import replication
from adt_tf.checks import arguments
from adt_tf.configs import Configured

#: Returns S, and further results of the pass.
Saddle = Callable[[], tuple[tf.Tensor, Any]]
Gradients = list[tf.Tensor | None]


class Pass(NamedTuple):
    """One pass of the saddle, and the variables that it depends on.

    Attributes:
        saddle: Function that computes S.
        classifier: Model whose state the pass changes.
        theta: Weights of the classifier that are trained.
        phi: Weights of the attack's networks.
        step: Number of outer steps before this one.
    """

    saddle: Saddle
    classifier: keras.Model
    theta: list[Any]
    phi: list[Any]
    step: tf.Tensor


class Descent(Configured):
    """The gradients of S at the current weights."""

    def gradients(self, outer: Pass) -> tuple[Gradients, Any]:
        """Returns the gradients of theta and phi, and the pass's results."""
        with tf.GradientTape() as tape:
            scalar, results = outer.saddle()
        return tape.gradient(scalar, [*outer.theta, *outer.phi]), results


class AWP(Configured):
    """Adversarial weight perturbation: descends S where it is worst nearby.

        v_l = size * |w_l| * g_l / |g_l|,   g = dS/dw at w
        w  <- w - rate * dS/dw at w + v

    for each kernel w_l of the classifier; vectors, such as biases and the
    scales of batch normalisation, are not perturbed. The first pass, at the
    current weights, gives g, all metrics, and the statistics of batch
    normalisation; the second gives only the gradients, also those of the
    attack's own weights. Both passes see the same samples and the same dropout
    noise. A size of 0 is the plain descent.

    Args:
        size: Length of the perturbation relative to that of each kernel;
            0.01 for adversarial training and 0.005 for TRADES in the paper.
        warmup_steps: Number of initial steps without a perturbation.

    Reference: Wu et al., Adversarial Weight Perturbation Helps Robust
    Generalization, 2020.
    """

    def __init__(self, size: float = 0.005, *, warmup_steps: int = 0) -> None:
        self.size = arguments.number_at_least(0, size=size)
        self.warmup_steps = arguments.integer_at_least(
            0, warmup_steps=warmup_steps
        )

    def gradients(self, outer: Pass) -> tuple[Gradients, Any]:
        """Returns the gradients at the perturbed weights; see `Descent`."""
        saddle, classifier, theta, phi, step = outer
        state = classifier.non_trainable_variables
        before = [tf.identity(variable) for variable in state]
        plain, results = Descent().gradients(outer)
        slopes = _of_all_replicas(plain[: len(theta)])
        moved = [
            tf.convert_to_tensor(weight) + self._perturbation(weight, slope)
            for weight, slope in zip(theta, slopes, strict=True)
        ]

        def perturbed() -> Gradients:
            # The scope discards all assignments to variables.
            mapping = zip([*theta, *state], [*moved, *before], strict=True)
            with keras.StatelessScope(mapping), tf.GradientTape() as tape:
                tape.watch(moved)
                scalar, _ = saddle()
            return tape.gradient(scalar, [*moved, *phi])

        if not self.warmup_steps:
            return perturbed(), results
        is_on = step >= tf.cast(self.warmup_steps, step.dtype)
        return _either(is_on, perturbed, plain), results

    def _perturbation(self, weight: Any, slope: tf.Tensor | None) -> Any:
        if slope is None or len(weight.shape) < 2:
            return tf.zeros(weight.shape, weight.dtype)
        slope = tf.convert_to_tensor(slope)
        length = tf.norm(slope)
        # A gradient that overflows under loss scaling has no direction.
        usable = tf.math.is_finite(length) & (length > 0)
        direction = tf.where(usable, slope / length, tf.zeros_like(slope))
        return self.size * tf.norm(tf.convert_to_tensor(weight)) * direction


def _of_all_replicas(gradients: Gradients) -> Gradients:
    """Returns sums over replicas, so that all perturb the weights equally."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return gradients
    return [
        g if g is None else replication.sum_over_replicas(g) for g in gradients
    ]


def _either(
    condition: tf.Tensor, compute: Callable[[], Gradients], other: Gradients
) -> Gradients:
    """Returns the computed gradients if the condition holds, or the others."""
    places = [i for i, g in enumerate(other) if g is not None]

    def dense(gradients: Gradients) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(gradients[i]) for i in places]

    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        kept = tf.cond(
            condition, lambda: dense(compute()), lambda: dense(other)
        )
    else:
        # Replicas cannot communicate inside a branch of `tf.cond`.
        kept = [
            tf.where(condition, new, old)
            for new, old in zip(dense(compute()), dense(other), strict=True)
        ]
    result: Gradients = [None] * len(other)
    for place, gradient in zip(places, kept, strict=True):
        result[place] = gradient
    return result
