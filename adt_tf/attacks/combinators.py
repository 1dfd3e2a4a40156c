"""Attacks made of attacks: restarts, and transfer from another classifier.

Restarts(pgd(8 / 255), 10)
Transfer(source, pgd(8 / 255))
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.base import Attack, Decided, Progress, judged
from adt_tf.checks.arguments import integer_at_least


class _Wrapped(Attack):
    """An attack that leaves the sampling to another."""

    def __init__(self, attack: Attack, name: str):
        super().__init__(attack.threat_model, name)
        self.attack = attack
        self.networks = attack.networks
        self.images_per_example = attack.images_per_example
        self.couples_examples = attack.couples_examples

    def scaled(self, share: float | tf.Tensor) -> Attack:
        """Returns a copy with a radius of share * epsilon."""
        scaled = super().scaled(share)
        scaled.attack = self.attack.scaled(share)
        return scaled

    @property
    def models(self) -> tuple[Any, ...]:
        """Those of the attack."""
        return self.attack.models

    @property
    def length(self) -> int:
        """The number of steps of the attack."""
        return self.attack.length

    @property
    def passes(self) -> int:
        """Those of the attack, as often as it is tried."""
        return self.num_parts // self.attack.num_parts * self.attack.passes

    def check(self, classifier: Any) -> None:
        """What the attack cannot do is beyond this one."""
        self.attack.check(classifier)

    def fit(self, classifier: Any, dataset: Any, **arguments: Any) -> Any:
        """Trains the networks of an amortised attack."""
        return self.attack.fit(classifier, dataset, **arguments)

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Samples what the attack found."""
        return self.attack.sample(
            x, solution, num_samples=num_samples, seed=seed, training=training
        )

    def as_tfp(self, x, solution):
        """Returns the distribution that the attack found."""
        return self.attack.as_tfp(x, solution)


class Restarts(_Wrapped):
    """Tries an attack again and again, each time with other noise.

    The first try is the attack itself, bit for bit, and each try is a part:
    more restarts never help the defender.

    Args:
        attack: What is tried.
        num_restarts: How often.
        name: How tables call it; by default the attack's name and a count.
    """

    def __init__(
        self, attack: Attack, num_restarts: int, name: str | None = None
    ):
        num_restarts = integer_at_least(1, num_restarts=num_restarts)
        super().__init__(attack, name or f"{attack.name} x{num_restarts}")
        self.num_restarts = num_restarts
        self.num_parts = num_restarts * attack.num_parts

    def __repr__(self) -> str:
        return f"<{self.name}: {self.num_restarts} x {self.attack!r}>"

    def _inner(self, seed, part):
        part = tf.convert_to_tensor(part)
        restart = part // self.attack.num_parts
        seed = tf.where(restart == 0, seed, seeds.fold(seed, restart))
        return {"seed": seed, "part": part % self.attack.num_parts}

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Solves with the noise of one restart."""
        return self.attack.solve(
            classifier,
            x,
            y,
            jit_compile=jit_compile,
            **self._inner(seed, part),
        )

    def begin(self, classifier, x, y, *, seed, part=0):
        """Begins with the noise of one restart."""
        return self.attack.begin(classifier, x, y, **self._inner(seed, part))

    def advance(
        self,
        classifier,
        x,
        y,
        progress,
        *,
        seed,
        part=0,
        num_steps,
        jit_compile=False,
    ):
        """Goes on with that noise."""
        return self.attack.advance(
            classifier,
            x,
            y,
            progress,
            num_steps=num_steps,
            jit_compile=jit_compile,
            **self._inner(seed, part),
        )

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Ends the restart."""
        return self.attack.finish(
            classifier, x, y, progress, **self._inner(seed, part)
        )

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that the attack has decided."""
        return self.attack.decided(x, progress)


class Transfer(_Wrapped):
    """Attacks a source and shows the images it finds to the classifier.

    The black-box attack of one who knows the task but not the model. The clean
    image is kept where the classifier likes it less than what was found.

    Args:
        source: The classifier that the attack sees.
        attack: What attacks it.
        name: How tables call it.
    """

    def __init__(self, source: Any, attack: Attack, name: str | None = None):
        super().__init__(attack, name or f"{attack.name} (transfer)")
        self.source = source
        self.num_parts = attack.num_parts

    def __repr__(self) -> str:
        source = getattr(self.source, "name", "a source")
        return f"<{self.name}: from {source}, {self.attack!r}>"

    @property
    def models(self) -> tuple[Any, ...]:
        """The source, and those of the attack."""
        return (self.source, *self.attack.models)

    def check(self, classifier: Any) -> None:
        """The attack must be able to attack the source."""
        del classifier
        self.attack.check(self.source)

    def fit(self, classifier: Any, dataset: Any, **arguments: Any) -> Any:
        """Trains the networks against the source."""
        del classifier
        return self.attack.fit(self.source, dataset, **arguments)

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Solves against the source."""
        del classifier
        return self.attack.solve(
            self.source, x, y, seed=seed, part=part, jit_compile=jit_compile
        )

    def begin(self, classifier, x, y, *, seed, part=0):
        """Begins on the source."""
        return self.attack.begin(self.source, x, y, seed=seed, part=part)

    def advance(
        self,
        classifier,
        x,
        y,
        progress,
        *,
        seed,
        part=0,
        num_steps,
        jit_compile=False,
    ):
        """Goes on on the source."""
        return self.attack.advance(
            self.source,
            x,
            y,
            progress,
            seed=seed,
            part=part,
            num_steps=num_steps,
            jit_compile=jit_compile,
        )

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Ends on the source; the clean image where that is stronger."""
        batch = self.attack.finish(
            self.source, x, y, progress, seed=seed, part=part
        )
        strongest = judged(classifier, x, y).updated(
            judged(classifier, batch.x_adv, y)
        )
        return batch._replace(x_adv=strongest.x_adv)
