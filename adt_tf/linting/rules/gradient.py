"""Checks of the input gradient, on which every white-box attack stands.

    status, evidence, advice = vanishing_gradients(subject)

`CHECKS` holds them by name: `differentiable`, `finite_gradients`,
`vanishing_gradients`, `precision`.
"""

from __future__ import annotations

import numpy as np

from adt_tf.linting.findings import Verdict
from adt_tf.linting.subject import Subject

# Shares of examples whose gradient is exactly zero, or tiny.
_MOST_ZERO, _MOST_TINY = 0.05, 0.1
# A gradient below this share of the margin's is lost to Adam's epsilon.
_TINY = 1e-8
# Share of pixels whose gradient 16 bits may lose.
_MOST_LOST = 0.01

_FLAT = (
    "The classifier itself is flat there (quantised, saturated or detached "
    "input): attack through a smooth stand-in, or by queries alone."
)
_UNDERFLOW = (
    "The loss underflows on logits this large: attack the margin "
    "(`attacks.cw`) or logits divided by a number, and do not report "
    "cross-entropy attacks alone."
)
_NO_GRADIENT = (
    "skipped",
    "The classifier has no input gradient.",
    "See `differentiable` first.",
)


def differentiable(subject: Subject) -> Verdict:
    """There is a path from the loss back to the image."""
    if subject.gradients() is None:
        return (
            "fail",
            "The gradient of the loss in the image is None.",
            "Something on the way (rounding, argmax, NumPy, stop_gradient) "
            "has no derivative: attack through a smooth stand-in (BPDA), or "
            "by queries alone, and believe no gradient-based attack.",
            "no input gradient on 100 % of the examples",
        )
    return "pass", "The loss has a gradient in the image.", ""


def finite_gradients(subject: Subject) -> Verdict:
    """No gradient is NaN or infinite."""
    gradients = subject.gradients()
    if gradients is None:
        return _NO_GRADIENT
    broken = int(np.sum(~np.isfinite(_flat(gradients)).all(axis=1)))
    return (
        "fail" if broken else "pass",
        f"{broken} of {len(gradients)} examples have NaN or infinite input "
        "gradients.",
        "Find the operation (square root or logarithm at 0, a norm of "
        "zeros) with `tf.debugging.enable_check_numerics()` and keep it away "
        "from that point: a gradient of NaN moves no attack.",
        f"NaN or infinite input gradient on {_share(broken, gradients)} of the "
        "examples",
    )


def vanishing_gradients(subject: Subject) -> Verdict:
    """The cross-entropy's gradient is not zero, or next to it.

    In float32 the softmax of a class underflows when its logit lies more than
    about 100 below the largest. If all wrong classes do, the loss and its
    gradient are exactly 0, where the margin's gradient is as good as ever.
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
            "Where the gradient is zero, attacks on the cross-entropy are "
            "blind, and where it is tiny those that do not take its sign are "
            "slow: report one on the margin (`attacks.cw`) beside them."
        )
    if np.mean(zero) > _MOST_ZERO:
        status = "fail"
        advice = _FLAT if 2 * flat > zero.sum() else _UNDERFLOW
    brief = f"zero input gradient on {_share(zero.sum(), zero)} of the examples"
    return status, evidence, advice, brief


def precision(subject: Subject) -> Verdict:
    """Gradients do not underflow in 16 bits."""
    half = subject.half_precision
    if not half:
        return "pass", "No layer computes and no output is in 16 bits.", ""
    evidence = f"The classifier computes or answers in {' and '.join(half)}"
    advice = (
        "Evaluate in float32: build the model with the dtype policy "
        "'float32' and load the same weights."
    )
    cautious = (
        "Evaluate in float32 once, with the same weights, to see that the "
        "numbers stay: 16 bits may still cost an attack its last steps."
    )
    gradients, margin = subject.gradients(), subject.gradients("margin")
    if gradients is None or margin is None:
        return "warn", f"{evidence}.", cautious
    # The margin's gradient is not scaled down by a small probability, so
    # where it lives on and the cross-entropy's is 0, the latter underflowed.
    alive = margin != 0
    lost = np.sum(alive & (gradients == 0)) / max(np.sum(alive), 1)
    evidence += (
        f"; {100 * lost:.1f} % of the pixels lose their cross-entropy "
        "gradient to underflow."
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
