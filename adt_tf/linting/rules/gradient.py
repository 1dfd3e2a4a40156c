"""Checks of the input gradient, which every white-box attack needs.

    status, evidence, advice = vanishing_gradients(subject)

`CHECKS` holds them by name: `differentiable`, `finite_gradients`,
`vanishing_gradients`, `precision`.
"""

from __future__ import annotations

import numpy as np

from adt_tf.linting.findings import Verdict
from adt_tf.linting.subject import Subject

# Tolerated shares of examples whose gradient is exactly zero, or tiny.
_MOST_ZERO, _MOST_TINY = 0.05, 0.1
# A gradient below this share of the margin's is lost to Adam's epsilon.
_TINY = 1e-8
# Tolerated share of pixels whose gradient underflows in 16 bits.
_MOST_LOST = 0.01

_FLAT = (
    "The classifier itself is flat there (quantised, saturated or detached "
    "input): attack a smooth approximation of it, or use query attacks only."
)
_UNDERFLOW = (
    "The loss underflows on logits this large: attack the margin "
    "(`attacks.cw`) or divide the logits by a number, and do not report "
    "cross-entropy attacks alone."
)
_NO_GRADIENT = (
    "skipped",
    "The classifier has no input gradient.",
    "See `differentiable` first.",
)


def differentiable(subject: Subject) -> Verdict:
    """Checks that the loss has a gradient with respect to the image."""
    if subject.gradients() is None:
        return (
            "fail",
            "The gradient of the loss with respect to the image is None.",
            "An operation of the classifier (rounding, argmax, NumPy, "
            "stop_gradient) has no derivative, so gradient attacks do nothing: "
            "attack a smooth approximation of it (BPDA), or use query attacks "
            "such as `attacks.square`.",
            "no input gradient on 100 % of the examples",
        )
    return "pass", "The loss has a gradient with respect to the image.", ""


def finite_gradients(subject: Subject) -> Verdict:
    """Checks that no gradient is NaN or infinite."""
    gradients = subject.gradients()
    if gradients is None:
        return _NO_GRADIENT
    broken = int(np.sum(~np.isfinite(_flat(gradients)).all(axis=1)))
    return (
        "fail" if broken else "pass",
        f"{broken} of {len(gradients)} examples have NaN or infinite input "
        "gradients.",
        "Find the operation (a square root or logarithm at 0, a norm of "
        "zeros) with `tf.debugging.enable_check_numerics()` and add a small "
        "constant to its argument: attacks cannot use a gradient of NaN.",
        f"NaN or infinite input gradient on {_share(broken, gradients)} of the "
        "examples",
    )


def vanishing_gradients(subject: Subject) -> Verdict:
    """Checks that the cross-entropy's gradient is neither zero nor tiny.

    In float32 the softmax of a class underflows if its logit is more than
    about 100 below the largest. If this holds for all wrong classes, the loss
    and its gradient are exactly 0, while the margin's gradient is not.
    """
    gradients, margin = subject.gradients(), subject.gradients("margin")
    if gradients is None or margin is None:
        return _NO_GRADIENT
    size, other = (
        np.max(np.abs(_flat(np.nan_to_num(g))), axis=1)
        for g in (gradients, margin)
    )
    zero = size == 0
    tiny = ~zero & (size < _TINY * other)
    flat = int(np.sum(zero & (other == 0)))
    evidence = (
        f"The cross-entropy's input gradient is exactly zero on "
        f"{int(zero.sum())} and below {_TINY:g} of the margin's on "
        f"{int(tiny.sum())} of {len(zero)} examples; on {flat} the margin's "
        "is zero as well."
    )
    status, advice = "pass", ""
    if zero.any() or np.mean(tiny) > _MOST_TINY:
        status = "warn"
        advice = (
            "Attacks on the cross-entropy cannot move where its gradient is "
            "zero, and those that do not take its sign are slow where it is "
            "tiny: also report an attack on the margin (`attacks.cw`)."
        )
    if np.mean(zero) > _MOST_ZERO:
        status = "fail"
        advice = _FLAT if 2 * flat > zero.sum() else _UNDERFLOW
    brief = f"zero input gradient on {_share(zero.sum(), zero)} of the examples"
    return status, evidence, advice, brief


def precision(subject: Subject) -> Verdict:
    """Checks that gradients do not underflow in 16 bits."""
    half = subject.half_precision
    if not half:
        return "pass", "No computation and no output is in 16 bits.", ""
    evidence = f"Computations or outputs are in {' and '.join(half)}"
    advice = (
        "Evaluate in float32: build the model with the dtype policy "
        "'float32' and load the same weights."
    )
    cautious = (
        "Evaluate once in float32, with the same weights, and compare the "
        "numbers: in 16 bits an attack may lose its last steps."
    )
    gradients, margin = subject.gradients(), subject.gradients("margin")
    if gradients is None or margin is None:
        return "warn", f"{evidence}.", cautious
    # Unlike the margin's gradient, the cross-entropy's is multiplied by a
    # probability. Where only the latter is 0, it underflowed.
    is_nonzero = margin != 0
    lost = np.sum(is_nonzero & (gradients == 0)) / max(np.sum(is_nonzero), 1)
    evidence += (
        f"; the cross-entropy's gradient underflows on {100 * lost:.1f} % of "
        "the pixels."
    )
    if lost > _MOST_LOST:
        return "fail", evidence, advice
    return "warn", evidence, cautious


def _flat(gradients: np.ndarray) -> np.ndarray:
    return gradients.reshape(len(gradients), -1)


def _share(count: int, examples: np.ndarray) -> str:
    return f"{100 * count / len(examples):.0f} %"


CHECKS = {
    check.__name__: check
    for check in (
        differentiable,
        finite_gradients,
        vanishing_gradients,
        precision,
    )
}
