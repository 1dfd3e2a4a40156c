"""Uniform noise in the ball: what a random, not an adversary, may do."""

from __future__ import annotations

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.base import AdversarialBatch, Attack
from adt_tf.threat_models import ThreatModel


class Noise(Attack):
    """Draws images uniformly from the ball, clipped to the pixel box.

    It does not look at the classifier. `adt_tf.evaluate_probabilistic` takes
    it as the mildest of all distributions.

    Args:
        threat_model: The ball.
        name: The attack's name in tables.
    """

    passes_per_step = 0

    def __init__(self, threat_model: ThreatModel, name: str = "uniform"):
        super().__init__(threat_model, name)

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """There is nothing to solve."""
        return ()

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Draws the images [batch, num_samples, ...]."""
        del solution
        draws = tf.map_fn(
            lambda i: self.threat_model.random_start(x, seeds.fold(seed, i)),
            tf.range(num_samples),
            fn_output_signature=tf.float32,
        )
        draws = tf.ensure_shape(draws, [num_samples, *x.shape])
        x_adv = tf.transpose(draws, [1, 0, *range(2, len(draws.shape))])
        zeros = tf.zeros(tf.shape(x_adv)[:2])
        return AdversarialBatch(x_adv, zeros, zeros)

    def as_tfp(self, x, solution):
        """Raises `ValueError`: a threat model has no density of its noise."""
        raise ValueError(
            "Uniform noise in a ball is drawn, and has no TFP distribution "
            "here. Draw samples by calling the attack, with another seed for "
            "each."
        )
