"""Lets epsilon grow over the first epochs."""

from __future__ import annotations

from typing import Any

import keras


class EpsilonWarmup(keras.callbacks.Callback):
    """Lets epsilon grow over the first epochs, to help a start that fails.

        epsilon_e = epsilon * min(1, (e + 1) / num_epochs),  e = 0, 1, ...

    Step sizes that are a share of epsilon, as those of `attacks.pgd` are by
    default, grow with it. The validation that `fit` runs has the epoch's
    epsilon as well. The attack itself stays as it is: the trainer scales it
    in each step.

    Args:
        num_epochs: After so many epochs epsilon has its value.
    """

    def __init__(self, num_epochs: int):
        super().__init__()
        if not isinstance(num_epochs, int) or num_epochs < 1:
            raise ValueError(
                "Argument `num_epochs` must be a positive integer. "
                f"Received: num_epochs={num_epochs}"
            )
        self.num_epochs = num_epochs

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Sets the epsilon of this epoch."""
        self.model.scale_epsilon(min(1.0, (epoch + 1) / self.num_epochs))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Gives all of epsilon back, should training end before."""
        self.model.scale_epsilon(1.0)
