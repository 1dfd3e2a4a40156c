"""SGD with the weight decay of PyTorch, and loss scaling for two optimisers.

Under `mixed_float16` Keras scales the loss, so that gradients do not underflow,
and skips steps whose gradients overflow. The optimisers of the classifier and
of the attack share a backward pass, and therefore one scale: the smaller of
their two. Each optimiser adapts its own scale and skips its own steps.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adt_tf import replication

# An optimiser without loss scaling returns this same object as its scale.
_ONE = 1.0


@keras.saving.register_keras_serializable("adt_tf")
class SGD(keras.optimizers.SGD):
    """Keras' SGD, with `l2` times the weight added to its gradient.

        g <- gradient + l2 * w
        v <- momentum * v - learning_rate * g
        w <- w + v

    Keras' own `weight_decay` is decoupled from the momentum and gives other
    results. As in the paper, the term applies to all weights, including biases
    and the scales of batch normalisation.

    `import adt_tf` is enough to load a model that was compiled with it.

    Args:
        learning_rate: Number or schedule.
        l2: Weight decay, such as 2e-4.
        **arguments: Further arguments of `keras.optimizers.SGD`.
    """

    def __init__(
        self, learning_rate: Any = 0.1, *, l2: float = 0.0, **arguments: Any
    ):
        super().__init__(learning_rate, **arguments)
        self.l2 = l2

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        """Updates one variable."""
        if self.l2:
            gradient = gradient + self.l2 * keras.ops.cast(
                variable, gradient.dtype
            )
        super().update_step(gradient, variable, learning_rate)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "l2": self.l2}


def scaled_like(optimizer: Any, other: Any) -> Any:
    """Returns `other`, with its own loss scaling if `optimizer` has one."""
    scaling = keras.optimizers.LossScaleOptimizer
    if isinstance(optimizer, scaling) and not isinstance(other, scaling):
        return scaling(other)
    return other


def innermost(optimizer: Any) -> Any:
    """Returns the optimiser inside a `LossScaleOptimizer`, or itself."""
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
    """Returns the loss scale of a loss that several optimisers share."""
    scales = [optimizer.scale_loss(_ONE) for optimizer in optimizers]
    if all(scale is _ONE for scale in scales):
        return _ONE
    return tf.reduce_min(tf.stack(scales))


def to_check(gradients: list[Any], scale: Any) -> list[Any]:
    """Returns the values that must be finite if the loss is scaled.

    With loss scaling, gradients may overflow: the step is skipped, and the
    scale is halved. At a scale of 1 or below, overflows are errors, since
    halving does not help any more.

    Args:
        gradients: Gradients of the scaled loss.
        scale: Loss scale.
    """
    if scale is _ONE:
        return gradients
    checked = [
        g if g is None else tf.where(scale <= 1.0, g, tf.zeros_like(g))
        for g in gradients
    ]
    return [1.0 / scale, *checked]


def has_usable_scale(optimizer: Any) -> bool:
    """Returns whether the loss scale, if any, is positive and finite."""
    scale = getattr(optimizer, "dynamic_scale", None)
    return scale is None or 0.0 < float(scale.numpy()) < float("inf")


def apply(
    optimizer: Any, gradients: list[Any], variables: list[Any], scale: Any
) -> None:
    """Applies the gradients of a scaled loss.

    If the gradients of one replica overflow, all replicas must skip the step;
    otherwise they would wait for each other for ever.

    Args:
        optimizer: Optimiser of the variables.
        gradients: Gradients of the loss times `scale`.
        variables: Variables to update.
        scale: Loss scale, from `common_scale`.
    """
    if not variables:
        return
    if scale is not _ONE:
        factor = optimizer.scale_loss(_ONE) / scale
        gradients = [g if g is None else g * factor for g in gradients]
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        gradients = replication.agree_on_finite(gradients)
    optimizer.apply(gradients, variables)
