"""Checks to run before anyone trusts a robustness number.

    report = lint(classifier, test, epsilon=8 / 255)
    print(report)               # failures first, with what to do
    report.ok                   # False if any check failed

`evaluate` runs those that are cheap on what it attacks:

    quick_failures(classifier, images, labels)

Each check is a function from a `Subject` to (status, evidence, advice):
`rules.model` looks at what the classifier takes and gives, `rules.inference`
at calls that should be alike, `rules.gradient` at its input gradient, and
`rules.masking` at attacks that should be stronger than others and are not.
`CHECKS` names them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import data, files, threat_models
from adt_tf.checks import arguments
from adt_tf.linting.findings import Finding, LintReport
from adt_tf.linting.rules import gradient, inference, masking, model
from adt_tf.linting.subject import Subject
from adt_tf.threat_models import ThreatModel

__all__ = ["CHECKS", "Finding", "LintReport", "lint", "quick_failures"]

#: All checks by name, in the order in which they run.
CHECKS = {
    **model.CHECKS,
    **inference.CHECKS,
    **gradient.CHECKS,
    **masking.CHECKS,
}

#: Those that cost a few passes each, and that `evaluate` runs too.
QUICK = (
    "input_range",
    "logits",
    "randomness",
    "batch_independence",
    "differentiable",
    "finite_gradients",
    "vanishing_gradients",
)
_QUICK_EXAMPLES = 32

# Where there is no gradient, an attack that needs none shows what was missed.
_WITHOUT_GRADIENT = ("random_noise", "black_box")
# Fewer examples tell no attack from another.
_FEWEST_CORRECT = 16


def lint(
    classifier: Any,
    dataset: Any,
    *,
    epsilon: float | ThreatModel = 8 / 255,
    num_examples: int = 128,
    batch_size: int = 64,
    seed: int = 0,
    checks: Sequence[str] | None = None,
    verbose: bool = True,
) -> LintReport:
    """Looks for what makes robustness numbers wrong, and says what to do.

    The classifier is run in inference mode only. If that changes its
    variables all the same, which is one of the failures looked for, they are
    put back in the end.

    Args:
        classifier: A Keras model, or anything called as
            `classifier(x, training=False)`, from images in [0, 1] to logits.
        dataset: (images, labels), or a data set of such in any form that
            `adt_tf.data.as_arrays` takes.
        epsilon: The radius at which robustness will be claimed.
        num_examples: How many examples, chosen by the seed; 128 show a fault
            that touches about one example in fifteen.
        batch_size: Images at once.
        seed: Of the examples' choice and of all noise.
        checks: Names out of `CHECKS`; by default all of them.
        verbose: Whether to show a progress bar.
    """
    names = _checked_names(checks)
    threat_model = threat_models.get(epsilon)
    if threat_model.epsilon == 0 or threat_model.bounds != (0.0, 1.0):
        raise arguments.error(
            "be above 0, in pixels of [0, 1] (8/255 is usual)", epsilon=epsilon
        )
    arguments.integer_at_least(1, num_examples=num_examples)
    arguments.integer_at_least(1, batch_size=batch_size)
    images, labels = data.as_examples(dataset)
    chosen = np.random.default_rng(seed).permutation(len(labels))
    chosen = np.sort(chosen[:num_examples])
    subject = Subject(
        classifier,
        images[chosen],
        labels[chosen],
        threat_model=threat_model,
        batch_size=batch_size,
        seed=seed,
    )
    with subject.restored():
        findings = _run(subject, names, verbose)
    return LintReport(
        findings,
        len(chosen),
        threat_model.epsilon,
        seed,
        threat_models.norm_of(threat_model),
    )


def quick_failures(
    classifier: Any,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> tuple[Finding, ...]:
    """Returns what a few passes show to be wrong with a classifier.

    The checks of `QUICK` run on examples that are spread evenly over those
    given. They draw no random numbers, and leave the classifier's variables as
    they were. A classifier that cannot be called with so many images gives one
    finding, `skipped`.

    Args:
        classifier: As in `lint`.
        images: Images [n, height, width, channels].
        labels: Integers [n].
        bounds: Range of the pixels; other ranges are tried for [0, 1] only.
    """
    names = [n for n in QUICK if bounds == (0.0, 1.0) or n != "input_range"]
    number = min(_QUICK_EXAMPLES, len(labels))
    chosen = np.linspace(0, len(labels) - 1, number).astype(int)
    subject = Subject(
        classifier,
        images[chosen],
        labels[chosen],
        threat_model=threat_models.get(0.0),  # None of the checks attacks.
        batch_size=number,
    )
    try:
        with subject.restored():
            findings = [_finding(subject, name) for name in names]
    except (ValueError, tf.errors.OpError) as error:
        finding = Finding(
            "classifier",
            "skipped",
            f"It could not be checked on {number} images, nor on one: "
            f"{files.first_line(error)}",
            "Let it take batches of any size, and run `adt_tf.lint` on it.",
        )
        return (finding,)
    return tuple(finding for finding in findings if finding.status == "fail")


def _checked_names(checks: Sequence[str] | None) -> list[str]:
    if checks is None:
        return list(CHECKS)
    unknown = [name for name in checks if name not in CHECKS]
    if isinstance(checks, str) or unknown or not checks:
        raise arguments.error(
            f"be a list of names out of {list(CHECKS)}", checks=checks
        )
    return [name for name in CHECKS if name in checks]


def _run(subject: Subject, names: list[str], verbose: bool) -> list[Finding]:
    bar = keras.utils.Progbar(
        len(names), verbose=int(verbose), unit_name="check"
    )
    findings = []
    for name in names:
        findings.append(_finding(subject, name))
        bar.add(1)
    return findings


def _finding(subject: Subject, name: str) -> Finding:
    reason = _obstacle(subject, name)
    if reason:
        return Finding(name, "skipped", *reason)
    status, evidence, *words = CHECKS[name](subject)
    return Finding(name, status, evidence, *(words if status != "pass" else ()))


def _obstacle(subject: Subject, name: str) -> tuple[str, str] | None:
    """Why a check cannot be judged, and what to do, or None."""
    if name != "logits" and not np.isfinite(subject.logits).all():
        return "The logits are not finite.", "See `logits` first."
    if name not in masking.CHECKS:
        return None
    if name not in _WITHOUT_GRADIENT and subject.gradients() is None:
        return (
            "No white-box attack can run without an input gradient.",
            "See `differentiable` first.",
        )
    if model.accuracy(subject)[0] != "pass":
        return (
            "The classifier is at chance, or names the most frequent class: "
            f"{subject.num_correct} of {len(subject.labels)} examples are "
            "right. What falls to an attack on it is noise, which tells "
            "nothing of masking.",
            "See `accuracy` first.",
        )
    if subject.num_correct < _FEWEST_CORRECT:
        return (
            f"Only {subject.num_correct} of {len(subject.labels)} examples are "
            "classified correctly, too few to tell attacks apart.",
            f"See `accuracy` first, or give {_FEWEST_CORRECT} that are.",
        )
    return None
