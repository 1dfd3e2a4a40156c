"""Precision of the classifier, and of the inner maximisation.

    with precision.policy("mixed_bfloat16"):
        classifier = networks.get("wrn-28-10")

Images, perturbations, distributions, logits, losses and all weights stay in
float32. The layers between the first and the last of a network compute in the
half format. bfloat16 has only 17 values within 8/255 of a pixel, so a first
layer in bfloat16 would lose most of a perturbation.

    precision.of_search("auto", classifier)      # "float32" or "bfloat16"

returns the format of the inner maximisation. It is independent of `policy`,
which applies wherever the classifier runs.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.kernels import half

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")

#: Allowed precisions of the inner maximisation.
SEARCH_CHOICES = ("auto", "float32", "bfloat16")

# Smallest number of multiplications for an image at which "auto" chooses half
# precision. WRN-10-1 on 32x32 pixels has 12 million, the small network on 8x8
# digits 0.6 million: its training takes a minute or two, and saving a fifth of
# it does not justify results that differ from float32.
_FEWEST_MULTIPLICATIONS = 4_000_000

# Linux' names of the CPU features that multiply bfloat16.
_CPU_FEATURES = {"avx512_bf16", "amx_bf16"}

# If the classifier is confident, the gradient of one example's loss underflows
# in float16. The outer step scales the mean over a batch of 128 by 2^15, which
# is also a factor of 2^8 for each example.
_INPUT_SCALE = 256.0


@contextlib.contextmanager
def policy(name: str) -> Iterator[None]:
    """Sets the dtype policy of Keras for layers that the block builds.

    Args:
        name: Name of the policy, one of `POLICIES`.

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


def of_search(choice: str, classifier: Any) -> str:
    """Returns the precision of the inner maximisation, with "auto" resolved.

    "auto" is bfloat16 if the CPU multiplies bfloat16, there is no accelerator,
    and the classifier computes in float32 and is large enough to benefit.

    Args:
        choice: "auto", "float32" or "bfloat16".
        classifier: Classifier of the inner maximisation.
    """
    arguments.one_of(SEARCH_CHOICES, choice=choice)
    if choice != "auto":
        return choice
    pays = (
        cpu_has_bfloat16()
        and not tf.config.list_logical_devices("GPU")
        and getattr(classifier, "compute_dtype", None) == "float32"
        and half.multiplications(classifier) >= _FEWEST_MULTIPLICATIONS
    )
    return "bfloat16" if pays else "float32"


def cpu_has_bfloat16(path: str = "/proc/cpuinfo") -> bool:
    """Returns whether the CPU multiplies bfloat16; False if unknown.

    Args:
        path: File of the system that lists the CPU's features.
    """
    try:
        text = pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return False
    return bool(_CPU_FEATURES & set(text.split()))


def full() -> str:
    """Returns the dtype of weights, for layers that must compute in it."""
    return keras.config.dtype_policy().variable_dtype


def guarded(
    classifier: Any, run: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor
) -> tf.Tensor:
    """Returns run(x), with a gradient in x that does not underflow in float16.

    In the backward pass the gradient is multiplied by a power of two before it
    enters the classifier, and divided by it afterwards. For classifiers in
    other formats the result is run(x) itself.

    Args:
        classifier: Classifier that `run` calls.
        run: Function from images to a tensor.
        x: Images.
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
