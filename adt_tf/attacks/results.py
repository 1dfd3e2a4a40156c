"""The values that attacks take and return.

`Problem` is what one part of an attack works on, `Progress` its state between
two steps, `Strongest` the best images so far, and `AdversarialBatch` the
result. `Draw` says how a solution is sampled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from adt_tf import checks

if TYPE_CHECKING:
    from adt_tf.attacks.base import Attack


class AdversarialBatch(NamedTuple):
    """Adversarial images and the entropy of their distribution.

    Attributes:
        x_adv: Images [batch, num_samples, ...], or [batch, ...] from a call of
            an attack.
        entropy: Entropy estimate of each sample [batch, num_samples], or
            [batch].
        regularizer: Term that the attack's own weights ascend in addition to
            the loss, in the shape of `entropy`.
    """

    x_adv: tf.Tensor
    entropy: tf.Tensor
    regularizer: tf.Tensor


class Problem(NamedTuple):
    """The inner problem of one batch, for one part of an attack.

    Attributes:
        classifier: Keras model from images to logits.
        x: Clean images [batch, ...].
        y: Labels [batch].
        seed: Seed of the attack's noise.
        part: Index of the part, such as a restart or a target class.
        jit_compile: Whether XLA compiles the steps.
    """

    classifier: Any
    x: tf.Tensor
    y: tf.Tensor
    seed: tf.Tensor
    part: int | tf.Tensor = 0
    jit_compile: bool = False

    def solved_by(self, attack: Attack) -> Any:
        """Returns the solution of an attack."""
        return attack.solve(
            self.classifier,
            self.x,
            self.y,
            seed=self.seed,
            part=self.part,
            jit_compile=self.jit_compile,
        )


class Draw(NamedTuple):
    """How adversarial images are drawn from a solution.

    Attributes:
        num_samples: Number of images for each example.
        seed: Seed of the noise.
        training: Mode of the attack's own networks, if it has any.
    """

    num_samples: int
    seed: tf.Tensor
    training: bool = False


class Strongest(NamedTuple):
    """The strongest image of each example so far.

    A misclassified image is stronger than a correctly classified one; among
    equals, the image with the higher cross-entropy is stronger.

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
        return Strongest(
            tf.where(
                over_images(condition, self.x_adv), other.x_adv, self.x_adv
            ),
            tf.where(condition, other.wrong, self.wrong),
            tf.where(condition, other.loss, self.loss),
        )


class Progress(NamedTuple):
    """The state of one part of an attack between two of its steps.

    Attributes:
        step: Number of steps taken, a scalar.
        state: Input of the next step: a nest of tensors whose first axis is
            the batch.
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
        standing: Whether no image so far is misclassified, and further steps
            find no new image [batch].
    """

    fallen: tf.Tensor
    standing: tf.Tensor


def judged(classifier: Any, x: tf.Tensor, y: tf.Tensor) -> Strongest:
    """Runs the classifier on images and returns how strong they are."""
    logits = checks.as_logits(classifier(x, training=False), classifier)
    return Strongest.of(x, logits, y)


def over_images(values: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Reshapes values [batch] so that they broadcast over images x."""
    return tf.reshape(values, [-1] + [1] * (len(x.shape) - 1))
