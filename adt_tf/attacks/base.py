"""The interface of an attack: solve the inner problem, then sample from it.

    solution = attack.solve(classifier, x, y, seed=seed)     # outside a tape
    batch = attack.sample(x, solution, num_samples=1, seed=seed)

`solve` lets no gradient through; `sample` is differentiable in the attack's
own weights, if it has any. The trainer runs both in its one step; calling the
attack runs both as one compiled function.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf import checks, seeds
from adt_tf.threat_models import Linf

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


def use_xla(jit_compile: bool | str) -> bool:
    """Resolves "auto": XLA on accelerators; on a CPU oneDNN is faster."""
    if jit_compile == "auto":
        return bool(tf.config.list_logical_devices("GPU"))
    return bool(jit_compile)


class Attack:
    """Finds perturbations of images that a classifier gets wrong.

    Subclasses define `solve` and `sample`.

    Args:
        threat_model: What every image it returns obeys.
        name: How tables call it.
    """

    #: Keras models that a trainer trains along with the classifier.
    networks: tuple[Any, ...] = ()

    def __init__(self, threat_model: Linf, name: str):
        self.threat_model = threat_model
        self.name = name
        self._compiled = weakref.WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{self.name}, {self.threat_model}>"

    def solve(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: tf.Tensor,
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

    def __call__(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: int | tf.Tensor = 0,
        jit_compile: bool | str = "auto",
    ) -> AdversarialBatch:
        """Attacks a batch of images with their labels.

        Args:
            classifier: A Keras model from images to logits. It runs in
                inference mode and is left untouched.
            x: Images [batch, height, width, channels].
            y: Integer labels [batch].
            seed: The same seed gives the same images.
            jit_compile: Whether XLA compiles the steps; "auto" where it helps.
        """
        x, y = self._checked(x, y)
        attack = self._function(classifier, "attack", use_xla(jit_compile))
        return attack(x, y, seeds.make(seed))

    def distribution(
        self,
        classifier: Any,
        x: tf.Tensor,
        y: tf.Tensor,
        *,
        seed: int | tf.Tensor = 0,
    ) -> Any:
        """Returns the TFP distribution of the perturbations found for x."""
        x, y = self._checked(x, y)
        solve = self._function(classifier, "solve", use_xla("auto"))
        return self.as_tfp(x, solve(x, y, seeds.make(seed)))

    def _checked(self, x: Any, y: Any) -> tuple[tf.Tensor, tf.Tensor]:
        x, y = checks.as_batch(x, y)
        if tf.executing_eagerly():
            checks.check_images(x, self.threat_model.bounds)
        return x, y

    def _function(self, classifier: Any, task: str, jit_compile: bool) -> Any:
        """Traces a task once for each classifier, and forgets it with it."""
        functions = self._compiled.setdefault(classifier, {})
        key = (task, jit_compile, self.threat_model.epsilon)
        if key in functions:
            return functions[key]
        # A strong reference here would keep the classifier alive for ever.
        reference = weakref.ref(classifier)

        def solve(x, y, seed):
            return self.solve(
                reference(),
                x,
                y,
                seed=seeds.fold(seed, 0),
                jit_compile=jit_compile,
            )

        def attack(x, y, seed):
            batch = self.sample(
                x,
                solve(x, y, seed),
                num_samples=1,
                seed=seeds.fold(seed, 1),
            )
            return tf.nest.map_structure(lambda t: t[:, 0], batch)

        functions[key] = tf.function(
            {"solve": solve, "attack": attack}[task],
            autograph=False,
            reduce_retracing=True,
        )
        return functions[key]


class Identity(Attack):
    """Leaves every image as it is: training with it is standard training."""

    def __init__(self):
        super().__init__(Linf(1.0), "none")

    def solve(self, classifier, x, y, *, seed, jit_compile=False):
        """There is nothing to solve."""
        return ()

    def sample(self, x, solution, *, num_samples, seed, training=False):
        """Returns the images themselves."""
        x_adv = tf.repeat(x[:, tf.newaxis], num_samples, axis=1)
        zeros = tf.zeros(tf.shape(x_adv)[:2])
        return AdversarialBatch(x_adv, zeros, zeros)

    def as_tfp(self, x, solution):
        """All mass on no perturbation."""
        return tfd.Independent(
            tfd.Deterministic(tf.zeros_like(x)),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )
