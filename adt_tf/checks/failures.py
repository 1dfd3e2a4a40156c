"""Checks inside a compiled step that reach the user as `ValueError`.

    y = require(tf.reduce_all(y >= 0), "Labels must be 0 or more", then=y)

    with failures_told():
        trainer.fit(images, labels)

A check that fails in a graph raises an `InvalidArgumentError` of many lines
that name operations. `failures_told` raises only the message of the check.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

NOT_FINITE = "The loss or a gradient is not finite."
IMAGE_NOT_FINITE = "An adversarial image is not finite."
ESCAPED = "An attack left its threat model"

# First words of the messages of these checks. Other errors stay as they are.
_BEGINNINGS = (
    "Images must",
    "Labels must",
    "Weights of",
    "The classifier must",
    NOT_FINITE,
    IMAGE_NOT_FINITE,
    ESCAPED,
)
# The message of an image reader, which TensorFlow wraps in its own message.
_UNREADABLE = re.compile(
    r"ValueError: (.* cannot be read as an image: .*|Images must .*"
    r"|Cannot read .*)"
)
# TensorFlow's own message for a label that is out of range.
_LABEL = re.compile(r"label value of (-?\d+) which is outside .* \[0, (\d+)\)")


def require(
    condition: tf.Tensor, message: Any, *values: tf.Tensor, then: Any
) -> Any:
    """Returns `then`, or fails if the condition does not hold.

    In eager mode it raises `ValueError`. In a graph it fails when the graph
    runs, before any operation that uses the result.

    Args:
        condition: Boolean scalar.
        message: Text, or a scalar string tensor.
        *values: Scalars that are appended to the message.
        then: A tensor, None, or a list of tensors and None.
    """
    if tf.executing_eagerly():
        if not bool(condition):
            if isinstance(message, tf.Tensor):
                message = message.numpy().decode()
            raise ValueError(" ".join([message, *(f"{v:g}" for v in values)]))
        return then
    check = tf.debugging.Assert(condition, [message, *values])
    with tf.control_dependencies([check]):
        if isinstance(then, Sequence):
            return [t if t is None else tf.identity(t) for t in then]
        return tf.identity(then)


@contextlib.contextmanager
def failures_told() -> Iterator[None]:
    """Re-raises a failed check of a graph as a `ValueError` of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        message = message_of(error)
        if message is None:
            raise
        raise ValueError(message) from None


def message_of(error: tf.errors.OpError) -> str | None:
    """Returns the message of the failed check, or None for any other error.

    Example:

    >>> error = tf.errors.InvalidArgumentError(
    ...     None, None, "assertion failed: [Labels must lie in 0..9.] [12]")
    >>> message_of(error)
    'Labels must lie in 0..9. 12'
    """
    match = re.search(r"assertion failed: \[(.*)\]", error.message)
    if match:
        message = match[1].replace("] [", " ")
        if message.startswith(_BEGINNINGS):
            return message
    match = _UNREADABLE.search(error.message)
    if match:
        return match[1]
    match = _LABEL.search(error.message)
    if match:
        return labels_message(int(match[2])) + f" {match[1]}"
    return None


def labels_message(num_classes: int) -> str:
    """Returns the message for labels out of range, without the values."""
    return (
        f"Labels must lie in 0..{num_classes - 1}, since the classifier has "
        f"{num_classes} outputs. Received:"
    )
