"""The compiled functions of an attack, one set for each classifier."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.results import (
    AdversarialBatch,
    Problem,
    Progress,
    judged,
)

if TYPE_CHECKING:
    from adt_tf.attacks.base import Attack


# Number of renewals of each classifier.
_RENEWALS: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def renew(classifier: Any) -> None:
    """Lets functions of a classifier be traced again at their next use.

    A trace reads weights anew, but holds the attributes of a Python object as
    they were, such as a model that the object calls.
    """
    _RENEWALS[classifier] = version(classifier) + 1


def version(classifier: Any) -> int:
    """Returns how often a classifier was renewed."""
    return _RENEWALS.get(classifier, 0)


def use_xla(jit_compile: bool | str) -> bool:
    """Resolves "auto": XLA on accelerators; on a CPU oneDNN is faster."""
    if jit_compile == "auto":
        return bool(tf.config.list_logical_devices("GPU"))
    return bool(jit_compile)


def traced(
    attack: Attack, classifier: Any, task: str, jit_compile: bool
) -> Callable[..., Any]:
    """Returns a `tf.function` that runs one task of an attack.

    Its inputs are x, y, seed and part; then the progress, for "advance" and
    "finish"; then the number of steps, for "advance". It holds the classifier
    by a weak reference: a strong one would keep the classifier alive for as
    long as the attack.

    Args:
        attack: The attack.
        classifier: Keras model from images to logits.
        task: "begin", "advance", "finish", "find" or "solve", the methods of
            the attack; or "stronger", which merges two batches.
        jit_compile: Whether XLA compiles the steps.
    """
    reference = weakref.ref(classifier)

    def problem(
        x: tf.Tensor, y: tf.Tensor, seed: tf.Tensor, part: tf.Tensor
    ) -> Problem:
        return Problem(reference(), x, y, seed, part, jit_compile)

    def solve(
        x: tf.Tensor, y: tf.Tensor, seed: tf.Tensor, part: tf.Tensor
    ) -> Any:
        return problem(x, y, seeds.fold(seed, 0), part).solved_by(attack)

    def find(*inputs: tf.Tensor) -> AdversarialBatch:
        return attack.find(problem(*inputs))

    def begin(*inputs: tf.Tensor) -> Progress:
        return attack.begin(problem(*inputs))

    def advance(*inputs: Any) -> Progress:
        *examples, progress, num_steps = inputs
        return attack.advance(problem(*examples), progress, num_steps)

    def finish(*inputs: Any) -> AdversarialBatch:
        *examples, progress = inputs
        return attack.finish(problem(*examples), progress)

    def stronger(
        first: AdversarialBatch, second: AdversarialBatch, y: tf.Tensor
    ) -> AdversarialBatch:
        one, other = (
            judged(reference(), batch.x_adv, y) for batch in (first, second)
        )
        return first._replace(x_adv=one.updated(other).x_adv)

    tasks = (solve, find, begin, advance, finish, stronger)
    (function,) = (f for f in tasks if f.__name__ == task)
    # TensorFlow counts traces by the code of a function, and would take the
    # first trace of each further attack for a retrace. A partial has no code,
    # so that each counts its own.
    function = functools.partial(function)
    return tf.function(function, autograph=False, reduce_retracing=True)
