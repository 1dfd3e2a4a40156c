"""The metrics of a trainer's step: those of `compile`, and four more."""

from __future__ import annotations

import keras
import tensorflow as tf

from adt_tf import checks
from adt_tf.attacks import AdversarialBatch
from adt_tf.losses import RobustLoss
from adt_tf.threat_models import ThreatModel


def make_trackers() -> dict[str, keras.metrics.Mean]:
    """Returns the means that a trainer keeps besides its compiled metrics."""
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
        """The metrics, which Keras resets at each epoch."""
        own = list(self.trackers.values())
        names = {metric.name for metric in own}
        return own + [m for m in super().metrics if m.name not in names]

    def report(
        self,
        threat_model: ThreatModel,
        examples: tuple[tf.Tensor, tf.Tensor, tf.Tensor | None],
        loss: tf.Tensor,
        batch: AdversarialBatch,
        outcome: RobustLoss,
    ) -> dict[str, tf.Tensor]:
        """Updates all metrics with the results of a step; returns them.

        Args:
            threat_model: Threat model of the attack.
            examples: Images, labels and weights of the batch.
            loss: Mean loss of the batch, a scalar.
            batch: Adversarial images.
            outcome: Result of the outer loss.
        """
        x, y, weights = examples
        logits = outcome.adversarial_logits
        delta = batch.x_adv - x[:, tf.newaxis]
        self.trackers["loss"].update_state(loss, sample_weight=tf.shape(x)[0])
        updates = {
            "entropy": batch.entropy,
            "perturbation": threat_model.relative_size(delta),
        }
        if outcome.clean_logits is not None:
            predicted = tf.argmax(
                outcome.clean_logits, axis=-1, output_type=tf.int32
            )
            right = predicted == checks.classes_of(y)
            updates["clean_accuracy"] = tf.cast(right, tf.float32)
        for name, value in updates.items():
            self.trackers[name].update_state(value)
        # A classifier without a known input shape is built by its first step.
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
            if name not in self.trackers or name in ("loss", *updates)
        }

    def _predictions(self, logits: tf.Tensor) -> tf.Tensor:
        """Returns the logits [n, classes], or the only logit [n, 1]."""
        if checks.has_one_logit(self.classifier):
            return logits[:, 1:]
        return logits
