"""Which image of a climb a call of the attack returns.

    last()               # an image drawn from the final distribution
    strongest()          # the strongest image met
    first_wrong()        # the first misclassified image; the climb ends there

All three return the clean image where it is stronger.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from adt_tf.attacks.results import Strongest
from adt_tf.configs import Configured


@dataclasses.dataclass(frozen=True)
class Keep(Configured):
    """Which image of a climb is kept.

    Args:
        looks: Whether the images that the climb meets are judged.
        stops: Whether an example's climb ends at its first misclassified
            image.
    """

    looks: bool
    stops: bool

    def describe(self) -> list[str]:
        """Returns the words for an attack's repr."""
        if self.stops:
            return ["stop_early"]
        return ["keep_best"] if self.looks else []

    def updated(self, best: Strongest, seen: Strongest) -> Strongest:
        """Returns the image to keep: the best one so far or the new one."""
        if self.stops:
            return best.where(~best.wrong, best.updated(seen))
        return best.updated(seen)

    def is_over(self, best: Strongest) -> tf.Tensor:
        """Returns whether all examples can stop climbing, a scalar."""
        if self.stops:
            return tf.reduce_all(best.wrong)
        return tf.constant(False)


def last() -> Keep:
    """Keeps an image drawn from the final distribution."""
    return Keep(looks=False, stops=False)


def strongest() -> Keep:
    """Keeps the strongest image that the climb has met."""
    return Keep(looks=True, stops=False)


def first_wrong() -> Keep:
    """Keeps the first misclassified image, or else the strongest.

    The climb ends when every example is misclassified.
    """
    return Keep(looks=True, stops=True)
