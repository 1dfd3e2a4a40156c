"""The one ascent loop: any distribution, objective and step rule."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from adt_tf import gradients, objectives, seeds
from adt_tf.attacks import keeping
from adt_tf.attacks.base import (
    AdversarialBatch,
    Attack,
    Decided,
    Progress,
    Strongest,
    judged,
)
from adt_tf.attacks.keeping import Keep
from adt_tf.attacks.repeats import Repeats
from adt_tf.distributions import Family
from adt_tf.kernels import half, winograd
from adt_tf.objectives import Objective
from adt_tf.step_rules import StepRule


class _Ascent(NamedTuple):
    """Where each example's climb is.

    Attributes:
        params: Parameters.
        state: State of the step rule.
        best: The strongest image so far, where it is looked for.
        repeats: Where the climb has been, where it may come back exactly.
    """

    params: Any
    state: Any
    best: Strongest | tuple[()] = ()
    repeats: Repeats | tuple[()] = ()


class GradientAscent(Attack):
    """Climbs E_p[objective] + entropy_weight * H(p) in the parameters of p.

        phi <- project(step(phi, grad mean_k [objective(x + delta_k)
                                              - entropy_weight * log p(delta_k)]))

    With a Dirac family it is FGSM, PGD, MIM or C&W; with a TanhGaussian it is
    the inner problem of ADT-EXP. Every example climbs on its own: no result
    depends on the others in the batch, unless the objective says that it
    couples them, as `transport_distance` does by its nature.

    Args:
        distribution: The family p and its parameters' start and projection.
        objective: What is climbed: an objective of `adt_tf.objectives`, or a
            function that `objectives.get` takes.
        step_rule: How, a rule of `adt_tf.step_rules`.
        num_steps: How many steps.
        num_samples: Monte-Carlo samples a step, k.
        entropy_weight: lambda.
        gradient: How the gradient is estimated, of `adt_tf.gradients`; by
            default backpropagation.
        keep: Which image a call gives back, of `adt_tf.attacks.keeping`; by
            default the strongest that the climb has met.
        name: How tables call it.
    """  # noqa: E501

    def __init__(
        self,
        distribution: Family,
        objective: Objective | Callable[..., Any],
        step_rule: StepRule,
        *,
        num_steps: int,
        num_samples: int = 1,
        entropy_weight: float = 0.0,
        gradient: gradients.GradientEstimator | None = None,
        keep: Keep | None = None,
        name: str = "ascent",
    ):
        for key, value in {
            "num_steps": num_steps,
            "num_samples": num_samples,
        }.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"Argument `{key}` must be a positive integer. "
                    f"Received: {key}={value}"
                )
        gradient = gradient or gradients.backpropagation()
        sample_chunk = gradient.sample_chunk
        sample_chunk = num_samples if sample_chunk is None else sample_chunk
        whole = isinstance(sample_chunk, int) and sample_chunk > 0
        if not whole or num_samples % sample_chunk:
            raise ValueError(
                "Argument `sample_chunk` must divide `num_samples` without a "
                f"rest. Received: sample_chunk={sample_chunk}, "
                f"num_samples={num_samples}"
            )
        if entropy_weight < 0:
            raise ValueError(
                "Argument `entropy_weight` must not be negative. Received: "
                f"entropy_weight={entropy_weight}"
            )
        super().__init__(distribution.threat_model, name)
        self.family = distribution
        self.objective = objectives.get(objective)
        self.step_rule = step_rule
        self.num_steps = num_steps
        self.num_samples = num_samples
        self.sample_chunk = sample_chunk
        self.entropy_weight = entropy_weight
        self.gradient = gradient
        self.keep = keep or keeping.strongest()
        self.couples_examples = self.objective.couples_examples
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

    def scaled(self, share: float | tf.Tensor) -> Attack:
        """Returns a copy with a radius of share * epsilon."""
        attack = super().scaled(share)
        attack.family = self.family.scaled(share)
        return attack

    def check(self, classifier: Any) -> None:
        """Asks the objective."""
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
        """The number of steps."""
        return self.num_steps

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """Returns the parameters after `num_steps` steps."""
        params, _ = self._walk(
            classifier, x, y, None, seed=seed, jit_compile=jit_compile
        )
        return params

    def begin(self, classifier, x, y, *, seed, part=0):
        """Returns the parameters at the start; the clean image is the best."""
        state = self._start(x, seeds.fold(seed, 0))
        repeats = Repeats.none(tf.shape(x)[0]) if self._may_repeat() else ()
        best = judged(classifier, x, y)
        return Progress(tf.constant(0), (*state, repeats), best)

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
        """Takes further steps, and keeps the strongest image met if asked."""
        params, state, repeats = progress.state
        best = progress.best if self.keep.looks else ()
        last = tf.minimum(progress.step + num_steps, self.num_steps)
        ascent, _ = self._climb(
            classifier,
            x,
            y,
            _Ascent(params, state, best, repeats),
            (progress.step, last),
            seeds.fold(seed, 0),
            jit_compile,
        )
        best = ascent.best or progress.best
        last = tf.where(self._is_over(ascent), self.num_steps, last)
        state = (ascent.params, ascent.state, ascent.repeats)
        return Progress(last, state, best)

    def finish(self, classifier, x, y, progress, *, seed, part=0):
        """Returns the strongest image met, a draw at the end included."""
        params, *_ = progress.state
        batch = self._draws(
            self.family, x, params, num_samples=1, seed=seeds.fold(seed, 1)
        )
        batch = tf.nest.map_structure(lambda t: t[:, 0], batch)
        last = judged(classifier, batch.x_adv, y)
        return batch._replace(
            x_adv=self.keep.updated(progress.best, last).x_adv
        )

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that have fallen or that repeat themselves.

        Where the last iterate or a draw at the end counts, the best image is
        the clean one, and no example is decided early.
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
        """Returns what a function makes of the samples that each step sees.

        The samples of a step are fresh ones of the distribution that the steps
        before it have found.

        Args:
            classifier: As in `solve`.
            x: Images [batch, ...].
            y: Labels [batch].
            record: A function of logits [batch, k, classes] and labels that
                returns a nest of tensors [batch].
            seed: As in `solve`.
            jit_compile: Whether XLA compiles a step.

        Returns:
            A nest of tensors [batch, num_steps].
        """
        _, records = self._walk(
            classifier,
            x,
            y,
            lambda x_adv, logits, y: record(logits, y),
            seed=seed,
            jit_compile=jit_compile,
        )
        return records

    def _walk(self, classifier, x, y, record, *, seed, jit_compile):
        """Takes all steps; returns the parameters, and what was recorded."""
        ascent = _Ascent(*self._start(x, seed))
        steps = (0, self.num_steps)
        ascent, records = self._climb(
            classifier, x, y, ascent, steps, seed, jit_compile, record
        )
        return ascent.params, records

    def _may_repeat(self) -> bool:
        """Whether a climb that comes back to a point is known to circle.

        Where the last point counts, a circle must be gone round to the end.
        """
        return (
            self.keep.looks
            and self.gradient.is_exact
            and self.step_rule.is_memoryless
            and getattr(self.family, "is_point", False)
            and not self.couples_examples
        )

    def _is_over(self, ascent: _Ascent) -> tf.Tensor:
        """Whether no example has to climb on, a scalar."""
        over = tf.constant(False)
        if ascent.best:
            over |= self.keep.is_over(ascent.best)
        if ascent.repeats:
            over |= tf.reduce_all(ascent.repeats.settled)
        return over

    def _start(self, x, seed):
        params = self.family.init(x, seeds.fold(seed, -2))
        return params, self.step_rule.init(params)

    def _climb(
        self, classifier, x, y, ascent, steps, seed, jit_compile, record=None
    ):
        """Takes the steps from the first to the last; returns what it records.

        Examples climb on their own, so on a CPU the two halves of a batch do
        so side by side: where one waits for a single thread the other works.
        """
        climb = functools.partial(
            self._climb_together, classifier, seed, jit_compile, record
        )
        size = x.shape[0] or 1
        on_cpu = not (jit_compile or tf.config.list_logical_devices("GPU"))
        coupled = self.couples_examples
        if size == 1 or coupled or not on_cpu or tf.executing_eagerly():
            return climb(x, y, ascent, *steps)
        # Traced once where the halves are of one size.
        climb = tf.function(climb, autograph=False)
        middle = size // 2
        halves = []
        for part in (slice(None, middle), slice(middle, None)):
            examples = tf.nest.map_structure(
                lambda t, p=part: t[p], (x, y, ascent)
            )
            halves.append(climb(*examples, *map(tf.convert_to_tensor, steps)))
        return tf.nest.map_structure(
            lambda *parts: tf.concat(parts, axis=0), *halves
        )

    def _climb_together(
        self, classifier, seed, jit_compile, record, x, y, ascent, first, last
    ):
        """Climbs with all examples at once.

        The loop stays in graph mode and calls the two halves of a step, look
        and move, which XLA compiles where asked: convolutions inside an XLA
        loop lose their fast path on a CPU. The noise is drawn outside them, so
        that the compiled and the plain step see the same.
        """
        value = self.objective(classifier, x, y, seed=seeds.fold(seed, -1))

        # What is recorded has the types and shapes of this.
        blank = ()
        if record:
            logits = tf.zeros([tf.shape(y)[0], self.sample_chunk, 2])
            images = tf.repeat(x[:, tf.newaxis], self.sample_chunk, axis=1)
            blank = record(images, logits, tf.zeros_like(y))

        def look(params, best, noise, directions):
            def climbed(params, offset):
                x_adv, entropy = self.family.sample(x, params, noise)
                moved = x_adv if offset is None else x_adv + offset
                values, logits = value(moved)
                if self.entropy_weight:
                    values += self.entropy_weight * entropy
                return values, x_adv, logits

            slopes, x_adv, logits = self.gradient.estimate(
                climbed, params, directions
            )
            if best:
                for k in range(self.sample_chunk):
                    seen = Strongest.of(x_adv[:, k], logits[:, k], y)
                    best = self.keep.updated(best, seen)
            return (slopes, record(x_adv, logits, y) if record else ()), best

        def move(params, state, slopes):
            params, state = self.step_rule.update(
                params, slopes, state, self.threat_model
            )
            return self.family.project(x, params), state

        if jit_compile:
            look, move = (
                tf.function(part, jit_compile=True, autograph=False)
                for part in (look, move)
            )

        def body(t, ascent, records):
            step_seed = seeds.fold(seed, t)
            draw = functools.partial(
                self.family.noise, x, self.num_samples, step_seed
            )
            directions = self.gradient.noise(x, step_seed)
            params, state, best, repeats = ascent
            if repeats:
                repeats = repeats.noted(params, t)
            if self.sample_chunk < self.num_samples:
                (slopes, values), best = self._look_in_pieces(
                    look, params, best, draw, directions, blank
                )
            else:
                (slopes, values), best = look(params, best, draw(), directions)
            records = tf.nest.map_structure(
                lambda array, value: array.write(t - first, value),
                records,
                values,
            )
            state = self.step_rule.draw(state, x, seeds.fold(step_seed, 1))
            params, state = move(params, state, slopes)
            return t + 1, _Ascent(params, state, best, repeats), records

        def goes_on(t, ascent, records):
            return (t < last) & ~self._is_over(ascent)

        records = tf.nest.map_structure(
            lambda value: tf.TensorArray(value.dtype, last - first), blank
        )
        with _fast_forms(classifier, jit_compile, self.gradient.precision):
            _, ascent, records = tf.while_loop(
                goes_on,
                body,
                (first, ascent, records),
                maximum_iterations=self.num_steps,
            )
        ascent = tf.nest.map_structure(tf.stop_gradient, ascent)
        return ascent, tf.nest.map_structure(_stacked, records)

    def _look_in_pieces(self, look, params, best, draw, directions, values):
        """Looks at `sample_chunk` samples at a time; returns the means.

        One piece after the other, so that only one's noise and activations
        are alive.
        """
        size = self.sample_chunk
        num_pieces = self.num_samples // size

        def body(i, total, best):
            noise = draw(piece=(i * size, size))
            values, best = look(params, best, noise, directions)
            total = tf.nest.map_structure(
                lambda t, v: t + v / num_pieces, total, values
            )
            return i + 1, total, best

        _, means, best = tf.while_loop(
            lambda i, total, best: i < num_pieces,
            body,
            (0, tf.nest.map_structure(tf.zeros_like, (params, values)), best),
            parallel_iterations=1,
            maximum_iterations=num_pieces,
        )
        return means, best

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Draws fresh samples of the distribution found."""
        return self._draws(
            self.family, x, solution, num_samples=num_samples, seed=seed
        )

    def _draws(self, family, x, params, *, num_samples, seed):
        """Samples of a family, with what an ascent adds to them."""
        noise = family.noise(x, num_samples, seed)
        x_adv, entropy = family.sample(x, params, noise)
        # Without a weight nothing is added: 0 times the -inf of a point is NaN.
        regularizer = tf.zeros_like(entropy)
        if self.entropy_weight:
            regularizer = self.entropy_weight * entropy
        return AdversarialBatch(x_adv, entropy, regularizer)

    def as_tfp(self, x, solution):
        """Returns the distribution found, over perturbations."""
        return self.family.as_tfp(x, solution)


def _fast_forms(classifier: Any, jit_compile: bool, precision: str) -> Any:
    """The block in which a loop is traced."""
    if precision == half.DTYPE:
        return half.block(classifier)
    # What XLA compiles chooses the form of its convolutions itself.
    if winograd.pays() and not jit_compile:
        return winograd.convolutions(classifier)
    return contextlib.nullcontext()


def _stacked(array: tf.TensorArray) -> tf.Tensor:
    """Returns what an array holds of each step as [batch, steps]."""
    stacked = array.stack()
    return tf.transpose(stacked, [1, 0, *range(2, len(stacked.shape))])
