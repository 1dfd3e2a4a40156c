"""A training method."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adt_tf import losses
from adt_tf.attacks import Attack


class Method(NamedTuple):
    """A training method: the inner maximiser and the outer loss."""

    attack: Attack
    loss: Callable[..., losses.RobustLoss]
