"""Attacks built from attacks: restarts, and transfer from another classifier.

Restarts(pgd(8 / 255), 10)
Transfer(source, pgd(8 / 255))
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.attacks.base import Attack
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Draw,
    Problem,
    Progress,
    judged,
)
from adt_tf.checks.arguments import integer_at_least


class _Wrapped(Attack):
    """An attack that runs another attack on a changed problem.

    Subclasses define `_inner`, the problem that the other attack sees.
    """

    def __init__(self, attack: Attack, name: str) -> None:
        super().__init__(attack.threat_model, name)
        self.attack = attack
        self.networks = attack.networks
        self.images_per_example = attack.images_per_example
        self.couples_examples = attack.couples_examples
        self.search = attack.search

    def scaled(self, share: float | tf.Tensor) -> _Wrapped:
        """Returns a copy with a radius of share * epsilon."""
        scaled = super().scaled(share)
        scaled.attack = self.attack.scaled(share)
        return scaled

    @property
    def models(self) -> tuple[Any, ...]:
        """The models of the inner attack."""
        return self.attack.models

    @property
    def length(self) -> int:
        """Number of steps of the inner attack."""
        return self.attack.length

    @property
    def passes(self) -> int:
        """Passes of the inner attack, times the number of tries."""
        return self.num_parts // self.attack.num_parts * self.attack.passes

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the inner attack cannot attack it."""
        self.attack.check(classifier)

    def fit(self, classifier: Any, dataset: Any, **arguments: Any) -> Any:
        """Trains the networks of an amortised attack."""
        attack: Any = self.attack  # Not every attack has `fit`.
        return attack.fit(classifier, dataset, **arguments)

    def _inner(self, problem: Problem) -> Problem:
        raise NotImplementedError

    def _solve(self, problem: Problem) -> Any:
        return self._inner(problem).solved_by(self.attack)

    def begin(self, problem: Problem) -> Progress:
        """Begins the inner attack."""
        return self.attack.begin(self._inner(problem))

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes steps of the inner attack."""
        return self.attack.advance(self._inner(problem), progress, num_steps)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the images of the inner attack."""
        return self.attack.finish(self._inner(problem), progress)

    def _sample(
        self, x: tf.Tensor, solution: Any, draw: Draw
    ) -> AdversarialBatch:
        return self.attack.sample(x, solution, **draw._asdict())

    def as_tfp(self, x: tf.Tensor, solution: Any) -> tfd.Distribution:
        """Returns the distribution of the inner attack."""
        return self.attack.as_tfp(x, solution)


class Restarts(_Wrapped):
    """Tries an attack several times, each time with other noise.

    The first try is the attack itself, bit for bit, and each try is a part:
    more restarts never help the defender.

    Args:
        attack: The attack to try.
        num_restarts: Number of tries.
        name: Name in tables; by default the attack's name and a count.
    """

    def __init__(
        self, attack: Attack, num_restarts: int, name: str | None = None
    ) -> None:
        num_restarts = integer_at_least(1, num_restarts=num_restarts)
        super().__init__(attack, name or f"{attack.name} x{num_restarts}")
        self.num_restarts = num_restarts
        self.num_parts = num_restarts * attack.num_parts

    def __repr__(self) -> str:
        return f"<{self.name}: {self.num_restarts} x {self.attack!r}>"

    def _inner(self, problem: Problem) -> Problem:
        """Returns the problem with the noise of one restart."""
        part, seed = tf.convert_to_tensor(problem.part), problem.seed
        restart = part // self.attack.num_parts
        seed = tf.where(restart == 0, seed, seeds.fold(seed, restart))
        return problem._replace(seed=seed, part=part % self.attack.num_parts)

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that the attack has decided."""
        return self.attack.decided(x, progress)


class Transfer(_Wrapped):
    """Attacks a source model and shows the images to the classifier.

    This is the black-box attack of an adversary who knows the task but not the
    model. The clean image is kept where it is stronger on the classifier.

    Args:
        source: Classifier that the attack sees.
        attack: Attack on the source.
        name: Name in tables.
    """

    def __init__(
        self, source: Any, attack: Attack, name: str | None = None
    ) -> None:
        super().__init__(attack, name or f"{attack.name} (transfer)")
        self.search = "none"
        self.source = source
        self.num_parts = attack.num_parts

    def __repr__(self) -> str:
        source = getattr(self.source, "name", "a source")
        return f"<{self.name}: from {source}, {self.attack!r}>"

    @property
    def models(self) -> tuple[Any, ...]:
        """The source and the models of the inner attack."""
        return (self.source, *self.attack.models)

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the attack cannot attack the source."""
        del classifier
        self.attack.check(self.source)

    def fit(self, classifier: Any, dataset: Any, **arguments: Any) -> Any:
        """Trains the networks against the source."""
        del classifier
        attack: Any = self.attack  # Not every attack has `fit`.
        return attack.fit(self.source, dataset, **arguments)

    def _inner(self, problem: Problem) -> Problem:
        """Returns the problem with the source in place of the classifier."""
        return problem._replace(classifier=self.source)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the images of the attack, or stronger clean ones."""
        classifier, x, y, *_ = problem
        batch = super().finish(problem, progress)
        strongest = judged(classifier, x, y).updated(
            judged(classifier, batch.x_adv, y)
        )
        return batch._replace(x_adv=strongest.x_adv)
