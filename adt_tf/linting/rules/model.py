"""Checks of the classifier's inputs and outputs.

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

# Means and standard deviations of the channels of ImageNet.
_IMAGENET = (
    np.array([0.485, 0.456, 0.406], np.float32),
    np.array([0.229, 0.224, 0.225], np.float32),
)


def accuracy(subject: Subject) -> Verdict:
    """Checks that natural accuracy is above chance.

    It must also be above the share of the most frequent class.
    """
    right, n = subject.num_correct, len(subject.labels)
    chance = 1 / subject.num_classes
    most_frequent = max(np.bincount(subject.labels).max() / n, chance)
    evidence = (
        f"{right} of {n} examples ({100 * right / n:.1f} %) are classified "
        f"correctly; chance is {100 * chance:.1f} %, and always naming the "
        f"most frequent class gives {100 * most_frequent:.1f} %."
    )
    advice = (
        "Check the loaded weights, the order of the classes and the "
        "preprocessing (see `input_range`): robustness at chance level means "
        "nothing."
    )
    if at_least(right, n, chance) >= SIGNIFICANCE:
        return "fail", evidence, advice
    if at_least(right, n, most_frequent) >= SIGNIFICANCE:
        advice = (
            "The classifier may have learnt only how frequent the classes "
            "are: look at the accuracy of each class, and evaluate on equally "
            "many examples of each."
        )
        return "warn", evidence, advice
    return "pass", evidence, advice


def input_range(subject: Subject) -> Verdict:
    """Checks that the classifier expects images in [0, 1]."""
    correct = subject.correct
    rescaled = {
        name: subject.predict(images.astype(np.float32)).argmax(-1)
        == subject.labels
        for name, images in _scalings(subject.images).items()
    }
    best = max(rescaled, key=lambda name: np.mean(rescaled[name]))
    gained = int(np.sum(rescaled[best] & ~correct))
    lost = int(np.sum(correct & ~rescaled[best]))
    # McNemar's exact test, one-sided, for the best of the other ranges.
    p = at_least(gained, gained + lost, 0.5)
    shares = ", ".join(
        f"{100 * np.mean(r):.1f} % on {name}" for name, r in rescaled.items()
    )
    evidence = (
        f"Accuracy is {100 * np.mean(correct):.1f} % on images x in [0, 1], "
        f"{shares}"
    )
    is_significant = p < SIGNIFICANCE / len(rescaled)
    is_large = gained - lost > 0.02 * len(correct)
    if gained > lost and not (is_significant and is_large):
        reason = "may be chance" if is_large else "is too few to matter"
        evidence += (
            f"; {best} gains {gained - lost} of {len(correct)} examples, which "
            f"{reason} (p = {p:.1g})"
        )
    scales = [
        float(np.mean(layer.scale))
        for layer in subject.layers
        if isinstance(layer, keras.layers.Rescaling)
        # A plain object around the model may rescale the images itself.
        and isinstance(subject.classifier, keras.Model)
    ]
    scale = math.prod(scales)
    if scales:
        evidence += f"; Rescaling layers multiply x by {scale:.4g}"
    evidence += "."
    advice = (
        f"The classifier works best on {best}: make that conversion its first "
        "layer, so that epsilon stays in pixels of [0, 1]; or remove one "
        "normalisation if the images are normalised twice."
    )
    if is_significant and is_large:
        brief = f"it expects {best}, not images x in [0, 1]"
        return "fail", evidence, advice, brief
    # 1/127.5 is the largest scale in use for pixels of 0..255.
    if scales and 0 < abs(scale) < 1 / 100:
        return (
            "warn",
            evidence,
            "Images in [0, 1] are scaled down a second time: remove the "
            "Rescaling layer, or put `Rescaling(255.0)` before it.",
            f"its Rescaling layers multiply images in [0, 1] by {scale:.2g}",
        )
    return "pass", evidence, advice


def _scalings(x: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the images in the usual ranges of training."""
    mean, deviation = (f(x, axis=(0, 1, 2)) for f in (np.mean, np.std))
    scaled = {
        "255 * x": 255 * x,
        "2 * x - 1": 2 * x - 1,
        "(x - mean) / std": (x - mean) / np.maximum(deviation, 1e-6),
    }
    if x.shape[-1] == 3:
        mean, deviation = _IMAGENET
        scaled["(x - mean) / std of ImageNet"] = (x - mean) / deviation
    return scaled


def logits(subject: Subject) -> Verdict:
    """Checks that the outputs are finite logits, not probabilities."""
    outputs = subject.logits
    low, high = float(outputs.min()), float(outputs.max())
    evidence = f"Outputs lie in [{low:.4g}, {high:.4g}]"
    advice = (
        "Remove the softmax or sigmoid (use `Dense(num_classes)` without an "
        "activation): attacks on probabilities are weak and overstate "
        "robustness."
    )
    broken = int(np.sum(~np.isfinite(outputs).all(axis=-1)))
    if broken:
        return (
            "fail",
            f"{broken} of {len(outputs)} rows of logits hold NaN or infinity.",
            "Check the weights: training may have diverged.",
        )
    if bool(checks.looks_like_softmax(tf.constant(outputs))):
        evidence += " and every row sums to one."
        return "fail", evidence, advice, "its outputs are probabilities"
    if low >= 0 and high <= 1:
        evidence += ", as probabilities do."
        return "fail", evidence, advice, "its outputs are probabilities"
    return "pass", f"{evidence}; rows do not sum to one.", advice


CHECKS = {check.__name__: check for check in (accuracy, input_range, logits)}
