"""Gradient ascent: any distribution, objective and step rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import gradients, objectives, seeds
from adt_tf.attacks import keeping
from adt_tf.attacks.ascent_loop import Ascent, AscentLoop, Record
from adt_tf.attacks.base import Attack
from adt_tf.attacks.options import AscentOptions, takes
from adt_tf.attacks.repeats import Repeats
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Draw,
    Problem,
    Progress,
    judged,
)
from adt_tf.checks import arguments
from adt_tf.distributions import Family
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule

if TYPE_CHECKING:
    from typing_extensions import Unpack


class GradientAscent(Attack):
    """Climbs E_p[objective] + entropy_weight * H(p) in the parameters of p.

        phi <- project(step(phi, grad mean_k [objective(x + delta_k)
                                              - entropy_weight * log p(delta_k)]))

    With a `Dirac` family it is FGSM, PGD, MIM or C&W; with a `TanhGaussian` it
    is the inner problem of ADT-EXP. Every example climbs independently: its
    result does not depend on the rest of the batch, unless the objective
    couples the examples, as `transport_distance` does.

    Args:
        distribution: Family p, with the start and the projection of its
            parameters.
        objective: Function to climb: an objective of `adt_tf.objectives`, or a
            function that `objectives.get` accepts.
        step_rule: Rule of a step, from `adt_tf.step_rules`.
        num_steps: Number of steps.
        num_samples: Number of Monte-Carlo samples in a step, k.
        entropy_weight: Weight lambda of the entropy.
        **options: `gradient`, the gradient estimator, from `adt_tf.gradients`,
            by default backpropagation; `keep`, which image a call returns,
            from `adt_tf.attacks.keeping`, by default the strongest image met;
            `name`, the name in tables.
    """  # noqa: E501

    @takes(AscentOptions)
    def __init__(
        self,
        distribution: Family,
        objective: Objective | Callable[..., Any],
        step_rule: StepRule,
        *,
        num_steps: int,
        num_samples: int = 1,
        entropy_weight: float = 0.0,
        **options: Unpack[AscentOptions],
    ) -> None:
        arguments.integer_at_least(1, num_steps=num_steps)
        arguments.integer_at_least(1, num_samples=num_samples)
        gradient = options.get("gradient") or gradients.backpropagation()
        sample_chunk = gradient.sample_chunk
        sample_chunk = num_samples if sample_chunk is None else sample_chunk
        whole = isinstance(sample_chunk, int) and sample_chunk > 0
        if not whole or num_samples % sample_chunk:
            raise ValueError(
                "Argument `sample_chunk` must divide `num_samples` without a "
                f"remainder. Received: sample_chunk={sample_chunk}, "
                f"num_samples={num_samples}"
            )
        if entropy_weight < 0:
            raise arguments.error(
                "not be negative", entropy_weight=entropy_weight
            )
        name = options.get("name", "ascent")
        super().__init__(distribution.threat_model, name)
        self.family = distribution
        self.objective = objectives.get(objective)
        self.step_rule = step_rule
        self.num_steps = num_steps
        self.num_samples = num_samples
        self.sample_chunk = sample_chunk
        self.entropy_weight = entropy_weight
        self.gradient = gradient
        self.keep = options.get("keep") or keeping.strongest()
        self.couples_examples = self.objective.couples_examples
        self.search = self.gradient.search
        self.images_per_example = (
            sample_chunk * self.gradient.images_per_example
        )
        self.passes_per_step = num_samples * self.gradient.passes

    def __repr__(self) -> str:
        parts = [
            f"{type(self.family).__name__} in {self.threat_model}",
            self.objective.name,
            self.step_rule.describe(self.threat_model),
            f"num_steps={self.num_steps}",
        ]
        if self.num_samples > 1:
            parts.append(f"num_samples={self.num_samples}")
        if self.sample_chunk < self.num_samples:
            parts.append(f"sample_chunk={self.sample_chunk}")
        if self.entropy_weight:
            parts.append(f"entropy_weight={self.entropy_weight:g}")
        parts += self.family.describe()
        parts += self.gradient.describe()
        parts += self.keep.describe()
        return f"<{self.name}: {', '.join(parts)}>"

    def scaled(self, share: float | tf.Tensor) -> GradientAscent:
        """Returns a copy with a radius of share * epsilon."""
        attack = super().scaled(share)
        attack.family = self.family.scaled(share)
        return attack

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if the objective cannot use the classifier."""
        self.objective.check(classifier)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = (
            "objective",
            "step_rule",
            "num_steps",
            "num_samples",
            "entropy_weight",
            "gradient",
            "keep",
            "name",
        )
        config = {name: getattr(self, name) for name in names}
        return {"distribution": self.family, **config}

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.num_steps

    def _solve(self, problem: Problem) -> Any:
        """Returns the parameters after `num_steps` steps."""
        params, _ = self._walk(problem)
        return params

    def begin(self, problem: Problem) -> Progress:
        """Returns the initial parameters; the best image is the clean one."""
        classifier, x, y, seed, *_ = problem
        state = self._start(x, seeds.fold(seed, 0))
        repeats = Repeats.none(tf.shape(x)[0]) if self._may_repeat() else ()
        best = judged(classifier, x, y)
        return Progress(tf.constant(0), (*state, repeats), best)

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes further steps, and updates the image that `keep` keeps."""
        classifier, x, y, seed, _, jit_compile = problem
        params, state, repeats = progress.state
        best = progress.best if self.keep.looks else ()
        last = tf.minimum(progress.step + num_steps, self.num_steps)
        loop = AscentLoop(
            self, classifier, seeds.fold(seed, 0), jit_compile=jit_compile
        )
        ascent, _ = loop.run(
            x, y, Ascent(params, state, best, repeats), (progress.step, last)
        )
        best = ascent.best or progress.best
        last = tf.where(self.is_over(ascent), self.num_steps, last)
        state = (ascent.params, ascent.state, ascent.repeats)
        return Progress(last, state, best)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns the kept image or a draw from the final distribution."""
        classifier, x, y, seed, *_ = problem
        params, *_ = progress.state
        draw = Draw(num_samples=1, seed=seeds.fold(seed, 1))
        batch = self._draws(self.family, x, params, draw)
        batch = tf.nest.map_structure(lambda t: t[:, 0], batch)
        last = judged(classifier, batch.x_adv, y)
        return batch._replace(
            x_adv=self.keep.updated(progress.best, last).x_adv
        )

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen or that repeat themselves.

        If the attack returns the last iterate or a draw at the end, the best
        image so far is the clean one, and no example is decided early.
        """
        fallen = progress.best.wrong
        standing = tf.zeros_like(fallen)
        if self.couples_examples:
            return Decided(standing, standing)
        *_, repeats = progress.state
        if repeats:
            standing = repeats.settled & ~fallen
        return Decided(fallen, standing)

    def trace(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        record: Callable[[tf.Tensor, tf.Tensor], Any],
        *,
        seed: tf.Tensor,
        jit_compile: bool = False,
    ) -> Any:
        """Records the logits of the samples of each step.

        The samples of a step are fresh draws from the distribution before the
        step.

        Args:
            classifier: Keras model from images to logits.
            x: Images [batch, ...].
            y: Labels [batch].
            record: Function of logits [batch, k, classes] and labels that
                returns a nest of tensors [batch].
            seed: Seed of the noise.
            jit_compile: Whether XLA compiles a step.

        Returns:
            A nest of tensors [batch, num_steps].
        """
        _, records = self._walk(
            Problem(classifier, x, y, seed, jit_compile=jit_compile),
            lambda x_adv, logits, y: record(logits, y),
        )
        return records

    def _walk(
        self, problem: Problem, record: Record | None = None
    ) -> tuple[Any, Any]:
        """Takes all steps; returns the parameters and the records."""
        classifier, x, y, seed, _, jit_compile = problem
        loop = AscentLoop(
            self, classifier, seed, jit_compile=jit_compile, record=record
        )
        ascent = Ascent(*self._start(x, seed))
        ascent, records = loop.run(x, y, ascent, (0, self.num_steps))
        return ascent.params, records

    def _may_repeat(self) -> bool:
        """Returns whether a climb that revisits a point runs in a circle.

        If the attack returns the last point, a circle must be followed to the
        end.
        """
        return (
            self.keep.looks
            and self.gradient.is_exact
            and self.step_rule.is_memoryless
            and getattr(self.family, "is_point", False)
            and not self.couples_examples
        )

    def is_over(self, ascent: Ascent) -> tf.Tensor:
        """Returns whether no example needs further steps, a scalar."""
        over = tf.constant(False)
        if ascent.best:
            over |= self.keep.is_over(ascent.best)
        if ascent.repeats:
            over |= tf.reduce_all(ascent.repeats.settled)
        return over

    def _start(self, x: tf.Tensor, seed: tf.Tensor) -> tuple[Any, Any]:
        params = self.family.init(x, seeds.fold(seed, -2))
        return params, self.step_rule.init(params)

    def _sample(
        self, x: tf.Tensor, solution: Any, draw: Draw
    ) -> AdversarialBatch:
        """Draws fresh samples of the distribution."""
        return self._draws(self.family, x, solution, draw)

    def _draws(
        self, family: Family, x: tf.Tensor, params: Any, draw: Draw
    ) -> AdversarialBatch:
        """Draws samples of a family, with the weighted entropy."""
        noise = family.noise(x, draw.num_samples, draw.seed)
        x_adv, entropy = family.sample(x, params, noise)
        # 0 times the entropy of a point mass, -inf, would be NaN.
        regularizer = tf.zeros_like(entropy)
        if self.entropy_weight:
            regularizer = self.entropy_weight * entropy
        return AdversarialBatch(x_adv, entropy, regularizer)

    def as_tfp(self, x: tf.Tensor, solution: Any) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        return self.family.as_tfp(x, solution)
