"""How the weights get their gradient in an outer step.

    AdversarialTrainer(classifier, attack, loss)              # Descent()
    AdversarialTrainer(classifier, attack, loss,
                       outer_step=AWP(0.005, warmup_steps=3900))

A trainer computes one scalar S(theta, phi) of the classifier's weights theta
and the attack's own weights phi, and an outer step returns its gradients:
`Descent` those at theta, `AWP` those at weights perturbed to the worse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf import replication
from adt_tf.checks import arguments
from adt_tf.configs import Configured

#: Returns S, and whatever else the pass has found.
Saddle = Callable[[], tuple[tf.Tensor, Any]]
Gradients = list[tf.Tensor | None]


class Descent(Configured):
    """The gradients of S at the weights as they are."""

    def gradients(
        self,
        saddle: Saddle,
        classifier: keras.Model,
        theta: list[Any],
        phi: list[Any],
        step: tf.Tensor,
    ) -> tuple[Gradients, Any]:
        """Returns the gradients of theta and phi, and what the pass found.

        Args:
            saddle: Function that computes S in one pass.
            classifier: Model whose state the pass changes.
            theta: Weights of the classifier that are trained.
            phi: Weights of the attack's networks.
            step: Number of the outer steps before this one.
        """
        del classifier, step
        with tf.GradientTape() as tape:
            scalar, found = saddle()
        return tape.gradient(scalar, [*theta, *phi]), found


class AWP(Configured):
    """Adversarial weight perturbation: descends S where it is worst nearby.

        v_l = size * |w_l| * g_l / |g_l|,   g = dS/dw at w
        w  <- w - rate * dS/dw at w + v

    for each kernel w_l of the classifier; vectors, such as biases and the
    scales of batch normalisation, are not perturbed. The first pass, at the
    weights themselves, gives g, all metrics, and the statistics of batch
    normalisation; the second changes nothing but the gradients, those of the
    attack's own weights included. Both see the same samples and, where there
    is dropout, the same noise. A size of 0 is the plain descent.

    Args:
        size: Length of the perturbation relative to that of each kernel;
            0.01 for adversarial training and 0.005 for TRADES in the paper.
        warmup_steps: Number of first steps without a perturbation.

    Reference: Wu et al., Adversarial Weight Perturbation Helps Robust
    Generalization, 2020.
    """

    def __init__(self, size: float = 0.005, *, warmup_steps: int = 0):
        self.size = arguments.number_at_least(0, size=size)
        self.warmup_steps = arguments.integer_at_least(
            0, warmup_steps=warmup_steps
        )

    def gradients(
        self,
        saddle: Saddle,
        classifier: keras.Model,
        theta: list[Any],
        phi: list[Any],
        step: tf.Tensor,
    ) -> tuple[Gradients, Any]:
        """Returns the gradients at the perturbed weights; see `Descent`."""
        state = classifier.non_trainable_variables
        before = [tf.identity(variable) for variable in state]
        plain, found = Descent().gradients(saddle, classifier, theta, phi, step)
        slopes = _of_all_replicas(plain[: len(theta)])
        moved = [
            tf.convert_to_tensor(weight) + self._perturbation(weight, slope)
            for weight, slope in zip(theta, slopes, strict=True)
        ]

        def perturbed():
            # Nothing that the pass assigns to a variable leaves the scope.
            mapping = zip([*theta, *state], [*moved, *before], strict=True)
            with keras.StatelessScope(mapping), tf.GradientTape() as tape:
                tape.watch(moved)
                scalar, _ = saddle()
            return tape.gradient(scalar, [*moved, *phi])

        if not self.warmup_steps:
            return perturbed(), found
        is_on = step >= tf.cast(self.warmup_steps, step.dtype)
        return _chosen(is_on, perturbed, plain), found

    def _perturbation(self, weight: Any, slope: tf.Tensor | None) -> Any:
        if slope is None or len(weight.shape) < 2:
            return tf.zeros(weight.shape, weight.dtype)
        slope = tf.convert_to_tensor(slope)
        length = tf.norm(slope)
        # A gradient that loss scaling has made overflow has no direction.
        usable = tf.math.is_finite(length) & (length > 0)
        direction = tf.where(usable, slope / length, tf.zeros_like(slope))
        return self.size * tf.norm(tf.convert_to_tensor(weight)) * direction


def _of_all_replicas(gradients: Gradients) -> Gradients:
    """The sums over replicas, so that all perturb their weights alike."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return gradients
    return [
        g if g is None else replication.sum_over_replicas(g) for g in gradients
    ]


def _chosen(
    condition: tf.Tensor, compute: Callable[[], Gradients], other: Gradients
) -> Gradients:
    """Returns gradients that are computed where needed, or the others."""
    places = [i for i, g in enumerate(other) if g is not None]

    def dense(gradients):
        return [tf.convert_to_tensor(gradients[i]) for i in places]

    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        kept = tf.cond(
            condition, lambda: dense(compute()), lambda: dense(other)
        )
    else:
        # Replicas that speak to each other cannot do so within a branch.
        kept = [
            tf.where(condition, new, old)
            for new, old in zip(dense(compute()), dense(other), strict=True)
        ]
    result: Gradients = [None] * len(other)
    for place, gradient in zip(places, kept, strict=True):
        result[place] = gradient
    return result
