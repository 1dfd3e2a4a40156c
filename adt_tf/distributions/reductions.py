"""How the entropy of a sample is reduced over its dimensions."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

_REDUCTIONS = {"mean": tf.reduce_mean, "sum": tf.reduce_sum}


def get(entropy_reduction: str) -> Callable[..., tf.Tensor]:
    """Returns the reduction of that name, "mean" or "sum"."""
    if entropy_reduction not in _REDUCTIONS:
        raise ValueError(
            "Argument `entropy_reduction` must be one of "
            f"{sorted(_REDUCTIONS)}. Received: "
            f"entropy_reduction={entropy_reduction!r}"
        )
    return _REDUCTIONS[entropy_reduction]
