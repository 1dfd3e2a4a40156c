"""Rare options of a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from adt_tf.checks.arguments import error
from adt_tf.training.averaging import WeightAverage
from adt_tf.training.outer_steps import AWP, Descent


class TrainerOptions(TypedDict, total=False):
    """Options of `AdversarialTrainer`, whose docstring describes them."""

    clip_images: bool
    outer_step: Descent | AWP | None
    average: WeightAverage | None


class TrainerSettings(TypedDict):
    """The values of all options of `AdversarialTrainer`."""

    clip_images: bool
    outer_step: Descent | AWP
    average: WeightAverage | None


def complete(options: Mapping[str, Any]) -> TrainerSettings:
    """Checks the options and adds the defaults.

    Raises `TypeError` for an unknown option, and `ValueError` for a wrong one.

    Example:

    >>> complete({})["clip_images"]
    False
    """
    unknown = sorted(set(options) - set(TrainerOptions.__annotations__))
    if unknown:
        raise TypeError(
            "AdversarialTrainer() got an unexpected keyword argument "
            f"{unknown[0]!r}"
        )
    outer_step = options.get("outer_step") or Descent()
    if not callable(getattr(outer_step, "gradients", None)):
        raise error(
            "be an outer step such as `adt_tf.training.AWP(0.005)`",
            outer_step=outer_step,
        )
    average = options.get("average")
    if not isinstance(average, WeightAverage | None):
        raise error(
            "be `adt_tf.training.WeightAverage(...)` or None",
            average=average,
        )
    return {
        "clip_images": options.get("clip_images", False),
        "outer_step": outer_step,
        "average": average,
    }
