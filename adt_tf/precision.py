"""Half precision where it is cheap, float32 where it matters.

    with precision.policy("mixed_bfloat16"):
        classifier = networks.get("wrn-28-10")

Images, perturbations, distributions, logits, losses and all weights stay in
float32; the layers between a network's first and its last compute in the half
format. Eight bits of bfloat16 tell 17 values apart within 8/255 of a pixel, so
a first layer in it would not see most of a perturbation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from adt_tf.checks import arguments

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")

# The gradient of one example's loss, backpropagated in float16, is below what
# that format can hold where the classifier is sure. The outer step's 2^15,
# spread over a batch of 128, is the same 2^8 for each example.
_INPUT_SCALE = 256.0


@contextlib.contextmanager
def policy(name: str) -> Iterator[None]:
    """Builds what is inside with a dtype policy of Keras, by its name.

    Example:

    >>> with policy("mixed_bfloat16"):
    ...     layer = keras.layers.Dense(3)
    >>> layer.compute_dtype, keras.layers.Dense(3).compute_dtype
    ('bfloat16', 'float32')
    """
    arguments.one_of(POLICIES, name=name)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def full() -> str:
    """The dtype of weights, for the layers that must not compute in less."""
    return keras.config.dtype_policy().variable_dtype


def guarded(
    classifier: Any, run: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor
) -> tf.Tensor:
    """Returns run(x), with a gradient in x that does not vanish in float16.

    The gradient is multiplied by a power of two on its way into the
    classifier and divided by it on its way out: the same gradient, without
    the underflow between. For other formats it is run(x) as it is.
    """
    if getattr(classifier, "compute_dtype", None) != "float16":
        return run(x)
    inside = _with_gradient_times(x, 1 / _INPUT_SCALE)
    return _with_gradient_times(run(inside), _INPUT_SCALE)


def _with_gradient_times(x: tf.Tensor, factor: float) -> tf.Tensor:
    @tf.custom_gradient
    def identity(x):
        return tf.identity(x), lambda upstream: factor * upstream

    return identity(x)
