"""Which of the images that a climb meets a call gives back.

    last()               # one drawn from where the climb ends
    strongest()          # the strongest that it has met
    first_wrong()        # the first misclassified one, and then no further

All three give the clean image back where what they have is weaker.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from adt_tf.attacks.base import Strongest
from adt_tf.configs import Configured


@dataclasses.dataclass(frozen=True)
class Keep(Configured):
    """What to keep of a climb.

    Args:
        looks: Whether the images that the climb meets are looked at.
        stops: Whether an example's climb ends at its first misclassified
            image.
    """

    looks: bool
    stops: bool

    def describe(self) -> list[str]:
        """Returns what an attack's repr says of it."""
        if self.stops:
            return ["stop_early"]
        return ["keep_best"] if self.looks else []

    def updated(self, best: Strongest, seen: Strongest) -> Strongest:
        """Returns what is kept of the best image so far and another one."""
        if self.stops:
            return best.where(~best.wrong, best.updated(seen))
        return best.updated(seen)

    def is_over(self, best: Strongest) -> tf.Tensor:
        """Returns whether no example has to climb on, a scalar."""
        if self.stops:
            return tf.reduce_all(best.wrong)
        return tf.constant(False)


def last() -> Keep:
    """Keeps an image drawn from where the climb ends."""
    return Keep(looks=False, stops=False)


def strongest() -> Keep:
    """Keeps the strongest image that the climb has met."""
    return Keep(looks=True, stops=False)


def first_wrong() -> Keep:
    """Keeps the first misclassified image, the strongest where there is none.

    The climb ends when every example has one.
    """
    return Keep(looks=True, stops=True)
