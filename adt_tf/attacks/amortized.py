"""The amortised attack: a network, not a loop, gives the distribution."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf import gradients, objectives
from adt_tf.attacks.base import AdversarialBatch, Attack
from adt_tf.step_rules import normalize_gradient


class Amortized(Attack):
    """Draws perturbations from what networks make of [x, g1, g2].

        g1 = grad_x CE(f(x), y),  g2 = grad_x CE(f(x + epsilon sign(g1)), y)

    Both gradients are each example's own, divided by the mean of their
    absolute values, so that nothing depends on the size of the batch or of
    the loss. The networks ascend

        mean [loss(x + delta) + regularizer],

    the very scalar that the classifier descends, in the trainer's one step.

    Args:
        family: `Generated` or `Implicit`, with the networks.
        entropy_weight: lambda.
        entropy_threshold: None for the regulariser of the paper, lambda times
            the entropy; a number for that of its authors' code, which stops
            pushing beyond it: -lambda * relu(-entropy - threshold).
        name: How tables call it.
    """

    def __init__(
        self,
        family: Any,
        *,
        entropy_weight: float = 0.0,
        entropy_threshold: float | None = None,
        name: str = "amortized",
    ):
        if entropy_weight < 0:
            raise ValueError(
                "Argument `entropy_weight` must not be negative. Received: "
                f"entropy_weight={entropy_weight}"
            )
        super().__init__(family.threat_model, name)
        self.family = family
        self.networks = tuple(family.networks)
        self.entropy_weight = entropy_weight
        self.entropy_threshold = entropy_threshold

    def __repr__(self) -> str:
        weights = sum(network.count_params() for network in self.networks)
        hinge = ""
        if self.entropy_threshold is not None:
            hinge = f", entropy_threshold={self.entropy_threshold:g}"
        if getattr(self.family, "entropy_reduction", "mean") != "mean":
            hinge += f", entropy_reduction={self.family.entropy_reduction}"
        return (
            f"<{self.name}: {type(self.family).__name__} in "
            f"{self.threat_model}, entropy_weight={self.entropy_weight:g}"
            f"{hinge}, {weights} weights>"
        )

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the conditioning [x, g1, g2] of the networks."""
        value = objectives.cross_entropy(classifier, x, y, seed=seed)

        def gradient(images):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(images)
                total = tf.reduce_sum(value(images[:, tf.newaxis])[0])
            slope = tape.gradient(
                total,
                images,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            return gradients.finite(slope)

        if jit_compile:
            gradient = tf.function(gradient, jit_compile=True, autograph=False)
        first = gradient(x)
        epsilon = self.threat_model.epsilon
        second = gradient(
            self.threat_model.perturb(x, epsilon * tf.sign(first))
        )
        parts = [x, normalize_gradient(first), normalize_gradient(second)]
        return tf.stop_gradient(tf.concat(parts, axis=-1))

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Draws from the distribution that the networks give."""
        noise = self.family.noise(x, num_samples, seed)
        x_adv, entropy = self.family.sample(
            x, solution, noise, training=training
        )
        regularizer = self.entropy_weight * entropy
        if self.entropy_threshold is not None:
            regularizer = -self.entropy_weight * tf.nn.relu(
                -entropy - self.entropy_threshold
            )
        return AdversarialBatch(x_adv, entropy, regularizer)

    def as_tfp(self, x, solution):
        """Returns the distribution for each image, over perturbations."""
        return self.family.as_tfp(x, solution)

    def fit(
        self,
        classifier: Any,
        dataset: Any,
        *,
        epochs: int = 1,
        seed: int = 0,
        verbose: int = 1,
    ) -> keras.callbacks.History:
        """Trains the networks against a classifier that stays as it is.

        Args:
            classifier: What to attack, from images to logits; any object that
                is called as `classifier(images, training=False)`.
            dataset: (images, labels), or a batched `tf.data.Dataset` that
                ends.
            epochs: Passes over the data.
            seed: Of the noise.
            verbose: As in `keras.Model.fit`.
        """
        from adt_tf.trainer import AdversarialTrainer

        if (
            isinstance(dataset, tf.data.Dataset)
            and dataset.cardinality() == tf.data.INFINITE_CARDINALITY
        ):
            raise ValueError(
                "Argument `dataset` must end, or an epoch never does: use "
                "`dataset.take(steps)`."
            )
        trainer = AdversarialTrainer(
            classifier, self, seed=seed, train_classifier=False
        )
        trainer.compile()
        data = dataset if isinstance(dataset, tuple) else (dataset,)
        return trainer.fit(*data, epochs=epochs, verbose=verbose)
