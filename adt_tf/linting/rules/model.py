"""Checks of what the classifier takes and gives.

    status, evidence, advice = accuracy(subject)

`CHECKS` holds them by name: `accuracy`, `input_range`, `logits`.
"""

from __future__ import annotations

import math

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.linting.counts import SIGNIFICANCE, at_least
from adt_tf.linting.findings import Verdict
from adt_tf.linting.subject import Subject


def accuracy(subject: Subject) -> Verdict:
    """Natural accuracy above chance, and above the most frequent class's."""
    right, n = subject.num_correct, len(subject.labels)
    chance = 1 / subject.num_classes
    most_frequent = max(np.bincount(subject.labels).max() / n, chance)
    evidence = (
        f"{right} of {n} examples ({100 * right / n:.1f} %) are classified "
        f"correctly; chance is {100 * chance:.1f} %, always naming the most "
        f"frequent class {100 * most_frequent:.1f} %."
    )
    advice = (
        "Check the weights that were loaded, the order of the classes and the "
        "preprocessing (see `input_range`): robustness at chance level means "
        "nothing."
    )
    for level, status in ((chance, "fail"), (most_frequent, "warn")):
        if at_least(right, n, level) >= SIGNIFICANCE:
            return status, evidence, advice
    return "pass", evidence, advice


def input_range(subject: Subject) -> Verdict:
    """Images in [0, 1] are what the classifier expects."""
    x = subject.images
    mean, deviation = (f(x, axis=(0, 1, 2)) for f in (np.mean, np.std))
    others = {
        "255 * x": 255 * x,
        "2 * x - 1": 2 * x - 1,
        "(x - mean) / std": (x - mean) / np.maximum(deviation, 1e-6),
    }
    plain = subject.correct
    right = {
        name: subject.predict(other.astype(np.float32)).argmax(-1)
        == subject.labels
        for name, other in others.items()
    }
    best = max(right, key=lambda name: np.mean(right[name]))
    gained = int(np.sum(right[best] & ~plain))
    lost = int(np.sum(plain & ~right[best]))
    # McNemar's exact test, one-sided, for the best of the other ranges.
    p = at_least(gained, gained + lost, 0.5)
    shares = ", ".join(
        f"{100 * np.mean(r):.1f} % on {name}" for name, r in right.items()
    )
    evidence = (
        f"Accuracy is {100 * np.mean(plain):.1f} % on images x in [0, 1], "
        f"{shares}"
    )
    scales = [
        float(np.mean(layer.scale))
        for layer in subject.layers
        if isinstance(layer, keras.layers.Rescaling)
        # Around it a plain object may scale in a way that cannot be seen.
        and isinstance(subject.classifier, keras.Model)
    ]
    scale = math.prod(scales)
    if scales:
        evidence += f"; Rescaling layers multiply x by {scale:.4g}"
    evidence += "."
    advice = (
        f"The classifier works best on {best}: put that conversion into it, "
        "as its first layer, so that epsilon stays in pixels of [0, 1]; or "
        "remove a normalisation that the images go through twice."
    )
    if p < SIGNIFICANCE / len(others) and gained - lost > 0.02 * len(plain):
        return "fail", evidence, advice
    # 1/127.5 is the largest scale in use for pixels of 0..255.
    if scales and 0 < abs(scale) < 1 / 100:
        return (
            "warn",
            evidence,
            "Images in [0, 1] are scaled down once more: remove the Rescaling "
            "layer, or put `Rescaling(255.0)` before it.",
        )
    return "pass", evidence, advice


def logits(subject: Subject) -> Verdict:
    """The outputs are finite logits, not probabilities."""
    outputs = subject.logits
    low, high = float(outputs.min()), float(outputs.max())
    evidence = f"Outputs lie in [{low:.4g}, {high:.4g}]"
    advice = (
        "Remove the softmax or sigmoid, for instance `Dense(num_classes)` "
        "without an activation: attacks on probabilities are too weak and "
        "flatter the model."
    )
    broken = int(np.sum(~np.isfinite(outputs).all(axis=-1)))
    if broken:
        return (
            "fail",
            f"{broken} of {len(outputs)} rows of logits hold NaN or infinity.",
            "Check the weights: did training diverge?",
        )
    if bool(checks.looks_like_softmax(tf.constant(outputs))):
        return "fail", f"{evidence} and every row sums to one.", advice
    if low >= 0 and high <= 1:
        return "fail", f"{evidence}, as probabilities do.", advice
    return "pass", f"{evidence}; rows do not sum to one.", advice


CHECKS = {check.__name__: check for check in (accuracy, input_range, logits)}
