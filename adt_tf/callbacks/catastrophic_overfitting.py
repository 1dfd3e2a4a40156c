"""Notices when robust accuracy collapses while training seems fine."""

from __future__ import annotations

import warnings
from typing import Any

from adt_tf.attacks import Attack
from adt_tf.callbacks.measuring import Measuring
from adt_tf.checks import arguments
from adt_tf.threat_models import ThreatModel

# Training accuracy within this of what it was counts as the same.
_SAME_ACCURACY = 0.02


class CatastrophicOverfitting(Measuring):
    """Warns when training still looks well, but robustness has collapsed.

    Training on a weak attack, of one step above all, may within an epoch turn
    into something else: the classifier withstands the attack that it is
    trained with, and its accuracy under more steps falls to zero. This
    callback attacks a fixed probe with many steps after each epoch and warns,
    once for each collapse, where

        best - robust > drop  and  robust < best / 2

    and training accuracy (`logs["accuracy"]`) is not lower than it was at
    the best.

    Reference: Wong et al., Fast is Better than Free: Revisiting Adversarial
    Training, 2020.

    Args:
        data: The probe, some hundred (images, labels), or an
            `adt_tf.data.ImageData`.
        attack: One of many steps, such as
            `adt_tf.attacks.pgd(8 / 255, num_steps=10)`; epsilon alone means
            that.
        drop: Of robust accuracy, as a share: 0.2 is 20 points. Choose a
            smaller one where the best itself is not far above it.
        patience: Epochs that a collapse lasts until it is told.
        stop_training: Whether to stop training as well.
        batch_size: Images attacked at once.
        seed: Of the attack's noise, the same after every epoch.
    """

    def __init__(
        self,
        data: Any,
        attack: Attack | float | ThreatModel,
        *,
        drop: float = 0.2,
        patience: int = 1,
        stop_training: bool = False,
        batch_size: int = 128,
        seed: int = 0,
    ):
        super().__init__(data, attack, batch_size=batch_size, seed=seed)
        if getattr(self.attack, "num_steps", 2) < 2:
            raise arguments.error(
                "take many steps, for one step does not notice the collapse",
                attack=self.attack,
            )
        self.drop = arguments.number_between(
            0, 1, "()", "It is a share, 0.2 for 20 points.", drop=drop
        )
        self.patience = arguments.integer_at_least(1, patience=patience)
        self.stop_training = stop_training
        self.best: float | None = None
        self.accuracy_at_best = 0.0
        self.epochs_collapsed = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Measures the start: the classifier may be robust already."""
        if self.best is None:
            _, self.best = self.measure()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        """Measures, and warns of a collapse."""
        accuracy = (logs or {}).get("accuracy")
        if accuracy is None:
            raise ValueError(
                "CatastrophicOverfitting compares with training accuracy: "
                'compile the trainer with metrics=["accuracy"]. Received: '
                f"logs={logs}"
            )
        _, robust = self.measure()
        if robust >= self.best:
            self.best, self.accuracy_at_best = robust, accuracy
        if self.best - robust <= self.drop or robust >= self.best / 2:
            self.epochs_collapsed = 0
        elif accuracy >= self.accuracy_at_best - _SAME_ACCURACY:
            self.epochs_collapsed += 1
            if self.epochs_collapsed == self.patience:
                self._tell(epoch, robust, accuracy)

    def _tell(self, epoch: int, robust: float, accuracy: float) -> None:
        warnings.warn(
            f"Catastrophic overfitting in epoch {epoch + 1}: robust accuracy "
            f"under {self.attack.name} is {100 * robust:.2f} % and was "
            f"{100 * self.best:.2f} % at its best, while training accuracy is "
            f"{100 * accuracy:.2f} %. The training attack no longer finds what "
            f"{self.attack.name} finds. Go back to the classifier that "
            "RobustCheckpoint has kept, and try in training a smaller step "
            "size, more steps, a random start, or a smaller learning rate.",
            stacklevel=2,
        )
        if self.stop_training:
            self.model.stop_training = True
