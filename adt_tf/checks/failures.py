"""Checks inside a compiled step, and what they found as one `ValueError`.

    y = require(tf.reduce_all(y >= 0), "Labels must be 0 or more", then=y)

    with failures_told():
        trainer.fit(images, labels)

A failed check in a graph is an `InvalidArgumentError` of many lines, which
name operations. `failures_told` raises its message alone.
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

# How the messages of these checks begin. What else fails is not ours to tell.
_BEGINNINGS = (
    "Images must",
    "Labels must",
    "The classifier must",
    NOT_FINITE,
    IMAGE_NOT_FINITE,
    ESCAPED,
)
# What a reader of files says, inside of what TensorFlow says of the reader.
_UNREADABLE = re.compile(
    r"ValueError: (.* cannot be read as an image: .*|Images must .*"
    r"|Cannot read .*)"
)
# What TensorFlow says of a label beyond the logits, before any check of ours.
_LABEL = re.compile(r"label value of (-?\d+) which is outside .* \[0, (\d+)\)")


def require(
    condition: tf.Tensor, message: Any, *values: tf.Tensor, then: Any
) -> Any:
    """Returns `then`, or fails where the condition does not hold.

    Eagerly it raises `ValueError`; in a graph it fails when the graph runs,
    before anything made of the result does.

    Args:
        condition: A boolean scalar.
        message: Text, or a scalar tensor of text.
        *values: What the message ends with.
        then: A tensor, None, or a list of such.
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
    """Raises what a check in a graph has found as `ValueError`, in one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        message = message_of(error)
        if message is None:
            raise
        raise ValueError(message) from None


def message_of(error: tf.errors.OpError) -> str | None:
    """Returns the message of the check that failed, or None for another error.

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
    """Says which labels there may be; the smallest and largest come after."""
    return (
        f"Labels must lie in 0..{num_classes - 1}, since the classifier has "
        f"{num_classes} outputs. Received:"
    )
