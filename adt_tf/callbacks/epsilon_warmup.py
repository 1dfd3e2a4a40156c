"""Increases epsilon linearly over the first epochs."""

from __future__ import annotations

from typing import Any

import keras

from adt_tf.checks import arguments


class EpsilonWarmup(keras.callbacks.Callback):
    """Increases epsilon linearly over the first epochs.

        epsilon_e = epsilon * min(1, (e + 1) / num_epochs),  e = 0, 1, ...

    This helps if training with the full epsilon does not start to learn. Step
    sizes that are a share of epsilon, the default of `attacks.pgd`, grow with
    it. The validation in `fit` uses the epsilon of the epoch. The attack object
    does not change: the trainer scales it in each step.

    Args:
        num_epochs: Number of epochs until epsilon reaches its full value.
    """

    def __init__(self, num_epochs: int):
        super().__init__()
        self.num_epochs = arguments.integer_at_least(1, num_epochs=num_epochs)

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the epsilon of this epoch."""
        self.model.scale_epsilon(min(1.0, (epoch + 1) / self.num_epochs))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Restores the full epsilon if training ends during the warm-up."""
        self.model.scale_epsilon(1.0)
