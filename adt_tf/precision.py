"""Half precision where it is cheap, float32 where it matters.

    with precision.policy("mixed_bfloat16"):
        classifier = networks.get("wrn-28-10")

Images, perturbations, distributions, logits, losses and all weights stay in
float32; the layers between a network's first and its last compute in the half
format. Eight bits of bfloat16 tell 17 values apart within 8/255 of a pixel, so
a first layer in it would not see most of a perturbation.

    precision.of_search("auto", classifier)      # "float32" or "bfloat16"

says in which format the inner problem alone is searched, a choice of its own:
`policy` is about how the classifier computes wherever it runs.
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

#: What a search may be asked to run in.
SEARCH_CHOICES = ("auto", "float32", "bfloat16")

# Multiplications in half precision that an image takes at least where "auto"
# chooses it. Those of WRN-10-1 on 32x32 pixels are 12 million, those of the
# small network on 8x8 digits 0.6 million: such a training takes a minute or
# two, of which a fifth is no reason for another result than float32's.
_FEWEST_MULTIPLICATIONS = 4_000_000

# As Linux calls the instructions that multiply bfloat16.
_CPU_FEATURES = {"avx512_bf16", "amx_bf16"}

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


def of_search(choice: str, classifier: Any) -> str:
    """Returns the format of a search, "auto" resolved for this machine.

    "auto" is bfloat16 where the CPU multiplies in it, no accelerator is there,
    and the classifier computes in float32 and is large enough for it to pay.

    Args:
        choice: "auto", "float32" or "bfloat16".
        classifier: What the search runs.
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
    """Says whether the CPU multiplies in bfloat16; False where unknown.

    Args:
        path: File in which the system tells the CPU's features.
    """
    try:
        text = pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return False
    return bool(_CPU_FEATURES & set(text.split()))


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
