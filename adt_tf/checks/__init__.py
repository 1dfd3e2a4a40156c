"""Checks of what a user gives, each with one form of message.

`arguments` checks plain arguments ("Argument `x` must be ... Received: x=...");
`batches` checks classifiers and batches, eagerly or inside a compiled step.
"""

from adt_tf.checks.batches import (
    ESCAPED,
    IMAGE_NOT_FINITE,
    NOT_FINITE,
    SOFTMAX_MESSAGE,
    TOLERANCE,
    as_batch,
    assert_finite,
    assert_images,
    assert_labels,
    assert_logits,
    check_classifier,
    check_images,
    check_labels,
    digest,
    looks_like_softmax,
)

__all__ = [
    "ESCAPED",
    "IMAGE_NOT_FINITE",
    "NOT_FINITE",
    "SOFTMAX_MESSAGE",
    "TOLERANCE",
    "as_batch",
    "assert_finite",
    "assert_images",
    "assert_labels",
    "assert_logits",
    "check_classifier",
    "check_images",
    "check_labels",
    "digest",
    "looks_like_softmax",
]
