"""Detects a collapse of robust accuracy that training does not show."""

from __future__ import annotations

import warnings
from typing import Any

from adt_tf.attacks import Attack
from adt_tf.callbacks.measuring import Measuring
from adt_tf.checks import arguments
from adt_tf.threat_models import ThreatModel

# Smallest decrease of training accuracy that counts as a decrease.
_SAME_ACCURACY = 0.02


class CatastrophicOverfitting(Measuring):
    """Warns if robust accuracy collapses while training accuracy does not.

    Training on a weak attack, in particular on a single step, may overfit to it
    within an epoch: the classifier withstands the training attack, but its
    accuracy under more steps falls to zero. After each epoch, this callback
    attacks a fixed set of images with many steps. It warns, once for each
    collapse, if

        best - robust > drop  and  robust < best / 2

    and training accuracy (`logs["accuracy"]`) is not lower than in the best
    epoch.

    Reference: Wong et al., Fast is Better than Free: Revisiting Adversarial
    Training, 2020.

    Args:
        data: Some hundred examples, (images, labels) or an
            `adt_tf.data.ImageData`.
        attack: Attack of many steps, or epsilon, which stands for
            `adt_tf.attacks.pgd(epsilon, num_steps=10)`.
        drop: Decrease of robust accuracy, as a share (0.2 is 20 points). Use a
            smaller value if the best robust accuracy is small.
        patience: Number of epochs in a row before the warning.
        stop_training: Whether to stop training as well.
        batch_size: Number of images in a batch.
        seed: Seed of the attack's noise, the same after every epoch.
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
                "take many steps: a single step does not detect the collapse",
                attack=self.attack,
            )
        self.drop = arguments.number_between(
            0, 1, "()", "It is a share: 0.2 means 20 points.", drop=drop
        )
        self.patience = arguments.integer_at_least(1, patience=patience)
        self.stop_training = stop_training
        self.best: float | None = None
        self.accuracy_at_best = 0.0
        self.epochs_collapsed = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Measures the initial classifier, which may be robust already."""
        if self.best is None:
            _, self.best = self.measure()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, float] | None = None
    ) -> None:
        """Measures robust accuracy, and warns if it has collapsed."""
        accuracy = (logs or {}).get("accuracy")
        if accuracy is None:
            raise ValueError(
                "Callback `CatastrophicOverfitting` needs the training "
                'accuracy: compile the trainer with metrics=["accuracy"]. '
                f"Received: logs={logs}"
            )
        _, robust = self.measure()
        if self.best is None or robust >= self.best:
            self.best, self.accuracy_at_best = robust, accuracy
        if self.best - robust <= self.drop or robust >= self.best / 2:
            self.epochs_collapsed = 0
        elif accuracy >= self.accuracy_at_best - _SAME_ACCURACY:
            self.epochs_collapsed += 1
            if self.epochs_collapsed == self.patience:
                self._warn(epoch, robust, accuracy, self.best)

    def _warn(
        self, epoch: int, robust: float, accuracy: float, best: float
    ) -> None:
        warnings.warn(
            f"Catastrophic overfitting in epoch {epoch + 1}: robust accuracy "
            f"under {self.attack.name} is {100 * robust:.2f} % and was "
            f"{100 * best:.2f} % at its best, while training accuracy is "
            f"{100 * accuracy:.2f} %. The training attack no longer finds the "
            f"perturbations that {self.attack.name} finds. Go back to the "
            "classifier that RobustCheckpoint saved, and train with a smaller "
            "step size, more steps, a random start, or a smaller learning "
            "rate.",
            stacklevel=2,
        )
        if self.stop_training:
            self.model.stop_training = True
