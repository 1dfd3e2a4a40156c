"""Base class of the callbacks that attack the classifier."""

from __future__ import annotations

from typing import Any

import keras

from adt_tf import attacks
from adt_tf.attacks import Attack
from adt_tf.checks import arguments
from adt_tf.data import as_examples
from adt_tf.evaluation import NATURAL, Settings, evaluated
from adt_tf.threat_models import ThreatModel


class Measuring(keras.callbacks.Callback):
    """Measures accuracy under an attack on fixed data.

    Args:
        data: Examples, (images, labels) or an `adt_tf.data.ImageData`.
        attack: Attack, or epsilon, which stands for PGD with 10 steps.
        batch_size: Number of images in a batch.
        seed: Seed of the attack's noise.
    """

    def __init__(
        self,
        data: Any,
        attack: Attack | float | ThreatModel,
        *,
        batch_size: int,
        seed: int,
    ):
        super().__init__()
        if isinstance(attack, (int, float, ThreatModel)):
            attack = attacks.pgd(attack, num_steps=10)
        if not isinstance(attack, Attack):
            raise arguments.error(
                "be an attack such as "
                "`adt_tf.attacks.pgd(8 / 255, num_steps=10)`, or epsilon",
                attack=attack,
            )
        self.data = as_examples(data, bounds=attack.threat_model.bounds)
        self.attack = attack
        # `evaluate` pads the last batch, so a larger batch would cost more.
        self.batch_size = min(batch_size, len(self.data[0]))
        self.seed = seed

    @property
    def classifier(self) -> keras.Model:
        """The classifier of the trainer."""
        classifier = getattr(self.model, "classifier", None)
        if not isinstance(classifier, keras.Model):
            raise ValueError(
                f"Callback `{type(self).__name__}` must be used in the `fit` "
                "of an `AdversarialTrainer`, which has a `classifier`. "
                f"Received: model={self.model!r}"
            )
        return classifier

    def measure(self) -> tuple[float, float]:
        """Returns the natural and the robust accuracy of the classifier."""
        settings = Settings(
            batch_size=self.batch_size,
            seed=self.seed,
            verbose=False,
            warns=False,  # The report, which has the warnings, is not kept.
        )
        attacks = [self.attack]
        with evaluated(self.classifier, self.data, attacks, settings) as report:
            return report.accuracy[NATURAL], report.robust_accuracy
