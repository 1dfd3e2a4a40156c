"""How several processes and devices share the examples of an evaluation.

    workers = Workers()                    # one process, one device
    own = workers.own(standing)            # mask of the examples to attack here
    state.merge(workers)                   # verdicts of all processes

`adt_tf.runs.strategies` has the same for the workers and replicas of a
`tf.distribute` strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Workers:
    """One process that evaluates all examples on one device.

    Subclasses share the examples with other processes (`index`, `count`,
    `merged`), or a batch with other devices (`spread`).

    Attributes:
        index: Number of this process; 0 is the chief.
        count: Number of processes.
    """

    index: int = 0
    count: int = 1

    def own(self, mask: np.ndarray) -> np.ndarray:
        """Returns the examples of a mask that this process evaluates.

        Every `count`-th one, so that classes and hard images are mixed.

        Args:
            mask: Mask of the examples of all processes [n].

        Example:

        >>> Workers().own(np.array([True, False, True]))
        array([ True, False,  True])
        """
        own = np.zeros_like(mask)
        own[np.flatnonzero(mask)[self.index :: self.count]] = True
        return own

    def merged(self, values: np.ndarray) -> np.ndarray:
        """Returns the largest of all processes' values, place by place.

        Every process must call it in the same order.

        Args:
            values: Integers, of the same shape in all processes.
        """
        return values

    def spread(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function of a batch that runs on all devices.

        Args:
            function: Compiled function of (x, y, seed, part, ...), as
                `Attack.function` returns it.
        """
        return function
