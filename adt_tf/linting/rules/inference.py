"""Checks that a call in inference mode is a function of the image alone.

    status, evidence, advice = batch_independence(subject)

`CHECKS` holds them by name: `randomness`, `batch_independence`, `state`.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from adt_tf.linting.findings import Verdict
from adt_tf.linting.subject import Subject

to_numpy = keras.ops.convert_to_numpy

# Tolerances, as shares of the logits' spread. Convolutions of other batch
# sizes round differently, by about 1e-6 in float32 and 1e-3 on tensor cores.
_ROUNDING, _HALF_ROUNDING = 1e-3, 5e-2
# Number of examples that are also classified one by one.
_NUM_ALONE = 8


def randomness(subject: Subject) -> Verdict:
    """Checks that repeated calls give the same logits and gradients."""
    x = subject.images[: subject.batch_size]
    calls = np.stack([subject.predict(x) for _ in range(4)])
    noise = _relative(calls[1:] - calls[0], subject)
    flips = np.mean((calls.argmax(-1) != calls[0].argmax(-1)).any(axis=0))
    evidence = (
        f"In {len(calls)} calls on the same images, logits differ by up to "
        f"{100 * noise:.2g} % of their spread, predictions on "
        f"{100 * flips:.1f} % of the examples"
    )
    advice = (
        "Call dropout and noise layers in inference mode. Attack a defence "
        "that is random by design with the average of many gradients, and "
        "average its accuracy over many calls."
    )
    first = subject.gradients("margin")
    again = subject.compute_gradients("margin")
    moved = 0.0
    if first is not None and again is not None:
        norms = np.sqrt(np.sum(first**2, axis=(1, 2, 3)))
        change = np.sqrt(np.sum((again - first) ** 2, axis=(1, 2, 3)))
        # Rounding at the kink of a ReLU may change the gradient of a few
        # examples.
        moved = float(np.mean(change > 0.01 * norms))
        evidence += f", gradients on {100 * moved:.1f} %"
    status = "fail" if noise > _tolerance(subject) or moved > 0.05 else "pass"
    brief = "its outputs or gradients are random"
    return status, f"{evidence}.", advice, brief


def batch_independence(subject: Subject) -> Verdict:
    """Checks that logits do not depend on the rest of the batch."""
    x = subject.images[: subject.batch_size]
    if len(x) < 2:
        return "skipped", "There is only one example.", "Pass more examples."
    whole, again = (subject.call(x) for _ in range(2))
    if _relative(whole - again, subject) > _tolerance(subject):
        return (
            "skipped",
            "The logits are random, which hides any dependence on the batch.",
            "See `randomness` first.",
        )
    order = np.random.default_rng(subject.seed).permutation(len(x))
    few = x[:_NUM_ALONE]
    padded = np.concatenate([few, np.zeros_like(x)])
    logits = {
        "alone": np.concatenate([subject.call(image[None]) for image in few]),
        "permuted": subject.call(x[order]).numpy()[np.argsort(order)],
        "among black images": subject.call(padded).numpy()[: len(few)],
    }
    change = {
        name: _relative(other - whole.numpy()[: len(other)], subject)
        for name, other in logits.items()
    }
    worst = max(change.values())
    figures = ", ".join(f"{k} {100 * v:.2g} %" for k, v in change.items())
    return (
        "fail" if worst > _tolerance(subject) else "pass",
        "Largest change of an example's logits in another batch, as a share "
        f"of their spread: {figures}.",
        "Run batch normalisation with its moving statistics "
        "(`training=False`) and compute no mean over the batch: otherwise an "
        "attack on one example also changes the others.",
        "its outputs depend on the rest of the batch",
    )


def state(subject: Subject) -> Verdict:
    """Checks that a call in inference mode changes no variable."""
    # `randomness` covers the integer states of random generators.
    variables = [v for v in subject.variables if "float" in str(v.dtype)]
    if not variables:
        return (
            "skipped",
            "The classifier has no variables that lint can find.",
            "Pass the Keras model itself, or a tf.Module.",
        )
    before = [to_numpy(v) for v in variables]
    subject.call(subject.images[: subject.batch_size])
    changed = [
        str(getattr(variable, "path", variable.name))
        for variable, old in zip(variables, before, strict=True)
        if not np.array_equal(to_numpy(variable), old, equal_nan=True)
    ]
    evidence = (
        f"{len(changed)} of {len(variables)} variables change in a call with "
        "training=False"
    )
    if changed:
        evidence += f", such as {changed[0]!r}"
    return (
        "fail" if changed else "pass",
        f"{evidence}.",
        "Pass `training` to every layer that takes it, in particular to batch "
        "normalisation: now each query of an attack changes the model.",
    )


def _relative(difference: tf.Tensor | np.ndarray, subject: Subject) -> float:
    """Returns the largest difference of logits as a share of their spread."""
    return float(np.max(np.abs(np.asarray(difference)))) / subject.spread


def _tolerance(subject: Subject) -> float:
    return _HALF_ROUNDING if subject.half_precision else _ROUNDING


CHECKS = {
    check.__name__: check for check in (randomness, batch_independence, state)
}
