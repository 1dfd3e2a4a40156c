"""Finds the logits among the outputs of a classifier, and checks them.

    logits = as_logits(classifier(images, training=False), classifier)
    num_classes(classifier)         # None if it is not known yet

A classifier returns logits [batch, classes], either as its only output or as
the output named "logits". A single logit z, as a binary classifier with a
sigmoid has it, stands for the two logits [0, z].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.checks.failures import require

SOFTMAX_MESSAGE = (
    "The classifier must return logits, but its outputs look like softmax "
    "probabilities (each row is non-negative and sums to one). Attacks on "
    "probabilities are weak and overstate the robustness: remove the softmax, "
    "with `Dense(num_classes)` without an activation or with "
    "`adt_tf.as_classifier(model)`, or give adt-evaluate and adt-lint the flag "
    "--probabilities."
)
_NAME = "logits"
_FEWEST_ROWS = 4
# Above the rounding of bfloat16 in a sum of probabilities.
_ROUNDING = 5e-3


def as_logits(outputs: Any, classifier: Any = None) -> tf.Tensor:
    """Returns float32 logits, at least two for each image.

    Args:
        outputs: Outputs of a classifier.
        classifier: The classifier. Its `output_names` identify the outputs in
            a list.

    Example:

    >>> one, two = tf.constant([[3.0]]), tf.constant([[1.0, 2.0]])
    >>> as_logits({"logits": two, "features": one}).numpy()
    array([[1., 2.]], dtype=float32)
    >>> as_logits(one).numpy()
    array([[0., 3.]], dtype=float32)
    """
    logits = tf.cast(named_logits(outputs, classifier), tf.float32)
    if logits.shape.rank == 2 and logits.shape[-1] == 1:
        return tf.concat([tf.zeros_like(logits), logits], axis=-1)
    return logits


def num_classes(classifier: Any) -> int | None:
    """Returns the number of classes of a Keras model, or None if unknown."""
    size = _output_size(classifier)
    return size if size is None else max(size, 2)


def has_one_logit(classifier: Any) -> bool:
    """Returns whether a Keras model is known to return a single logit."""
    return _output_size(classifier) == 1


def _output_size(classifier: Any) -> int | None:
    shape = getattr(classifier, "output_shape", None)
    if shape is None:
        return None
    if isinstance(shape, list | tuple) and not _is_shape(shape):
        shape = named_outputs(classifier, shape)
    return named_logits(shape, classifier)[-1]


def looks_like_softmax(logits: tf.Tensor) -> tf.Tensor:
    """Returns whether all rows [..., classes] are softmax outputs.

    Fewer than four rows are not told from logits, which add up to one by
    chance, most likely those of two classes.
    """
    total = tf.reduce_sum(logits, axis=-1)
    return (
        (tf.size(total) >= _FEWEST_ROWS)
        & tf.reduce_all(tf.abs(total - 1.0) < _ROUNDING)
        & (tf.reduce_min(logits) >= 0.0)
    )


def check_classifier(classifier: Any) -> None:
    """Raises `ValueError` if the structure of a model rules out an attack.

    This is the case if the model cannot be called, ends in a softmax or a
    sigmoid, takes channels first, or has several outputs none of which is
    named "logits".
    """
    if not callable(classifier):
        raise arguments.error(
            "be a Keras model or a function from images to logits",
            classifier=classifier,
        )
    for layer in _layers(classifier):
        if getattr(layer, "data_format", None) == "channels_first":
            raise ValueError(
                "The classifier must take images of shape (batch, height, "
                "width, channels), but has data_format='channels_first' in "
                f"its layer {layer.name!r}: build it with 'channels_last'."
            )
    classes = num_classes(classifier)
    if len(getattr(classifier, "outputs", None) or ()) > 1:
        return
    *_, last = [None, *_layers(classifier)]
    activation = getattr(last, "activation", None)
    if isinstance(last, keras.layers.Softmax) or (
        activation is keras.activations.softmax
    ):
        raise ValueError(SOFTMAX_MESSAGE + f" Its last layer: {last.name!r}.")
    if classes == 2 and activation is keras.activations.sigmoid:
        raise ValueError(
            "The classifier must return logits, but ends in a sigmoid: remove "
            "it, for instance `Dense(1)` without an activation. Its last "
            f"layer: {last.name!r}."
        )


def check_answer(classifier: Any, images: np.ndarray) -> None:
    """Raises `ValueError` if a classifier does not return a tensor.

    Args:
        classifier: Called as `classifier(images, training=False)`.
        images: One or more images, as floats.
    """
    try:
        shape = tf.TensorShape(getattr(classifier, "input_shape", None))
    except (TypeError, ValueError):  # Several inputs, or a shape unknown yet.
        shape = tf.TensorShape(None)
    if not shape.is_compatible_with(images.shape):
        raise ValueError(
            f"The classifier takes images of shape {tuple(shape[1:])}. "
            f"Received: images of shape {images.shape[1:]}"
        )
    try:
        outputs = classifier(tf.constant(images), training=False)
    except tf.errors.InvalidArgumentError:
        return  # The model may accept only batches of another size.
    logits = named_logits(outputs, classifier)
    if not tf.is_tensor(logits):
        raise ValueError(
            "The classifier must return a TensorFlow tensor, through which "
            "gradients flow. Received: "
            f"{type(logits).__name__}; compute with TensorFlow or Keras, not "
            "with NumPy."
        )


def assert_logits(logits: tf.Tensor) -> tf.Tensor:
    """Returns the logits, or fails in the graph if they are a softmax's."""
    return require(~looks_like_softmax(logits), SOFTMAX_MESSAGE, then=logits)


def _layers(model: Any) -> Iterator[Any]:
    """Yields the layers of a model in order, including nested models'."""
    for layer in getattr(model, "layers", None) or ():
        yield layer
        yield from _layers(layer)


def named_logits(outputs: Any, classifier: Any) -> Any:
    """Returns the only output, or the output named "logits".

    Args:
        outputs: Tensors, or their shapes.
        classifier: The classifier. Its `output_names` identify the outputs in
            a list.
    """
    if isinstance(outputs, Mapping):
        outputs_by_name = dict(outputs)
    elif isinstance(outputs, list | tuple) and not _is_shape(outputs):
        names = getattr(classifier, "output_names", None) or ()
        if len(names) != len(outputs):
            names = range(len(outputs))
        outputs_by_name = dict(zip(names, outputs, strict=True))
    else:
        return outputs
    if len(outputs_by_name) == 1:
        (output,) = outputs_by_name.values()
        return output
    if _NAME in outputs_by_name:
        return outputs_by_name[_NAME]
    raise ValueError(
        "The classifier must name one of its outputs 'logits', if it has "
        f"several. Received: outputs {list(outputs_by_name)}; choose one with "
        "`keras.Model(model.inputs, model.outputs[0])`."
    )


def named_outputs(model: Any, values: Sequence[Any]) -> dict[Any, Any]:
    """Returns values for each output of a Keras model, by its name.

    Args:
        model: A functional or sequential Keras model.
        values: Values in the order of `model.outputs`, which Keras sorts by
            the keys if the model returns a dictionary.
    """
    if len(values) == 1:  # A `keras.Sequential` has no `output_names`.
        return {_NAME: values[0]}
    returned = model.compute_output_shape(model.input_shape)
    names = model.output_names
    if isinstance(returned, Mapping) and len(returned) == len(names):
        names = sorted(returned)
    return dict(zip(names, values, strict=True))


def _is_shape(value: Any) -> bool:
    return all(size is None or isinstance(size, int) for size in value)
