"""The interface of an objective, and how functions become one.

An objective is called once with a batch, and gives the function to climb:

    value = objective(classifier, x, y, seed=seed)
    values, logits = value(x_adv)        # [batch, k], [batch, k, classes]

What does not depend on x_adv (a target, the clean logits) is worked out once,
in the first call. `get` makes an objective of a function of either kind:

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
    """What an attack climbs: per-example values of adversarial images."""

    #: What reports call it.
    name: str

    #: Whether the value of an example depends on others in its batch. If not,
    #: parts of a batch may be attacked apart.
    couples_examples: bool = False

    @abc.abstractmethod
    def __call__(
        self, classifier: Any, x: tf.Tensor, y: tf.Tensor, *, seed: tf.Tensor
    ) -> Value:
        """Returns the function to climb.

        The logits that it gives beside the values are those by which an attack
        knows the strongest image it has met.

        Args:
            classifier: A function from images to logits.
            x: Clean images [batch, ...].
            y: Labels [batch], or shares [batch, classes] where a trainer
                is given one-hot or soft labels.
            seed: The seed of all that is drawn.
        """

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` where such a classifier cannot be attacked."""
        del classifier


@dataclasses.dataclass(frozen=True)
class FunctionObjective(Objective):
    """A function (classifier, x, y, *, seed) -> value as an objective.

    The function may have the attributes `couples_examples` and `check`.
    """

    function: Callable[..., Value]

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", "objective")

    @property
    def couples_examples(self) -> bool:
        """What the function says, or one that it is a partial of."""
        return getattr(self._innermost, "couples_examples", False)

    @property
    def _innermost(self):
        function = self.function
        while isinstance(function, functools.partial):
            function = function.func
        return function

    def __call__(self, classifier, x, y, *, seed):
        """Calls the function."""
        return self.function(classifier, x, y, seed=seed)

    def check(self, classifier):
        """Asks the function, where it has something to say."""
        check = getattr(self._innermost, "check", None)
        if check is not None:
            check(classifier)


class LogitObjective(Objective):
    """An objective that sees the logits only.

    Subclasses define `of`, for one image a row; samples are folded into rows.
    """

    @abc.abstractmethod
    def of(
        self, logits: tf.Tensor, y: tf.Tensor, *target: tf.Tensor
    ) -> tf.Tensor:
        """Returns values [n] of logits [n, classes] and labels.

        Labels are classes [n] or, where a trainer is given one-hot or soft
        ones, shares [n, classes].

        A targeted objective takes the target classes [n] as well.
        """

    def __call__(self, classifier, x, y, *, seed, target=None):
        """Returns the function to climb; `target` are classes to move to."""
        del x, seed
        labels = [y] if target is None else [y, target]

        def values(logits):
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

    def of(self, logits, y, *target):
        """Calls the function."""
        return self.function(logits, y, *target)


def of_logits(
    function: Callable[..., tf.Tensor], *, name: str | None = None
) -> OfLogits:
    """Makes an objective of a function of logits.

    Args:
        function: From logits [n, classes] and labels [n], and for a targeted
            objective target classes [n], to values [n].
        name: What reports call it; by default the function's name.

    Example:

    >>> of_logits(lambda logits, y: -logits[:, 0], name="away from 0").name
    'away from 0'
    """
    return OfLogits(
        function, name or getattr(function, "__name__", "objective")
    )


def get(objective: Objective | Callable[..., Any]) -> Objective:
    """Returns an objective as is, or makes one of a function.

    Args:
        objective: An objective, or a function: of (classifier, x, y, *, seed),
            known by its argument `seed`, or else of logits, as `of_logits`
            takes it.
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
    """Says whether the value of an example depends on others in its batch.

    A function of your own that does sets `function.couples_examples = True`.
    """
    return get(objective).couples_examples


def logits_of(
    classifier: Any, x: tf.Tensor, *, training: bool = False
) -> tf.Tensor:
    """Runs the classifier on images [batch, k, ...] -> [batch, k, classes]."""
    shape = tf.shape(x)
    flat = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    flat = tf.ensure_shape(flat, [None, *x.shape[2:]])

    def run(images):
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
    """Returns the function to climb whose values depend on the logits alone.

    Args:
        classifier: A function from images to logits.
        values: From logits [batch, k, classes] to values [batch, k].
    """

    def value(x_adv):
        logits = logits_of(classifier, x_adv)
        return values(logits), logits

    return value
