"""Shows the averaged weights to whatever measures or keeps the classifier."""

from __future__ import annotations

from typing import Any

import keras

from adt_tf.training.averaging import WeightAverage


class AveragedWeights(keras.callbacks.Callback):
    """Gives the classifier its averaged weights between the epochs.

    Validation runs on the average, and so does every callback after this one
    in the list at the end of an epoch: put it first. The next epoch, and what
    is saved when it begins or when training ends, has the weights that are
    trained. Afterwards `trainer.average.swap()` gives the average.
    """

    def __init__(self):
        super().__init__()
        self.is_swapped = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Sees that there is an average."""
        if not isinstance(getattr(self.model, "average", None), WeightAverage):
            raise ValueError(
                "AveragedWeights must be given to the `fit` of an "
                "`AdversarialTrainer(..., average=WeightAverage(0.999))`. "
                f"Received: model={self.model!r}"
            )

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Goes on with the weights that are trained."""
        self._show(False)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Shows the average to validation."""
        self._show(True)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Shows the average to the callbacks that follow."""
        self._show(True)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Gives the weights that were trained back."""
        self._show(False)

    def _show(self, averaged: bool) -> None:
        if averaged != self.is_swapped:
            self.model.average.swap()
            self.is_swapped = averaged
