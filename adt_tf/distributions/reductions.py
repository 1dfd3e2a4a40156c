"""Reductions of a sample's entropy over its dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf.checks import arguments


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A named reduction: `MEAN(values, axis=...)`.

    Attributes:
        name: "mean" or "sum".
        function: Function that reduces the terms of the dimensions.
        of_total: Function of the terms' sum and number with the same result.
    """

    name: str
    function: Callable[..., tf.Tensor]
    of_total: Callable[[tf.Tensor, int], tf.Tensor]

    def __call__(self, values: tf.Tensor, **arguments: Any) -> tf.Tensor:
        """Reduces values over axes."""
        return self.function(values, **arguments)

    def get_config(self) -> dict[str, Any]:
        """Returns the name."""
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Reduction:
        """Returns the reduction of a name."""
        return get(config["name"])

    def describe(self) -> list[str]:
        """Returns the words for reports; the default has none."""
        return [] if self is MEAN else [f"entropy_reduction={self.name}"]


MEAN = Reduction("mean", tf.reduce_mean, lambda total, size: total / size)
SUM = Reduction("sum", tf.reduce_sum, lambda total, size: total)
_REDUCTIONS = {reduction.name: reduction for reduction in (MEAN, SUM)}


def get(entropy_reduction: str | Reduction) -> Reduction:
    """Returns the reduction of a name, "mean" or "sum"."""
    if isinstance(entropy_reduction, Reduction):
        return entropy_reduction
    name = arguments.one_of(_REDUCTIONS, entropy_reduction=entropy_reduction)
    return _REDUCTIONS[name]
