"""The loop of a gradient ascent, for one classifier and one seed.

The loop stays in graph mode and calls the two halves of a step, look and move,
which XLA compiles on request: convolutions inside an XLA loop lose their fast
path on a CPU. The noise is drawn outside of the two halves, so that the
compiled and the plain step see the same noise.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from adt_tf import seeds
from adt_tf.attacks.repeats import Repeats
from adt_tf.attacks.results import Strongest
from adt_tf.kernels import half, winograd

if TYPE_CHECKING:
    from adt_tf.attacks.gradient_ascent import GradientAscent

#: A function of images [batch, k, ...], logits [batch, k, classes] and labels
#: that returns a nest of tensors [batch, ...].
Record = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Any]


class Ascent(NamedTuple):
    """The state of each example's climb.

    Attributes:
        params: Parameters of the distribution.
        state: State of the step rule.
        best: The strongest image so far, if the attack looks for it.
        repeats: The last points, if the climb can return to one exactly.
    """

    params: Any
    state: Any
    best: Strongest | tuple[()] = ()
    repeats: Repeats | tuple[()] = ()


class AscentLoop:
    """Takes the steps of a `GradientAscent`.

    Args:
        attack: The attack, which has the distribution, the objective, the
            step rule and the gradient estimator.
        classifier: Keras model from images to logits.
        seed: Seed of the noise.
        jit_compile: Whether XLA compiles a step.
        record: Function whose results are recorded at each step.
    """

    def __init__(
        self,
        attack: GradientAscent,
        classifier: Any,
        seed: tf.Tensor,
        *,
        jit_compile: bool = False,
        record: Record | None = None,
    ) -> None:
        self.attack = attack
        self.classifier = classifier
        self.seed = seed
        self.jit_compile = jit_compile
        self.record = record

    def run(
        self,
        x: tf.Tensor,
        y: tf.Tensor,
        ascent: Ascent,
        steps: tuple[int | tf.Tensor, int | tf.Tensor],
    ) -> tuple[Ascent, Any]:
        """Takes the steps from the first up to the last.

        Examples climb independently, so on a CPU the two halves of a batch
        climb side by side: one works while the other waits for a single
        thread.

        Args:
            x: Clean images [batch, ...].
            y: Labels [batch].
            ascent: State before the first of these steps.
            steps: (first, last), without the last.

        Returns:
            The state after the steps, and the records [batch, steps, ...].
        """
        size = x.shape[0] or 1
        on_cpu = not (self.jit_compile or tf.config.list_logical_devices("GPU"))
        coupled = self.attack.couples_examples
        if size == 1 or coupled or not on_cpu or tf.executing_eagerly():
            return self._run(x, y, ascent, *steps)
        # Halves of equal size share one trace.
        run = tf.function(self._run, autograph=False)
        middle = size // 2
        halves = []
        for part in (slice(None, middle), slice(middle, None)):
            examples = tf.nest.map_structure(
                lambda t, p=part: t[p], (x, y, ascent)
            )
            halves.append(run(*examples, *map(tf.convert_to_tensor, steps)))
        return tf.nest.map_structure(
            lambda *parts: tf.concat(parts, axis=0), *halves
        )

    def _run(
        self,
        x: tf.Tensor,
        y: tf.Tensor,
        ascent: Ascent,
        first: int | tf.Tensor,
        last: int | tf.Tensor,
    ) -> tuple[Ascent, Any]:
        """Takes the steps with all examples at once."""
        attack, seed = self.attack, self.seed
        blank = self._blank_record(x, y)
        look, move = self._halves_of_a_step(x, y)

        def body(t: tf.Tensor, ascent: Ascent, records: Any) -> Any:
            step_seed = seeds.fold(seed, t)
            draw = functools.partial(
                attack.family.noise, x, attack.num_samples, step_seed
            )
            directions = attack.gradient.noise(x, step_seed)
            params, state, best, repeats = ascent
            if repeats:
                repeats = repeats.noted(params, t)
            if attack.sample_chunk < attack.num_samples:
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
            state = attack.step_rule.draw(state, x, seeds.fold(step_seed, 1))
            params, state = move(params, state, slopes)
            return t + 1, Ascent(params, state, best, repeats), records

        def goes_on(t: tf.Tensor, ascent: Ascent, records: Any) -> tf.Tensor:
            return (t < last) & ~attack.is_over(ascent)

        records = tf.nest.map_structure(
            lambda value: tf.TensorArray(value.dtype, last - first), blank
        )
        with self._fast_forms():
            _, ascent, records = tf.while_loop(
                goes_on,
                body,
                (first, ascent, records),
                maximum_iterations=attack.num_steps,
            )
        ascent = tf.nest.map_structure(tf.stop_gradient, ascent)
        return ascent, tf.nest.map_structure(_stacked, records)

    def _blank_record(self, x: tf.Tensor, y: tf.Tensor) -> Any:
        """Returns a record with the types and shapes of all records."""
        if self.record is None:
            return ()
        chunk = self.attack.sample_chunk
        logits = tf.zeros([tf.shape(y)[0], chunk, 2])
        images = tf.repeat(x[:, tf.newaxis], chunk, axis=1)
        return self.record(images, logits, tf.zeros_like(y))

    def _halves_of_a_step(
        self, x: tf.Tensor, y: tf.Tensor
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Returns `look`, which estimates the gradient, and `move`."""
        attack, record = self.attack, self.record
        value = attack.objective(
            self.classifier, x, y, seed=seeds.fold(self.seed, -1)
        )

        def look(params: Any, best: Any, noise: Any, directions: Any) -> Any:
            def climbed(params: Any, offset: tf.Tensor | None) -> Any:
                x_adv, entropy = attack.family.sample(x, params, noise)
                moved = x_adv if offset is None else x_adv + offset
                values, logits = value(moved)
                if attack.entropy_weight:
                    values += attack.entropy_weight * entropy
                return values, x_adv, logits

            slopes, x_adv, logits = attack.gradient.estimate(
                climbed, params, directions
            )
            if best:
                for k in range(attack.sample_chunk):
                    seen = Strongest.of(x_adv[:, k], logits[:, k], y)
                    best = attack.keep.updated(best, seen)
            return (slopes, record(x_adv, logits, y) if record else ()), best

        def move(params: Any, state: Any, slopes: Any) -> Any:
            params, state = attack.step_rule.update(
                params, slopes, state, attack.threat_model
            )
            return attack.family.project(x, params), state

        if self.jit_compile:
            look, move = (
                tf.function(part, jit_compile=True, autograph=False)
                for part in (look, move)
            )
        return look, move

    def _look_in_pieces(
        self,
        look: Callable[..., Any],
        params: Any,
        best: Any,
        draw: Callable[..., tf.Tensor],
        directions: Any,
        values: Any,
    ) -> tuple[Any, Any]:
        """Looks at `sample_chunk` samples at a time; returns the means.

        The pieces run one after the other, so that the noise and activations
        of only one piece are in memory.
        """
        size = self.attack.sample_chunk
        num_pieces = self.attack.num_samples // size

        def body(i: tf.Tensor, total: Any, best: Any) -> Any:
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

    def _fast_forms(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which the loop is traced."""
        if self.attack.gradient.precision == half.DTYPE:
            return half.block(self.classifier)
        # XLA chooses the form of its convolutions itself.
        if winograd.pays() and not self.jit_compile:
            return winograd.convolutions(self.classifier)
        return contextlib.nullcontext()


def _stacked(array: tf.TensorArray) -> tf.Tensor:
    """Returns the entries of all steps as [batch, steps, ...]."""
    stacked = array.stack()
    return tf.transpose(stacked, [1, 0, *range(2, len(stacked.shape))])
