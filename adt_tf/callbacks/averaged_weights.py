"""Swaps in the averaged weights for validation and checkpoints."""

from __future__ import annotations

from typing import Any

import keras

from adt_tf.training.averaging import WeightAverage


class AveragedWeights(keras.callbacks.Callback):
    """Gives the classifier its averaged weights between epochs.

    Validation uses the average, and so does, at the end of an epoch, every
    callback after this one in the list: put this one first. When the next epoch
    begins and when training ends, the classifier gets its trained weights back.
    After training, `trainer.average.swap()` gives the classifier the average.
    """

    def __init__(self):
        super().__init__()
        self.is_swapped = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Checks that the trainer has an average."""
        if not isinstance(getattr(self.model, "average", None), WeightAverage):
            raise ValueError(
                "Callback `AveragedWeights` must be used in the `fit` of an "
                "`AdversarialTrainer(..., average=WeightAverage(0.999))`. "
                f"Received: model={self.model!r}"
            )

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Restores the trained weights."""
        self._use_average(False)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Uses the average for validation."""
        self._use_average(True)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Uses the average for the callbacks that follow."""
        self._use_average(True)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Restores the trained weights."""
        self._use_average(False)

    def _use_average(self, is_average: bool) -> None:
        if is_average != self.is_swapped:
            self.model.average.swap()
            self.is_swapped = is_average
