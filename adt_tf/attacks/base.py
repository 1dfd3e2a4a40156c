"""The interface of an attack: solve the inner problem, then sample from it.

    solution = attack.solve(classifier, x, y, seed=seed)     # outside a tape
    batch = attack.sample(x, solution, num_samples=1, seed=seed)

No gradient flows through `solve`; `sample` is differentiable in the attack's
own weights, if it has any. The trainer runs both in its one step. A call of
the attack runs both as one compiled function and returns, for each example,
the strongest image that the attack has met, the clean image included: an
attack never helps the classifier.

An attack may have several parts, such as restarts or target classes. A call
tries all of them; `evaluate` tries each on the examples that are still
classified correctly. A part can be run in pieces, and its state can be saved
between them:

    problem = Problem(classifier, x, y, seed)
    progress = attack.begin(problem)
    while progress.step < attack.length:
        progress = attack.advance(problem, progress, num_steps=10)
    batch = attack.finish(problem, progress)
"""

from __future__ import annotations

import copy
import weakref
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import checks, configs, seeds, threat_models
from adt_tf.attacks.results import (
    AdversarialBatch,
    Decided,
    Draw,
    Problem,
    Progress,
    judged,
)
from adt_tf.attacks.tracing import traced, use_xla, version
from adt_tf.threat_models import ThreatModel

_Attack = TypeVar("_Attack", bound="Attack")


class Attack(configs.Configured):
    """Searches for perturbations that make a classifier err.

    Subclasses override `solve` and `sample`, or the hooks that these call with
    all their arguments in one object: `_solve(problem)` and
    `_sample(x, solution, draw)`.

    Args:
        threat_model: Constraint that every returned image satisfies.
        name: Name in tables.
    """

    #: Keras models that a trainer trains along with the classifier.
    networks: tuple[Any, ...] = ()
    #: Number of restarts, targets and so on; each is one `part`.
    num_parts: int = 1
    #: Images that the classifier sees at once for each attacked example.
    images_per_example: int = 1
    #: Images of each example that the classifier sees in one step.
    passes_per_step: int = 1
    #: Whether the training signal of an example depends on its batch.
    couples_examples: bool = False
    #: How it searches: "gradient" of the classifier; "queries" of its outputs
    #: alone; or "none", which does not adapt the images to the classifier.
    search: str = "gradient"

    def __init__(self, threat_model: ThreatModel, name: str) -> None:
        self.threat_model = threat_model
        self.name = name
        self._compiled: weakref.WeakKeyDictionary[Any, Any] = (
            weakref.WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"<{self.name}, {self.threat_model}>"

    @property
    def models(self) -> tuple[Any, ...]:
        """All models, its own or others', that its result depends on."""
        return self.networks

    def scaled(self: _Attack, share: float | tf.Tensor) -> _Attack:
        """Returns a copy of the attack with a radius of share * epsilon.

        The copy shares the attack's networks. Step sizes that are defined as a
        share of epsilon shrink with it; absolute step sizes do not.

        Args:
            share: A number, or a scalar tensor: inside a traced step the
                radius may follow a schedule.
        """
        attack = copy.copy(self)
        attack.threat_model = self.threat_model.scaled(share)
        attack._compiled = weakref.WeakKeyDictionary()
        return attack

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` if it cannot attack this classifier.

        `evaluate` checks all attacks before it runs the first.
        """

    def solve(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: tf.Tensor,
        part: int | tf.Tensor = 0,
        jit_compile: bool = False,
    ) -> Any:
        """Solves the inner problem.

        Returns:
            A nest of tensors that describes the distribution, for `sample`.
        """
        return self._solve(Problem(classifier, x, y, seed, part, jit_compile))

    def _solve(self, problem: Problem) -> Any:
        raise NotImplementedError

    def sample(
        self,
        x: tf.Tensor,
        solution: Any,
        *,
        num_samples: int,
        seed: tf.Tensor,
        training: bool = False,
    ) -> AdversarialBatch:
        """Draws adversarial images from the solution.

        `training` is the mode of the attack's own networks, if it has any.
        """
        return self._sample(x, solution, Draw(num_samples, seed, training))

    def _sample(
        self, x: tf.Tensor, solution: Any, draw: Draw
    ) -> AdversarialBatch:
        raise NotImplementedError

    def as_tfp(self, x: tf.Tensor, solution: Any) -> tfd.Distribution:
        """Returns the solution as a TFP distribution of the perturbation."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Number of steps of a part."""
        return 1

    @property
    def passes(self) -> int:
        """Largest number of passes through the classifier for an example.

        A pass is forward, or forward and backward. Passes that only classify
        the first and the last image of a part are not counted.
        """
        return self.num_parts * self.length * self.passes_per_step

    def begin(self, problem: Problem) -> Progress:
        """Returns the progress of a part before its first step."""
        best = judged(problem.classifier, problem.x, problem.y)
        return Progress(tf.constant(0), (), best)

    def advance(
        self, problem: Problem, progress: Progress, num_steps: int | tf.Tensor
    ) -> Progress:
        """Takes at most `num_steps` further steps.

        The result of an attack does not depend on how its steps are divided.
        """
        classifier, x, y, seed, *_ = problem
        solution = problem._replace(seed=seeds.fold(seed, 0)).solved_by(self)
        batch = self.sample(
            x, solution, num_samples=1, seed=seeds.fold(seed, 1)
        )
        batch = tf.nest.map_structure(lambda t: t[:, 0], batch)
        best = progress.best.updated(judged(classifier, batch.x_adv, y))
        state = (batch.entropy, batch.regularizer)
        return Progress(progress.step + 1, state, best)

    def finish(self, problem: Problem, progress: Progress) -> AdversarialBatch:
        """Returns one image for each example, after the last step."""
        return AdversarialBatch(progress.best.x_adv, *progress.state)

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that need no further step of this part.

        `evaluate` takes them out of the batch between two pieces. An attack
        that does not define it keeps every example to the end. An example is
        not decided if a later step, a draw at the end, or another classifier
        can still change its verdict.

        Args:
            x: Clean images [batch, ...].
            progress: Progress after some steps.
        """
        none = tf.zeros_like(progress.best.wrong)
        return Decided(none, none)

    def find(self, problem: Problem) -> AdversarialBatch:
        """Runs one part with all its steps.

        Returns one image for each example, the clean one if it is stronger.
        """
        progress = self.begin(problem)
        progress = self.advance(problem, progress, self.length)
        return self.finish(problem, progress)

    def __call__(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: int | tf.Tensor = 0,
        part: int | None = None,
        jit_compile: bool | str = "auto",
    ) -> AdversarialBatch:
        """Attacks a batch of images with their labels.

        Args:
            classifier: Keras model from images to logits. It runs in inference
                mode and is not changed.
            x: Images [batch, height, width, channels], floats or uint8. The
                batch may be empty.
            y: Labels [batch], or one-hot or soft labels [batch, classes], of
                which the class with the largest share counts.
            seed: Seed of the noise; the same seed gives the same images.
            part: Index of the one part to try; by default all parts, each on
                all examples.
            jit_compile: Whether XLA compiles the steps; "auto" compiles where
                that is faster.
        """
        x, y = self.checked(classifier, x, y)
        if x.shape[0] == 0:
            return AdversarialBatch(x, *[tf.zeros([0])] * 2)
        seed = seeds.make(seed)
        find = self.function(classifier, "find", use_xla(jit_compile))
        if part is not None:
            return find(x, y, seed, tf.constant(part))
        batch = find(x, y, seed, tf.constant(0))
        strongest = self.function(classifier, "stronger", False)
        for index in range(1, self.num_parts):
            batch = strongest(batch, find(x, y, seed, tf.constant(index)), y)
        return batch

    def distribution(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: int | tf.Tensor = 0,
    ) -> tfd.Distribution:
        """Solves the inner problem; returns the perturbations' distribution."""
        x, y = self.checked(classifier, x, y)
        if x.shape[0] == 0:
            raise ValueError(
                "There is no distribution of no image. Received: images of "
                f"shape {tuple(x.shape)}"
            )
        solve = self.function(classifier, "solve", use_xla("auto"))
        return self.as_tfp(x, solve(x, y, seeds.make(seed), tf.constant(0)))

    def checked(
        self, classifier: Any, x: Any, y: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images and labels as tensors, or raises `ValueError`."""
        bounds = self.threat_model.bounds
        x, y = checks.as_batch(x, y, bounds)
        y = checks.classes_of(y)
        if tf.executing_eagerly() and x.shape[0]:
            x = checks.assert_images(x, bounds)
            checks.check_labels(y, checks.num_classes(classifier))
        return x, y

    def function(self, classifier: Any, task: str, jit_compile: bool) -> Any:
        """Returns the compiled function of a task, see `tracing.traced`.

        A task is traced once for each classifier; its function is dropped when
        the classifier is deleted, and when it or another model is renewed.
        """
        now = [version(model) for model in (classifier, *self.models)]
        traced_at, functions = self._compiled.get(classifier, (now, {}))
        if traced_at != now:
            functions = {}
        self._compiled[classifier] = now, functions
        key = (task, jit_compile)
        if key not in functions:
            functions[key] = traced(self, classifier, task, jit_compile)
        return functions[key]


class PointAttack(Attack):
    """An attack whose solution is one image for each example.

    Subclasses override `solve`, which returns the images [batch, ...].
    """

    def _point(self, progress: Progress) -> AdversarialBatch:
        """Returns the best image so far, with an entropy of 0."""
        zeros = tf.zeros(tf.shape(progress.best.wrong))
        return AdversarialBatch(progress.best.x_adv, zeros, zeros)

    def _sample(
        self, x: tf.Tensor, solution: tf.Tensor, draw: Draw
    ) -> AdversarialBatch:
        """Repeats the image of the solution."""
        x_adv = tf.repeat(solution[:, tf.newaxis], draw.num_samples, axis=1)
        zeros = tf.zeros(tf.shape(x_adv)[:2])
        return AdversarialBatch(x_adv, zeros, zeros)

    def as_tfp(self, x: tf.Tensor, solution: tf.Tensor) -> tfd.Distribution:
        """Returns a point mass on the perturbation."""
        return tfd.Independent(
            tfd.Deterministic(solution - x),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )


class Identity(PointAttack):
    """Leaves every image as it is: training with it is standard training."""

    passes_per_step = 0
    search = "none"

    def __init__(self) -> None:
        super().__init__(threat_models.get(1.0), "none")

    def _solve(self, problem: Problem) -> tf.Tensor:
        """Returns the images themselves."""
        return problem.x
