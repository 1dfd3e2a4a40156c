"""An attack on one batch, run piece by piece.

    pieces = Pieces(attack, classifier, x, y, seed=0, part=0)
    while not pieces.done:
        pieces.advance(num_steps=10)        # `pieces.progress` can be saved
    batch = pieces.finish()

The result equals that of a call of the attack, however the steps are divided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.base import Attack
from adt_tf.attacks.results import AdversarialBatch, Progress
from adt_tf.attacks.tracing import use_xla


class Pieces:
    """One part of an attack on a batch, with its compiled steps.

    Args:
        attack: The attack.
        classifier: Function from images to logits.
        x: Images [batch, ...].
        y: Labels [batch].
        seed: Seed of the attack's noise.
        part: Index of the part.
        jit_compile: Whether XLA compiles the steps; "auto" compiles where that
            is faster.
        progress: State of the attack on the same examples from which to
            continue; None starts at the first step.
        spread: Function that takes a compiled function of a batch and returns
            one that runs it on several devices.

    Attributes:
        x: Images [batch, ...].
        progress: State of the attack; it may be set to an earlier state.
    """

    def __init__(
        self,
        attack: Attack,
        classifier: Any,
        x: Any,
        y: Any,
        *,
        seed: int | tf.Tensor = 0,
        part: int = 0,
        jit_compile: bool | str = "auto",
        progress: Progress | None = None,
        spread: Callable[[Any], Any] = lambda function: function,
    ) -> None:
        self.attack = attack
        x, y = attack.checked(classifier, x, y)
        self.x = x
        self._inputs = (x, y, seeds.make(seed), tf.constant(part))
        use = use_xla(jit_compile)
        self._advance = spread(attack.function(classifier, "advance", use))
        self._finish = spread(attack.function(classifier, "finish", use))
        if progress is None:
            begin = spread(attack.function(classifier, "begin", use))
            progress = begin(*self._inputs)
        self.progress = progress

    @property
    def size(self) -> int:
        """The number of examples of the batch, padding included."""
        return int(self.x.shape[0])

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.progress.step)

    @property
    def done(self) -> bool:
        """Whether no step is left."""
        return self.step >= self.attack.length

    def advance(self, num_steps: int) -> None:
        """Takes at most `num_steps` further steps."""
        self.progress = self._advance(
            *self._inputs, self.progress, tf.constant(num_steps)
        )

    def finish(self) -> AdversarialBatch:
        """Returns one image for each example."""
        return self._finish(*self._inputs, self.progress)
