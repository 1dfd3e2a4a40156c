"""The interface of an outer loss, and the conversion of Keras losses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from adt_tf import checks, configs, objectives
from adt_tf.checks import arguments


class RobustLoss(NamedTuple):
    """The result of a loss.

    Attributes:
        value: Loss of each example [batch].
        adversarial_logits: Logits [batch, samples, classes].
        clean_logits: Logits [batch, classes], or None if the loss does not run
            the clean images.
        sample_values: Loss of each sample [batch, samples], whose mean is
            `value`; None if the loss is not a mean over samples.
    """

    value: tf.Tensor
    adversarial_logits: tf.Tensor
    clean_logits: tf.Tensor | None = None
    sample_values: tf.Tensor | None = None


Loss = Callable[..., RobustLoss]


class Inputs(NamedTuple):
    """The arguments of a loss.

    Attributes:
        classifier: Model from images to logits.
        x: Clean images [batch, ...].
        x_adv: Adversarial images [batch, samples, ...].
        y: Classes [batch], or soft labels [batch, classes].
        training: Mode of the classifier.
    """

    classifier: Any
    x: tf.Tensor
    x_adv: tf.Tensor
    y: tf.Tensor
    training: bool

    def logits(self, images: tf.Tensor) -> tf.Tensor:
        """Runs the classifier on images [batch, samples, ...]."""
        return objectives.logits_of(
            self.classifier, images, training=self.training
        )


def of_inputs(function: Callable[[Inputs], RobustLoss], name: str) -> Loss:
    """Returns a function of `Inputs` as a loss.

    Args:
        function: Function that computes the loss.
        name: Name in reports.
    """

    def loss(
        classifier: Any,
        x: tf.Tensor,
        x_adv: tf.Tensor,
        y: tf.Tensor,
        *,
        training: bool,
    ) -> RobustLoss:
        return function(Inputs(classifier, x, x_adv, y, training))

    # The repr of a function shows its qualified name.
    loss.__name__ = loss.__qualname__ = name
    return loss


def get(loss: Any) -> Loss:
    """Returns an outer loss unchanged, or converts a loss of Keras.

    Args:
        loss: Function (classifier, x, x_adv, y, training) that returns a
            `RobustLoss` or a tensor of values, [batch] or a scalar; or a loss
            of Keras that takes logits, or a function (y_true, y_pred).
    """
    if isinstance(loss, keras.losses.Loss):
        return of_keras(loss)
    if not callable(loss):
        raise arguments.error(
            "be a loss of `adt_tf.losses`, or one of Keras such as "
            "`keras.losses.CategoricalCrossentropy(from_logits=True)`",
            loss=loss,
        )
    parameters = inspect.signature(loss).parameters.values()
    required = [p for p in parameters if p.default is p.empty]
    if len(required) == 2 and all(
        p.kind is p.POSITIONAL_OR_KEYWORD for p in required
    ):
        return of_keras(loss)
    return loss


@configs.recorded
def of_keras(loss: Any) -> Loss:
    """Applies a loss of Keras to the adversarial images.

    Labels keep the form of the data, as in Keras, but losses of one-hot labels
    receive one-hot labels also if the data hold classes. A binary loss receives
    the logit z of [0, z].

    Args:
        loss: A `keras.losses.Loss`, or a function (y_true, y_pred) that
            returns values [n].
    """
    kind = getattr(loss, "__name__", type(loss).__name__)
    if _from_logits(loss) is False:
        is_object = isinstance(loss, keras.losses.Loss)
        by = "" if is_object else " by `functools.partial`"
        raise ValueError(
            "A loss must take logits, as the classifier returns them. "
            f"Received: {kind}(from_logits=False); pass from_logits=True{by}."
        )
    if kind in _OF_PROBABILITIES and loss.__module__.startswith("keras."):
        raise ValueError(
            "A loss must take logits, as the classifier returns them, but "
            f"`keras.losses.{kind}` takes probabilities. Use "
            "`keras.losses.CategoricalCrossentropy(from_logits=True)`."
        )
    values_of = loss.call if isinstance(loss, keras.losses.Loss) else loss

    def robust(inputs: Inputs) -> RobustLoss:
        x_adv, y = inputs.x_adv, inputs.y
        logits = inputs.logits(x_adv)
        rows = tf.reshape(logits, [-1, logits.shape[-1]])
        labels = tf.repeat(y, tf.shape(logits)[1], axis=0)
        if isinstance(loss, _BINARY) and logits.shape[-1] == 2:
            labels = checks.classes_of(labels)[:, tf.newaxis]
            rows = rows[:, 1:] - rows[:, :1]
        elif isinstance(loss, _ONE_HOT) and not checks.is_soft(labels):
            labels = tf.one_hot(labels, logits.shape[-1])
        elif isinstance(loss, _CLASSES) and checks.is_soft(labels):
            raise ValueError(
                f"{type(loss).__name__} takes classes, but the labels have a "
                "column for each class: use "
                "`keras.losses.CategoricalCrossentropy(from_logits=True)`."
            )
        values = tf.convert_to_tensor(values_of(labels, rows))
        samples = None
        if values.shape.rank == 1:
            samples = tf.reshape(values, tf.shape(logits)[:2])
            values = tf.reduce_mean(samples, axis=1)
        values = _per_example(values, x_adv)
        return RobustLoss(values, logits, sample_values=samples)

    default: str = getattr(loss, "__name__", "loss")
    name: str = getattr(loss, "name", None) or default
    return of_inputs(robust, name)


def _from_logits(loss: Any) -> Any:
    """Returns the setting `from_logits` of a loss; None if it has none."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("from_logits")
    setting = inspect.signature(loss).parameters.get("from_logits")
    return None if setting is None else setting.default


_BINARY = (
    keras.losses.BinaryCrossentropy,
    keras.losses.BinaryFocalCrossentropy,
)
_ONE_HOT = (
    keras.losses.CategoricalCrossentropy,
    keras.losses.CategoricalFocalCrossentropy,
)
_CLASSES = keras.losses.SparseCategoricalCrossentropy
# Losses of Keras that take probabilities and have no setting for logits.
_OF_PROBABILITIES = {
    *("CategoricalGeneralizedCrossEntropy", "Dice", "KLDivergence", "Poisson"),
    *("categorical_generalized_cross_entropy", "dice", "kl_divergence"),
    *("Tversky", "poisson", "tversky"),
}


def as_robust_loss(
    outcome: Any, classifier: Any, x_adv: tf.Tensor
) -> RobustLoss:
    """Converts the result of a loss function to a `RobustLoss`.

    Args:
        outcome: A `RobustLoss`; or values [batch] or [batch, samples], or a
            scalar.
        classifier: Classifier that computes the logits if there are none.
        x_adv: Images [batch, samples, ...].
    """
    if isinstance(outcome, RobustLoss):
        return outcome
    values = tf.convert_to_tensor(outcome)
    if values.shape.rank == 2:
        values = tf.reduce_mean(values, axis=1)
    values = _per_example(values, x_adv)
    return RobustLoss(values, objectives.logits_of(classifier, x_adv))


def _per_example(values: tf.Tensor, x_adv: tf.Tensor) -> tf.Tensor:
    """Returns values [batch]; a scalar counts for every example."""
    size = x_adv.shape[0]
    if values.shape.rank == 0:
        return tf.fill(tf.shape(x_adv)[:1], values)
    if values.shape.rank != 1 or not values.shape.is_compatible_with([size]):
        raise ValueError(
            "A loss must return one value for each example, shape (batch,), or "
            f"a scalar. Received: shape={tuple(values.shape)} for {size} "
            "examples"
        )
    return values
