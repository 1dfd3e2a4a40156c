"""SGD with weight decay as PyTorch has it; one loss scale for two optimisers.

Under `mixed_float16` Keras multiplies the loss, so that gradients do not
vanish, and skips a step whose gradients overflow. The classifier's optimiser
and the attack's share a backward pass, hence one scale: the smaller of theirs.
Each adapts its own, and skips its own steps.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf import replication

# An optimiser without loss scaling gives back the very loss it is given.
_ONE = 1.0


@keras.saving.register_keras_serializable("adt_tf")
class SGD(keras.optimizers.SGD):
    """Keras' SGD, with `l2` times the weight added to its gradient.

        g <- gradient + l2 * w
        v <- momentum * v - learning_rate * g
        w <- w + v

    Keras' own `weight_decay` shrinks the weight beside the momentum instead
    and gives other results. The term applies to all weights, biases and
    batch-norm scales included, as in the paper's recipes.

    `import adt_tf` is enough to load a model that was compiled with it.

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


def scaled_like(optimizer: Any, other: Any) -> Any:
    """Returns `other`, with loss scaling of its own if `optimizer` has it."""
    scaling = keras.optimizers.LossScaleOptimizer
    if isinstance(optimizer, scaling) and not isinstance(other, scaling):
        return scaling(other)
    return other


def innermost(optimizer: Any) -> Any:
    """Returns the optimiser inside loss scaling, or the optimiser itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def counter(optimizer: Any) -> Any:
    """Returns the variable that counts the calls of `apply`.

    Under `gradient_accumulation_steps`, `iterations` counts the updates.
    """
    inner = innermost(optimizer)
    if inner.gradient_accumulation_steps is None:
        return inner.iterations
    return next(v for v in inner.variables if v.name == "iteration")


def common_scale(optimizers: list[Any]) -> Any:
    """The factor of a loss whose gradients several optimisers share."""
    scales = [optimizer.scale_loss(_ONE) for optimizer in optimizers]
    if all(scale is _ONE for scale in scales):
        return _ONE
    return tf.reduce_min(tf.stack(scales))


def to_check(gradients: list[Any], scale: Any) -> list[Any]:
    """What must be finite of the gradients of a loss times `scale`.

    Loss scaling expects gradients to overflow, then skips the step and halves
    the scale. Where there is nothing left to halve, it would skip for ever.
    """
    if scale is _ONE:
        return gradients
    checked = [
        g if g is None else tf.where(scale <= 1.0, g, tf.zeros_like(g))
        for g in gradients
    ]
    return [1.0 / scale, *checked]


def has_usable_scale(optimizer: Any) -> bool:
    """Whether a loss scale, if there is one, can be multiplied and divided."""
    scale = getattr(optimizer, "dynamic_scale", None)
    return scale is None or 0.0 < float(scale.numpy()) < float("inf")


def apply(
    optimizer: Any, gradients: list[Any], variables: list[Any], scale: Any
) -> None:
    """Applies gradients of a loss that was multiplied by `scale`.

    Where one replica's gradients overflow, all must skip the step, or they
    would wait for each other for ever.
    """
    if not variables:
        return
    if scale is not _ONE:
        factor = optimizer.scale_loss(_ONE) / scale
        gradients = [g if g is None else g * factor for g in gradients]
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        gradients = replication.agree_on_finite(gradients)
    optimizer.apply(gradients, variables)
