"""The interface of an objective, and objectives made from functions.

An objective is called once with a batch, and returns the function to climb:

    value = objective(classifier, x, y, seed=seed)
    values, logits = value(x_adv)        # [batch, k], [batch, k, classes]

The first call computes everything that does not depend on x_adv, such as a
target or the clean logits. `get` accepts functions of two kinds:

    def mine(classifier, x, y, *, seed): ...      # returns such a `value`
    def mine(logits, y): ...                      # [n, classes] -> [n]
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import checks, precision
from adt_tf.configs import Configured
from adt_tf.kernels import twins

Value = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


class Objective(Configured, abc.ABC):
    """A function of adversarial images that an attack climbs."""

    #: Name in reports.
    name: str

    #: Whether the value of an example depends on others in its batch. If not,
    #: parts of a batch can be attacked separately.
    couples_examples: bool = False

    @abc.abstractmethod
    def __call__(
        self, classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
    ) -> Value:
        """Returns the function to climb.

        It returns values and logits; the attack uses the logits to find the
        strongest image.

        Args:
            classifier: Function from images to logits.
            x: Clean images [batch, ...].
            y: Labels [batch], or soft labels [batch, classes] if a trainer has
                one-hot or soft labels.
            seed: Seed of the objective's noise.
        """

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the objective cannot use the classifier."""
        del classifier


@dataclasses.dataclass(frozen=True)
class FunctionObjective(Objective):
    """A function (classifier, x, y, *, seed) -> value as an objective.

    The function may have the attributes `couples_examples` and `check`.
    """

    function: Callable[..., Value]

    # The attributes of an objective are never assigned.
    @property
    def name(self) -> str:  # type: ignore[override]
        """The function's name."""
        return getattr(self.function, "__name__", "objective")

    @property
    def couples_examples(self) -> bool:  # type: ignore[override]
        """The attribute of the function, without its partial arguments."""
        return getattr(self._innermost, "couples_examples", False)

    @property
    def _innermost(self) -> Callable[..., Any]:
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return function

    def __call__(
        self, classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
    ) -> Value:
        """Calls the function."""
        return self.function(classifier, x, y, seed=seed)

    def check(self, classifier: Any) -> None:
        """Runs the function's own `check`, if it has one."""
        check = getattr(self._innermost, "check", None)
        if check is not None:
            check(classifier)


class LogitObjective(Objective):
    """An objective that depends on the logits only.

    Subclasses define `of`, for logits with one image in each row.
    """

    @abc.abstractmethod
    def of(
        self, logits: tf.Tensor, y: tf.Tensor, *target: tf.Tensor
    ) -> tf.Tensor:
        """Returns values [n] of logits [n, classes] and labels.

        Labels are classes [n] or, if a trainer has one-hot or soft labels, soft
        labels [n, classes]. A targeted objective also takes the target classes
        [n].
        """

    def __call__(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: tf.Tensor,
        target: tf.Tensor | None = None,
    ) -> Value:
        """Returns the function to climb; `target` holds target classes."""
        del x, seed
        labels = [y] if target is None else [y, target]

        def values(logits: tf.Tensor) -> tf.Tensor:
            shape = tf.shape(logits)
            rows = tf.reshape(logits, [-1, logits.shape[-1]])
            repeated = [tf.repeat(label, shape[1], axis=0) for label in labels]
            return tf.reshape(self.of(rows, *repeated), shape[:2])

        return on_logits(classifier, values)


@dataclasses.dataclass(frozen=True)
class OfLogits(LogitObjective):
    """A function (logits, y[, target]) -> values as an objective."""

    function: Callable[..., tf.Tensor]
    name: str

    def of(
        self, logits: tf.Tensor, y: tf.Tensor, *target: tf.Tensor
    ) -> tf.Tensor:
        """Calls the function."""
        return self.function(logits, y, *target)


def of_logits(
    function: Callable[..., tf.Tensor], *, name: str | None = None
) -> OfLogits:
    """Turns a function of logits into an objective.

    Args:
        function: Function from logits [n, classes] and labels [n], and for a
            targeted objective target classes [n], to values [n].
        name: Name in reports; by default the function's name.

    Example:

    >>> of_logits(lambda logits, y: -logits[:, 0], name="away from 0").name
    'away from 0'
    """
    default: str = getattr(function, "__name__", "objective")
    return OfLogits(function, name or default)


def get(objective: Objective | Callable[..., Any]) -> Objective:
    """Returns an objective unchanged, or turns a function into one.

    Args:
        objective: An objective; or a function of (classifier, x, y, *, seed),
            recognised by its argument `seed`; or a function of logits, as
            `of_logits` takes it.
    """
    if isinstance(objective, Objective):
        return objective
    if not callable(objective):
        raise ValueError(
            "Argument `objective` must be an objective such as "
            "`adt_tf.objectives.cross_entropy`, or a function. Received: "
            f"objective={objective!r}"
        )
    arguments = inspect.signature(objective).parameters.values()
    if any(a.name == "seed" or a.kind is a.VAR_KEYWORD for a in arguments):
        return FunctionObjective(objective)
    return of_logits(objective)


def couples_examples(objective: Objective | Callable[..., Any]) -> bool:
    """Returns whether an example's value depends on others in its batch.

    For your own function, set `function.couples_examples = True`.
    """
    return get(objective).couples_examples


def logits_of(
    classifier: Any, x: tf.Tensor, *, training: bool = False
) -> tf.Tensor:
    """Runs the classifier on images [batch, k, ...] -> [batch, k, classes]."""
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    flat = tf.ensure_shape(flat, [None, *x.shape[2:]])

    def run(images: tf.Tensor) -> tf.Tensor:
        logits = twins.fast(classifier)(images, training=training)
        return checks.as_logits(logits, classifier)

    logits = run(flat) if training else precision.guarded(classifier, run, flat)
    if len(logits.shape) != 2:
        raise ValueError(
            "The classifier must return logits of shape (batch, classes). "
            f"Received: shape={tuple(logits.shape)} for images of shape "
            f"{tuple(x.shape[2:])}; end it with pooling or Flatten and a "
            "Dense layer without activation."
        )
    return tf.reshape(logits, [shape[0], shape[1], logits.shape[-1]])


def on_logits(
    classifier: Any, values: Callable[[tf.Tensor], tf.Tensor]
) -> Value:
    """Returns a function to climb that depends on the logits alone.

    Args:
        classifier: Function from images to logits.
        values: Function from logits [batch, k, classes] to values [batch, k].
    """

    def value(x_adv: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits = logits_of(classifier, x_adv)
        return values(logits), logits

    return value
