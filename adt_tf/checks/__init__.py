"""Checks of user input, with error messages of one form.

- `arguments` checks plain arguments and raises errors of the form "Argument `x`
  must be ... Received: x=...".
- `batches`, `labels` and `outputs` convert images, labels and the outputs of a
  classifier into the one form that the core computes with, and check them,
  eagerly or inside a compiled step.
- `failures` turns a check that failed inside a compiled step into a
  `ValueError` of one line.
"""

from adt_tf.checks.batches import (
    TOLERANCE,
    as_batch,
    as_images,
    assert_finite,
    assert_images,
    assert_weights,
    digest,
    images_of,
    unpack,
)
from adt_tf.checks.failures import (
    ESCAPED,
    IMAGE_NOT_FINITE,
    NOT_FINITE,
    failures_told,
)
from adt_tf.checks.labels import (
    as_labels,
    assert_labels,
    check_labels,
    classes_in_array,
    classes_of,
    is_soft,
)
from adt_tf.checks.outputs import (
    SOFTMAX_MESSAGE,
    as_logits,
    assert_logits,
    check_answer,
    check_classifier,
    has_one_logit,
    looks_like_softmax,
    named_logits,
    named_outputs,
    num_classes,
)

__all__ = [
    "ESCAPED",
    "IMAGE_NOT_FINITE",
    "NOT_FINITE",
    "SOFTMAX_MESSAGE",
    "TOLERANCE",
    "as_batch",
    "as_images",
    "as_labels",
    "as_logits",
    "assert_finite",
    "assert_images",
    "assert_labels",
    "assert_logits",
    "assert_weights",
    "check_answer",
    "check_classifier",
    "check_labels",
    "classes_in_array",
    "classes_of",
    "digest",
    "failures_told",
    "has_one_logit",
    "images_of",
    "is_soft",
    "looks_like_softmax",
    "named_logits",
    "named_outputs",
    "num_classes",
    "unpack",
]
