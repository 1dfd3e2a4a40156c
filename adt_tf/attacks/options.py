"""Rare options of attacks and methods, typed and documented once.

A named attack has at most seven arguments. The last is `**options`, whose
names and types a `TypedDict` lists; the method that trains with the attack
takes the same options and passes them on:

    @takes(ExpOptions)
    def exp(epsilon, *, num_steps=20, ..., **options: Unpack[ExpOptions]):
        rule = adam_rule(step_size, **pick(options, AdamOptions))

Each group of options configures one collaborator, whose builder has the
defaults: `AdamOptions` the step rule, `FamilyOptions` the distribution,
`GradientOptions` the gradient estimator.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypedDict, TypeVar

from adt_tf.attacks.keeping import Keep
from adt_tf.distributions.entropies import Entropy
from adt_tf.gradients import GradientEstimator

P = ParamSpec("P")
R = TypeVar("R")


class AscentOptions(TypedDict, total=False):
    """Options of `GradientAscent`."""

    gradient: GradientEstimator | None
    keep: Keep | None
    name: str


class PrecisionOptions(TypedDict, total=False):
    """Options of a gradient estimator that sees one sample."""

    search_precision: str


class GradientOptions(PrecisionOptions, total=False):
    """Options of a gradient estimator that sees several samples."""

    sample_chunk: int | None


class StepOptions(PrecisionOptions, total=False):
    """Options of an attack with steps of one size."""

    step_size: float | None


class PgdOptions(PrecisionOptions, total=False):
    """Options of `pgd`."""

    share: float
    last_iterate: bool


class LangevinOptions(PrecisionOptions, total=False):
    """Options of `langevin`."""

    share: float


class AdamOptions(TypedDict, total=False):
    """Options of Adam on the parameters of a distribution."""

    gradient_decay: float
    adam_epsilon: float


class FamilyOptions(TypedDict, total=False):
    """Options of an explicit distribution."""

    family: str
    entropy: str | Entropy
    entropy_reduction: str


class ExpOptions(AdamOptions, FamilyOptions, GradientOptions, total=False):
    """Options of `exp`."""


class ScaleOptions(TypedDict, total=False):
    """Options of the conditioning of generator networks."""

    gradient_scale: float | None


class ExpAmOptions(FamilyOptions, ScaleOptions, total=False):
    """Options of `exp_am`."""


class ImplicitOptions(TypedDict, total=False):
    """Options of an implicit distribution."""

    entropy: str
    entropy_reduction: str


class ImpAmOptions(ImplicitOptions, ScaleOptions, total=False):
    """Options of `imp_am`."""

    entropy_threshold: float | None


def takes(options: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets a function take the options of a `TypedDict` by keyword.

    The function raises `TypeError` for any other keyword, as if its signature
    listed the options.

    Args:
        options: The `TypedDict`.
    """
    names = tuple(options.__annotations__)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        accepted = {*inspect.signature(function).parameters, *names}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = sorted(set(kwargs) - accepted)
            if unknown:
                raise TypeError(
                    f"{function.__qualname__}() got an unexpected keyword "
                    f"argument {unknown[0]!r}"
                )
            return function(*args, **kwargs)

        vars(checked)["option_names"] = names
        return checked

    return decorate


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of a function's arguments, its options included."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return (*names, *getattr(function, "option_names", ()))


def pick(options: Mapping[str, Any], group: type) -> dict[str, Any]:
    """Returns the options that belong to a group, a `TypedDict`.

    Example:

    >>> pick({"family": "mixture", "adam_epsilon": 1e-7}, AdamOptions)
    {'adam_epsilon': 1e-07}
    """
    return {k: v for k, v in options.items() if k in group.__annotations__}
