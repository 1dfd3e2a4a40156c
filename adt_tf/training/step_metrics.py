"""What a step of the trainer reports: Keras' metrics, and four of its own."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks


def make_trackers() -> dict[str, keras.metrics.Mean]:
    """Returns the means that a trainer keeps beside its compiled metrics."""
    return {
        name: keras.metrics.Mean(name=name)
        for name in ("loss", "clean_accuracy", "entropy", "perturbation")
    }


class MeasuredModel(keras.Model):
    """A Keras model that reports on adversarial images.

    Subclasses have `trackers`, of `make_trackers`, a `classifier` and
    `outer_samples`.
    """

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics that are reset at each epoch."""
        own = list(self.trackers.values())
        names = {metric.name for metric in own}
        return own + [m for m in super().metrics if m.name not in names]

    def report(
        self,
        attack: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        weights: tf.Tensor | None,
        loss: tf.Tensor,
        batch: Any,
        outcome: Any,
    ) -> dict[str, tf.Tensor]:
        """Updates the metrics by what a step has found; returns them all."""
        logits = outcome.adversarial_logits
        delta = batch.x_adv - x[:, tf.newaxis]
        updates = {
            "loss": loss,
            "entropy": batch.entropy,
            "perturbation": attack.threat_model.relative_size(delta),
        }
        if outcome.clean_logits is not None:
            predicted = tf.argmax(
                outcome.clean_logits, axis=-1, output_type=tf.int32
            )
            right = predicted == checks.classes_of(y)
            updates["clean_accuracy"] = tf.cast(right, tf.float32)
        for name, value in updates.items():
            size = tf.shape(x)[0] if name == "loss" else None
            self.trackers[name].update_state(value, sample_weight=size)
        # Whatever was built for the first time in this step.
        self.built = True
        repeated = tf.repeat(y, self.outer_samples, axis=0)
        if weights is not None:
            weights = tf.repeat(weights, self.outer_samples)
        results = self.compute_metrics(
            x,
            repeated,
            self._predictions(tf.reshape(logits, [-1, logits.shape[-1]])),
            weights,
        )
        return {
            name: result
            for name, result in results.items()
            if name not in self.trackers or name in updates
        }

    def _predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """What metrics see: logits [n, classes], or the one logit [n, 1]."""
        if checks.has_one_logit(self.classifier):
            return logits[:, 1:]
        return logits
