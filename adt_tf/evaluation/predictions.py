"""The classifier's own answers, from which every verdict is taken."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.attacks import tracing

_PREDICT: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def predict_function(classifier: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a compiled classifier, kept until it is deleted or renewed."""
    now = tracing.version(classifier)
    if _PREDICT.get(classifier, (None,))[0] != now:
        # A strong reference here would keep the classifier alive for ever.
        reference: Callable[[], Any] = weakref.ref(classifier)
        function = tf.function(
            lambda x: checks.as_logits(
                reference()(x, training=False), reference()
            ),
            autograph=False,
            reduce_retracing=True,
        )
        _PREDICT[classifier] = now, function
    return _PREDICT[classifier][1]


def check_finite(logits: np.ndarray, rows: np.ndarray, name: str) -> None:
    """Raises `ValueError` if an attack has led to logits that are not finite.

    Args:
        logits: Logits of adversarial images [n, classes].
        rows: Indices of their examples [n].
        name: Name of the attack.
    """
    spoiled = ~np.isfinite(logits).all(axis=-1)
    if spoiled.any():
        raise ValueError(
            f"The classifier returned NaN or infinite logits for example "
            f"{rows[spoiled.argmax()]} under {name}, though not for its clean "
            "image: it overflows, or divides by 0, within epsilon of it. "
            "Evaluate it in float32 if it computes in float16, and look for a "
            "quotient, a root or a logarithm in it."
        )


def checked_logits(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Returns logits that verdicts can be taken from, or raises `ValueError`.

    Args:
        logits: Logits of some examples [n, classes].
        labels: Labels of all examples.
    """
    if logits.ndim != 2 or labels.max() >= logits.shape[1]:
        raise ValueError(
            f"Labels go up to {labels.max()}, so the classifier must return "
            f"logits of shape (batch, {labels.max() + 1} or more). If the "
            "labels count from 1, subtract 1, since classes are numbered from "
            "0. Received: "
            f"logits of shape {logits.shape}, labels from {labels.min()} to "
            f"{labels.max()}."
        )
    if not np.isfinite(logits).all():
        raise ValueError(
            "The classifier returned NaN or infinite logits: they "
            "give no accuracy. Check its weights (did training diverge?)."
        )
    if bool(checks.looks_like_softmax(tf.constant(logits))):
        raise ValueError(checks.SOFTMAX_MESSAGE)
    return logits
