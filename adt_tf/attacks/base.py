"""The interface of an attack: solve the inner problem, then sample from it.

    solution = attack.solve(classifier, x, y, seed=seed)     # outside a tape
    batch = attack.sample(x, solution, num_samples=1, seed=seed)

`solve` lets no gradient through; `sample` is differentiable in the attack's
own weights, if it has any. The trainer runs both in its one step. Calling the
attack runs both as one compiled function and gives back, for each example, the
strongest image it has seen, the clean one included: an attack never helps.

An attack may have several parts, such as restarts or target classes. Calling
it tries them all; `evaluate` tries each on the examples still standing. A part
may be run in pieces, between which its state can be saved:

    progress = attack.begin(classifier, x, y, seed=seed)
    while progress.step < attack.length:
        progress = attack.advance(
            classifier, x, y, progress, seed=seed, num_steps=10)
    batch = attack.finish(classifier, x, y, progress, seed=seed)
"""

from __future__ import annotations

import copy
import weakref
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf import checks, configs, seeds, threat_models
from adt_tf.threat_models import ThreatModel

tfd = tfp.distributions


class AdversarialBatch(NamedTuple):
    """Adversarial images and the entropy of their distribution.

    Attributes:
        x_adv: Images [batch, num_samples, ...], or [batch, ...] where an
            attack was called.
        entropy: Its estimate per sample [batch, num_samples], or [batch].
        regularizer: What the attack's own weights ascend beside the loss, in
            the same shape.
    """

    x_adv: tf.Tensor
    entropy: tf.Tensor
    regularizer: tf.Tensor


class Strongest(NamedTuple):
    """For each example the strongest image so far: wrong, else of most loss.

    Attributes:
        x_adv: Images [batch, ...].
        wrong: Whether they are misclassified [batch].
        loss: Their cross-entropy [batch].
    """

    x_adv: tf.Tensor
    wrong: tf.Tensor
    loss: tf.Tensor

    @classmethod
    def of(cls, x: tf.Tensor, logits: tf.Tensor, y: tf.Tensor) -> Strongest:
        """Judges images [batch, ...] by their logits [batch, classes]."""
        wrong = tf.argmax(logits, axis=-1, output_type=y.dtype) != y
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        return cls(x, wrong, loss)

    def updated(self, other: Strongest) -> Strongest:
        """Takes the other image where it is at least as strong."""
        better = (other.wrong & ~self.wrong) | (
            (other.wrong == self.wrong) & (other.loss >= self.loss)
        )
        return self.where(better, other)

    def where(self, condition: tf.Tensor, other: Strongest) -> Strongest:
        """Takes the other image where the condition [batch] holds."""
        ones = [1] * (len(self.x_adv.shape) - 1)
        wide = tf.reshape(condition, [-1, *ones])
        return Strongest(
            tf.where(wide, other.x_adv, self.x_adv),
            tf.where(condition, other.wrong, self.wrong),
            tf.where(condition, other.loss, self.loss),
        )


class Progress(NamedTuple):
    """Where a part of an attack is, between two of its steps.

    Attributes:
        step: The number of steps taken, a scalar.
        state: What the next step goes on from: a nest of tensors whose first
            axis is the batch.
        best: The strongest image so far.
    """

    step: tf.Tensor
    state: Any
    best: Strongest


class Decided(NamedTuple):
    """Examples whose verdict no further step of a part can change.

    Attributes:
        fallen: Whether `finish` returns a misclassified image from now on,
            whatever the further steps find [batch].
        standing: Whether the further steps find nothing new, and nothing so
            far is misclassified [batch].
    """

    fallen: tf.Tensor
    standing: tf.Tensor


def use_xla(jit_compile: bool | str) -> bool:
    """Resolves "auto": XLA on accelerators; on a CPU oneDNN is faster."""
    if jit_compile == "auto":
        return bool(tf.config.list_logical_devices("GPU"))
    return bool(jit_compile)


class Attack(configs.Configured):
    """Finds perturbations of images that a classifier gets wrong.

    Subclasses define `solve` and `sample`; a `PointAttack` only `solve`.

    Args:
        threat_model: What every image it returns obeys.
        name: How tables call it.
    """

    #: Keras models that a trainer trains along with the classifier.
    networks: tuple[Any, ...] = ()
    #: How many restarts, targets and so on it tries, each as one `part`.
    num_parts: int = 1
    #: Images that the classifier sees at once for each example attacked.
    images_per_example: int = 1
    #: Images that a step shows the classifier for each example.
    passes_per_step: int = 1
    #: Whether what an example is trained on depends on others in its batch.
    couples_examples: bool = False

    def __init__(self, threat_model: ThreatModel, name: str):
        self.threat_model = threat_model
        self.name = name
        self._compiled = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{self.name}, {self.threat_model}>"

    @property
    def models(self) -> tuple[Any, ...]:
        """All models, its own or others', that decide what it finds."""
        return self.networks

    def scaled(self, share: float | tf.Tensor) -> Attack:
        """Returns a copy of the attack with a radius of share * epsilon.

        The copy shares the attack's networks. Step sizes that are a share of
        epsilon shrink with it, others do not.

        Args:
            share: A number, or a scalar tensor: inside a traced step the
                radius may follow a schedule.
        """
        attack = copy.copy(self)
        attack.threat_model = self.threat_model.scaled(share)
        attack._compiled = weakref.WeakKeyDictionary()
        return attack

    def check(self, classifier: Any) -> None:
        """Raises `ValueError` where it cannot attack such a classifier.

        `evaluate` asks this of all attacks before it runs the first.
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
        """Returns a nest of tensors that describes the distribution found."""
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
        raise NotImplementedError

    def as_tfp(self, x: tf.Tensor, solution: Any) -> Any:
        """Returns the solution as a TFP distribution of the perturbation."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """The number of steps that a part takes, in which it may be cut."""
        return 1

    @property
    def passes(self) -> int:
        """The most passes through the classifier that an example may take.

        Each is forward, or forward and back. What only judges the images that
        a part begins and ends with is not counted.
        """
        return self.num_parts * self.length * self.passes_per_step

    def begin(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: tf.Tensor,
        part: int | tf.Tensor = 0,
    ) -> Progress:
        """Returns where a part of the attack is before its first step."""
        return Progress(tf.constant(0), (), judged(classifier, x, y))

    def advance(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        progress: Progress,
        *,
        seed: tf.Tensor,
        part: int | tf.Tensor = 0,
        num_steps: int | tf.Tensor,
        jit_compile: bool = False,
    ) -> Progress:
        """Takes at most so many further steps.

        However its steps are divided, an attack ends the same.
        """
        solution = self.solve(
            classifier,
            x,
            y,
            seed=seeds.fold(seed, 0),
            part=part,
            jit_compile=jit_compile,
        )
        batch = self.sample(
            x, solution, num_samples=1, seed=seeds.fold(seed, 1)
        )
        batch = tf.nest.map_structure(lambda t: t[:, 0], batch)
        best = progress.best.updated(judged(classifier, batch.x_adv, y))
        state = (batch.entropy, batch.regularizer)
        return Progress(progress.step + 1, state, best)

    def finish(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        progress: Progress,
        *,
        seed: tf.Tensor,
        part: int | tf.Tensor = 0,
    ) -> AdversarialBatch:
        """Returns one image for each example, after the last step."""
        return AdversarialBatch(progress.best.x_adv, *progress.state)

    def decided(self, x: tf.Tensor, progress: Progress) -> Decided:
        """Returns the examples that need no further step of this part.

        `evaluate` takes them out of the batch between two pieces. An attack
        that does not define it keeps every example to the end. It must not
        name an example whose verdict a later step, a draw at the end, or
        another classifier decides.

        Args:
            x: Clean images [batch, ...].
            progress: Progress after some steps.
        """
        none = tf.zeros_like(progress.best.wrong)
        return Decided(none, none)

    def find(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: tf.Tensor,
        part: int | tf.Tensor = 0,
        jit_compile: bool = False,
    ) -> AdversarialBatch:
        """Returns one image for each example, the clean one if it is stronger.

        What a call of the attack compiles: all its steps at once.
        """
        examples = (classifier, x, y)
        settings = {"seed": seed, "part": part}
        progress = self.begin(*examples, **settings)
        progress = self.advance(
            *examples,
            progress,
            num_steps=self.length,
            jit_compile=jit_compile,
            **settings,
        )
        return self.finish(*examples, progress, **settings)

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
            classifier: A Keras model from images to logits. It runs in
                inference mode and is left untouched.
            x: Images [batch, height, width, channels], floats or uint8; of
                none, none comes back.
            y: Labels [batch], or one-hot or soft ones [batch, classes], of
                which the class with the largest share counts.
            seed: The same seed gives the same images.
            part: Which of the attack's parts to try; by default all of them,
                each on all examples.
            jit_compile: Whether XLA compiles the steps; "auto" where it helps.
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
        for part in range(1, self.num_parts):
            batch = strongest(batch, find(x, y, seed, tf.constant(part)), y)
        return batch

    def distribution(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: int | tf.Tensor = 0,
    ) -> Any:
        """Returns the TFP distribution of the perturbations found for x."""
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
        """Traces a task once for each classifier, and forgets it with it.

        Args:
            classifier: What is attacked.
            task: The name of a method: "begin", "advance", "finish", "find",
                "solve"; or "stronger", which compares two batches.
            jit_compile: Whether XLA compiles the steps.
        """
        functions = self._compiled.setdefault(classifier, {})
        key = (task, jit_compile)
        if key in functions:
            return functions[key]
        # A strong reference here would keep the classifier alive for ever.
        reference = weakref.ref(classifier)

        def solve(x, y, seed, part):
            return self.solve(
                reference(),
                x,
                y,
                seed=seeds.fold(seed, 0),
                part=part,
                jit_compile=jit_compile,
            )

        def find(x, y, seed, part):
            return self.find(
                reference(), x, y, seed=seed, part=part, jit_compile=jit_compile
            )

        def begin(x, y, seed, part):
            return self.begin(reference(), x, y, seed=seed, part=part)

        def advance(x, y, seed, part, progress, num_steps):
            return self.advance(
                reference(),
                x,
                y,
                progress,
                seed=seed,
                part=part,
                num_steps=num_steps,
                jit_compile=jit_compile,
            )

        def finish(x, y, seed, part, progress):
            return self.finish(
                reference(), x, y, progress, seed=seed, part=part
            )

        def stronger(first, second, y):
            one, other = (
                judged(reference(), batch.x_adv, y) for batch in (first, second)
            )
            return first._replace(x_adv=one.updated(other).x_adv)

        tasks = (solve, find, begin, advance, finish, stronger)
        (function,) = (f for f in tasks if f.__name__ == task)
        functions[key] = tf.function(
            function, autograph=False, reduce_retracing=True
        )
        return functions[key]


def judged(classifier: Any, x: tf.Tensor, y: tf.Tensor) -> Strongest:
    """Runs the classifier on images and says how strong they are."""
    logits = checks.as_logits(classifier(x, training=False), classifier)
    return Strongest.of(x, logits, y)


class PointAttack(Attack):
    """An attack whose solution is one image for each example.

    Subclasses define `solve`, which returns the images [batch, ...].
    """

    def _point(self, progress: Progress) -> AdversarialBatch:
        """The best image so far, which has no entropy."""
        zeros = tf.zeros(tf.shape(progress.best.wrong))
        return AdversarialBatch(progress.best.x_adv, zeros, zeros)

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Returns the image found, as often as asked."""
        x_adv = tf.repeat(solution[:, tf.newaxis], num_samples, axis=1)
        zeros = tf.zeros(tf.shape(x_adv)[:2])
        return AdversarialBatch(x_adv, zeros, zeros)

    def as_tfp(self, x, solution):
        """All mass on one perturbation."""
        return tfd.Independent(
            tfd.Deterministic(solution - x),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )


class Identity(PointAttack):
    """Leaves every image as it is: training with it is standard training."""

    passes_per_step = 0

    def __init__(self):
        super().__init__(threat_models.get(1.0), "none")

    def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
        """There is nothing to solve."""
        return x
