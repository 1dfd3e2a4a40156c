"""SGD with weight decay as an L2 term in the gradient, as PyTorch has it."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("adt_tf")
class SGD(keras.optimizers.SGD):
    """Keras' SGD, with `l2` times the weight added to its gradient.

        g <- gradient + l2 * w
        v <- momentum * v - learning_rate * g
        w <- w + v

    Keras' own `weight_decay` shrinks the weight beside the momentum instead
    and gives other results. The term applies to all weights, biases and
    batch-norm scales included, as in the paper's recipes.

    Args:
        learning_rate: A number or a schedule.
        l2: The weight decay of the recipe, for instance 2e-4.
        **arguments: Further ones of `keras.optimizers.SGD`.
    """

    def __init__(
        self, learning_rate: Any = 0.1, *, l2: float = 0.0, **arguments: Any
    ):
        super().__init__(learning_rate, **arguments)
        self.l2 = l2

    def update_step(self, gradient, variable, learning_rate):
        """Applies one update to one variable."""
        if self.l2:
            gradient = gradient + self.l2 * keras.ops.cast(
                variable, gradient.dtype
            )
        super().update_step(gradient, variable, learning_rate)

    def get_config(self) -> dict[str, Any]:
        """Returns what rebuilds the optimiser."""
        return {**super().get_config(), "l2": self.l2}
