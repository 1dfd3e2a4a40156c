"""The amortised attack: a network outputs the distribution."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import gradients, objectives, replication
from adt_tf.attacks.base import Attack
from adt_tf.attacks.results import AdversarialBatch, Draw, Problem
from adt_tf.checks import arguments
from adt_tf.distributions import AmortizedFamily
from adt_tf.step_rules import normalize_gradient


class Amortized(Attack):
    """Draws perturbations from a distribution that networks output.

    The networks see [x, g1, g2], concatenated by channels, with

        g1 = grad_x CE(f(x), y),  g2 = grad_x CE(f(x + epsilon s(g1)), y)

    where s is the threat model's steepest ascent, the sign in l-infinity. Both
    gradients are each example's own. By default they are divided by the mean
    of their absolute values, so that they do not depend on the batch size or
    on the scale of the loss. The authors' code uses the gradients of a batch's
    mean loss as they are: `gradient_scale=1 / batch_size` gives the same
    numbers, but independent of the batch at hand.

    The networks ascend

        mean_i [loss(x_i + delta_i) + entropy_weight * entropy_i],

    the same scalar that the classifier descends, in the trainer's one step.
    With a threshold the second term is the one of the authors' code,

        -entropy_weight * relu(-mean_i entropy_i - entropy_threshold),

    which acts as long as the mean over the batch of all replicas lies below
    -entropy_threshold. This hinge couples the gradients of the examples in a
    batch, but not their images.

    Args:
        family: Distribution with the networks, such as `Generated` or
            `Implicit`.
        entropy_weight: Weight lambda of the entropy.
        entropy_threshold: None for the term of the paper, or the threshold of
            the hinge.
        gradient_scale: None for normalised gradients, or the factor of each
            example's own gradients.
        name: Name in tables.
    """

    #: One pass for each of the two gradients.
    passes_per_step = 2

    def __init__(
        self,
        family: AmortizedFamily,
        *,
        entropy_weight: float = 0.0,
        entropy_threshold: float | None = None,
        gradient_scale: float | None = None,
        name: str = "amortized",
    ) -> None:
        if entropy_weight < 0:
            raise arguments.error(
                "not be negative", entropy_weight=entropy_weight
            )
        if gradient_scale is not None and not 0 < gradient_scale < math.inf:
            raise ValueError(
                "Argument `gradient_scale` must be a positive number, such as "
                "1 / 64 for the gradients of the mean loss of 64 images, or "
                f"None. Received: gradient_scale={gradient_scale}"
            )
        super().__init__(family.threat_model, name)
        self.family = family
        self.networks = tuple(family.networks)
        self.entropy_weight = entropy_weight
        self.entropy_threshold = entropy_threshold
        self.gradient_scale = gradient_scale
        self.couples_examples = entropy_threshold is not None

    def __repr__(self) -> str:
        weights = sum(network.count_params() for network in self.networks)
        choices = [f"entropy_weight={self.entropy_weight:g}"]
        if self.entropy_threshold is not None:
            choices.append(
                f"entropy_threshold={self.entropy_threshold:g} of the batch"
            )
        choices += self.family.describe()
        if self.gradient_scale is not None:
            choices.append(f"gradient_scale={self.gradient_scale:g}")
        return (
            f"<{self.name}: {type(self.family).__name__} in "
            f"{self.threat_model}, {', '.join(choices)}, {weights} weights>"
        )

    def scaled(self, share: float | tf.Tensor) -> Amortized:
        """Returns a copy with a radius of share * epsilon."""
        attack = super().scaled(share)
        attack.family = self.family.scaled(share)
        return attack

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the conditioning [x, g1, g2] of the networks."""
        classifier, x, y, seed, _, jit_compile = problem
        value = objectives.cross_entropy(classifier, x, y, seed=seed)

        def gradient(images: tf.Tensor) -> tf.Tensor:
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
        uphill = self.threat_model.steepest(first)
        second = gradient(self.threat_model.from_unit(x, uphill))
        parts = [x, self._conditioned(first), self._conditioned(second)]
        return tf.stop_gradient(tf.concat(parts, axis=-1))

    def _conditioned(self, gradient: tf.Tensor) -> tf.Tensor:
        """Scales a gradient for the networks."""
        if self.gradient_scale is None:
            return normalize_gradient(gradient)
        return self.gradient_scale * gradient

    def _sample(
        self, x: tf.Tensor, solution: tf.Tensor, draw: Draw
    ) -> AdversarialBatch:
        """Draws from the distribution that the networks output."""
        noise = self.family.noise(x, draw.num_samples, draw.seed)
        x_adv, entropy = self.family.sample(
            x, solution, noise, training=draw.training
        )
        regularizer = self.entropy_weight * entropy
        if self.entropy_threshold is not None:
            # With the mean m, relu(-m - t) equals the mean of (-entropy - t)
            # if that is above 0, with the same gradient, and 0 otherwise.
            mean = replication.mean_over_batch(tf.stop_gradient(entropy))
            excess = entropy + self.entropy_threshold
            regularizer = self.entropy_weight * tf.where(
                mean + self.entropy_threshold < 0, excess, tf.zeros_like(excess)
            )
        return AdversarialBatch(x_adv, entropy, regularizer)

    def as_tfp(self, x: tf.Tensor, solution: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of each image's perturbation."""
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
        """Trains the networks against a classifier, which is not changed.

        Args:
            classifier: Classifier to attack, from images to logits; any object
                that can be called as `classifier(images, training=False)`.
            dataset: (images, labels), or a finite batched `tf.data.Dataset`.
            epochs: Number of passes over the data.
            seed: Seed of the noise.
            verbose: See `keras.Model.fit`.
        """
        from adt_tf.training.trainer import AdversarialTrainer

        if (
            isinstance(dataset, tf.data.Dataset)
            and dataset.cardinality() == tf.data.INFINITE_CARDINALITY
        ):
            raise ValueError(
                "Argument `dataset` must be finite. Received an infinite "
                "dataset: pass `dataset.take(steps)`."
            )
        trainer = AdversarialTrainer(
            classifier, self, seed=seed, train_classifier=False
        )
        trainer.compile()
        data = dataset if isinstance(dataset, tuple) else (dataset,)
        return trainer.fit(*data, epochs=epochs, verbose=verbose)
