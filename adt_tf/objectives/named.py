"""The named objectives, of logits and of whole batches."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from adt_tf import checks, seeds
from adt_tf.kernels import transport
from adt_tf.objectives.base import (
    LogitObjective,
    Value,
    logits_of,
    of_logits,
    on_logits,
)
from adt_tf.objectives.logits import (
    cross_entropy_of,
    dlr_of,
    kl_divergence_of,
    margin_of,
    targeted_dlr_of,
)

#: The loss of the true class, which FGSM, PGD, MIM and EXP climb.
cross_entropy = of_logits(cross_entropy_of, name="cross_entropy")

#: The difference of logits ratio.
dlr = of_logits(dlr_of, name="dlr")

#: The ratio towards a target class, for `APGD` with targets.
targeted_dlr = of_logits(targeted_dlr_of, name="targeted_dlr")


@dataclasses.dataclass(frozen=True)
class Margin(LogitObjective):
    """Carlini and Wagner's margin, which is constant above `confidence`.

        value = -max(z_y - max_{c != y} z_c + confidence, 0)

    Args:
        confidence: Margin of the wrong class at which the climb ends.

    Reference: Carlini and Wagner, Towards Evaluating the Robustness of
    Neural Networks, 2017; the paper uses a confidence of 50.
    """

    confidence: float = 50.0

    # The name of an objective is never assigned.
    @property
    def name(self) -> str:  # type: ignore[override]
        """The name and the confidence."""
        return f"margin({self.confidence:g})"

    def of(
        self, logits: tf.Tensor, y: tf.Tensor, *target: tf.Tensor
    ) -> tf.Tensor:
        """Returns the values [n]."""
        return -tf.nn.relu(self.confidence - margin_of(logits, y))


margin = Margin


def targeted_cross_entropy(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """Minus the cross-entropy of a random wrong class.

    Reference: Kurakin et al., Adversarial Machine Learning at Scale, 2017.
    """
    num_classes = logits_of(classifier, x[:, tf.newaxis]).shape[-1]
    offset = seeds.per_example(
        lambda s: tf.random.stateless_uniform(
            [], s, 1, num_classes, dtype=tf.int32
        ),
        x,
        seed,
        dtype=tf.int32,
    )
    target = (tf.cast(checks.classes_of(y), tf.int32) + offset) % num_classes
    return on_logits(classifier, lambda z: -cross_entropy_of(z, target))


def kl_from_clean(
    classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
) -> Value:
    """The divergence of the prediction from that of the clean image.

        value = sum_c p_c(x) (log p_c(x) - log p_c(x_adv))

    The direction is that of TRADES' code: the clean prediction is the target.
    The value has its minimum, with zero gradient, at x_adv = x: climb it from a
    random start or with a distribution of positive width.

    Reference: Zhang et al., Theoretically Principled Trade-off between
    Robustness and Accuracy, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis]))
    return on_logits(classifier, lambda z: kl_divergence_of(clean, z))


def transport_distance(
    classifier: Any,
    x: tf.Tensor,
    y: tf.Tensor,
    *,
    seed: tf.Tensor,
    regularization: float = 0.01,
    num_iterations: int = 50,
) -> Value:
    """The optimal-transport distance between clean and attacked logits.

        value_i = sum_j P_ij (1 - cos(z(x_adv_i), z(x_j)))

    with the plan P of `adt_tf.kernels.transport`, one for each of the k
    samples. The values of a batch sum to its distance, so each is of the order
    of 1 / batch.

    This is the only objective that couples the examples of a batch: an image
    may move towards the logits of any other, so its result depends on the rest
    of the batch. The features are the logits, as in the authors' code (the
    paper says feature space). Start at random, as the authors do: at x_adv = x
    the distance of an image from itself has no gradient.

    Args:
        classifier: Function from images to logits.
        x: Clean images [batch, ...].
        y: Labels, which are not used.
        seed: Seed, which is not used.
        regularization: Weight of the plan's entropy.
        num_iterations: Number of Sinkhorn iterations.

    Reference: Zhang and Wang, Defense Against Adversarial Attacks Using
    Feature Scattering-based Adversarial Training, 2019.
    """
    del y, seed
    clean = tf.stop_gradient(logits_of(classifier, x[:, tf.newaxis])[:, 0])

    def distance(logits: tf.Tensor) -> tf.Tensor:
        costs = transport.transport_costs(
            tf.transpose(logits, [1, 0, 2]),
            clean,
            regularization=regularization,
            num_iterations=num_iterations,
        )
        return tf.transpose(costs)

    return on_logits(classifier, distance)


# mypy knows no attributes of functions.
transport_distance.couples_examples = True  # type: ignore[attr-defined]
