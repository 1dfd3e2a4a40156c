"""Uniform noise in the ball: random perturbations, not adversarial ones."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.attacks.base import Attack
from adt_tf.attacks.results import AdversarialBatch, Draw, Problem
from adt_tf.threat_models import ThreatModel


class Noise(Attack):
    """Draws images uniformly from the ball, clipped to the pixel box.

    It does not use the classifier. For `adt_tf.evaluate_probabilistic` it is
    the mildest distribution.

    Args:
        threat_model: The ball.
        name: Name in tables.
    """

    passes_per_step = 0
    search = "none"

    def __init__(
        self, threat_model: ThreatModel, name: str = "uniform"
    ) -> None:
        super().__init__(threat_model, name)

    def _solve(self, problem: Problem) -> tuple[()]:
        """Returns nothing: noise has no inner problem."""
        return ()

    def _sample(
        self, x: tf.Tensor, solution: tuple[()], draw: Draw
    ) -> AdversarialBatch:
        """Draws the images [batch, num_samples, ...]."""
        del solution
        num_samples, seed, _ = draw
        draws = tf.map_fn(
            lambda i: self.threat_model.random_point(x, seeds.fold(seed, i)),
            tf.range(num_samples),
            fn_output_signature=tf.float32,
        )
        draws = tf.ensure_shape(draws, [num_samples, *x.shape])
        x_adv = tf.transpose(draws, [1, 0, *range(2, len(draws.shape))])
        zeros = tf.zeros(tf.shape(x_adv)[:2])
        return AdversarialBatch(x_adv, zeros, zeros)

    def as_tfp(self, x: tf.Tensor, solution: tuple[()]) -> tfd.Distribution:
        """Raises `ValueError`: a threat model has no density of its noise."""
        raise ValueError(
            "Uniform noise in a ball is drawn, and has no TFP distribution "
            "here. Draw samples by calling the attack, with another seed for "
            "each."
        )
