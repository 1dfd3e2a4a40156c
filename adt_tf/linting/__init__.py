"""Checks a classifier for faults that make its robustness numbers wrong.

    report = lint(classifier, test, epsilon=8 / 255)
    print(report)               # failures first, each with advice
    report.ok                   # False if any check failed

`evaluate` runs the cheap checks on every classifier that it attacks:

    quick_failures(classifier, images, labels)

Each check is a function from a `Subject` to (status, evidence, advice):
`rules.model` checks inputs and outputs, `rules.inference` checks that a call
depends on the image alone, `rules.gradient` checks the input gradient, and
`rules.masking` compares attacks of different strength. `CHECKS` lists all of
them by name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import data, files, threat_models
from adt_tf.attacks import Square
from adt_tf.checks import arguments
from adt_tf.data import DiskImages
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

#: Checks that cost a few passes each. `evaluate` runs them too.
QUICK = (
    "input_range",
    "logits",
    "randomness",
    "batch_independence",
    "differentiable",
    "finite_gradients",
    "vanishing_gradients",
)
#: Checks whose failure makes attacks that use the gradient useless, and no
#: others.
OF_GRADIENT = tuple(gradient.CHECKS)

# Numbers of examples of the quick checks. `input_range` compares accuracies,
# which needs more examples, but takes no gradients.
_QUICK_EXAMPLES = 32
_RANGE_EXAMPLES = 256

# Masking checks whose attacks need no gradient.
_WITHOUT_GRADIENT = ("random_noise", "black_box")
# With fewer correct examples, no difference between attacks is significant.
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
    """Runs the checks on a classifier, and returns findings with advice.

    The classifier is called in inference mode only. If a call changes its
    variables, which is one of the failures that lint reports, their values are
    restored at the end.

    Args:
        classifier: A Keras model, or any callable
            `classifier(x, training=False)` from images in [0, 1] to logits.
        dataset: (images, labels), or a data set in any form that
            `adt_tf.data.as_arrays` takes.
        epsilon: Radius at which robustness will be claimed.
        num_examples: Number of examples, chosen by the seed. 128 examples
            reveal a fault that affects about one example in fifteen.
        batch_size: Number of images in a batch.
        seed: Seed of the choice of examples and of all noise.
        checks: Names from `CHECKS`; all checks by default.
        verbose: Whether to print the current check, and the time at the end.

    Returns:
        The findings, one for each check.
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
    order = np.random.default_rng(seed).permutation(len(labels))
    indices = np.sort(order[:num_examples])
    subject = Subject(
        classifier,
        images[indices],
        labels[indices],
        threat_model=threat_model,
        batch_size=batch_size,
        seed=seed,
    )
    with subject.restored():
        findings = _run(subject, names, verbose)
    return LintReport(
        findings,
        len(indices),
        threat_model.epsilon,
        seed,
        threat_models.norm_of(threat_model),
    )


def quick_failures(
    classifier: Any,
    images: np.ndarray | DiskImages,
    labels: np.ndarray,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> tuple[Finding, ...]:
    """Runs the cheap checks, and returns the findings that failed.

    The checks of `QUICK` run on a few examples, evenly spaced in the data set.
    They draw no random numbers, and the classifier's variables keep their
    values. If the classifier cannot be called with that many images, the
    result is a single finding with the status "skipped".

    Args:
        classifier: Classifier, as in `lint`.
        images: Images [n, height, width, channels].
        labels: Integer labels [n].
        bounds: Range of the pixels. `input_range` runs for [0, 1] only.
    """
    names = [n for n in QUICK if bounds == (0.0, 1.0) or n != "input_range"]
    few, many = (
        _spread_subject(classifier, images, labels, number)
        for number in (_QUICK_EXAMPLES, _RANGE_EXAMPLES)
    )
    try:
        with few.restored():
            findings = [
                _finding(many if name == "input_range" else few, name)
                for name in names
            ]
    except (ValueError, tf.errors.OpError) as error:
        finding = Finding(
            "classifier",
            "skipped",
            f"The classifier could not be checked: a call with "
            f"{few.batch_size} images, or with one, failed: "
            f"{files.first_line(error)}",
            "Make the classifier accept batches of any size, and run "
            "`adt_tf.lint` on it.",
        )
        return (finding,)
    return tuple(finding for finding in findings if finding.status == "fail")


def _spread_subject(
    classifier: Any,
    images: np.ndarray | DiskImages,
    labels: np.ndarray,
    number: int,
) -> Subject:
    """Returns a subject with evenly spaced examples, for no attack."""
    number = min(number, len(labels))
    indices = np.linspace(0, len(labels) - 1, number).astype(int)
    return Subject(
        classifier,
        images[indices],
        labels[indices],
        threat_model=threat_models.get(0.0),
        batch_size=_QUICK_EXAMPLES,
    )


def _checked_names(checks: Sequence[str] | None) -> list[str]:
    if checks is None:
        return list(CHECKS)
    unknown = [name for name in checks if name not in CHECKS]
    if isinstance(checks, str) or unknown or not checks:
        raise arguments.error(
            f"be a list of names from {list(CHECKS)}", checks=checks
        )
    return [name for name in CHECKS if name in checks]


def _run(subject: Subject, names: list[str], verbose: bool) -> list[Finding]:
    findings, seconds = [], {}
    for number, name in enumerate(names, 1):
        if verbose:
            text = f"\rCheck {number} of {len(names)}: {name:<20}"
            print(text, end="", flush=True)
        start = time.monotonic()
        findings.append(_finding(subject, name))
        seconds[name] = time.monotonic() - start
    if verbose:
        longest = sorted(names, key=seconds.__getitem__, reverse=True)[:3]
        listed = ", ".join(f"{name} {seconds[name]:.1f} s" for name in longest)
        total = sum(seconds.values())
        print(f"\r{len(names)} checks in {total:.1f} s; longest: {listed}")
    return findings


def _finding(subject: Subject, name: str) -> Finding:
    obstacle = _obstacle(subject, name)
    if obstacle:
        return Finding(name, "skipped", *obstacle)
    status, evidence, *texts = CHECKS[name](subject)
    return Finding(name, status, evidence, *(texts if status != "pass" else ()))


def _obstacle(subject: Subject, name: str) -> tuple[str, str] | None:
    """Returns why a check cannot run, with advice; None if it can run."""
    if name != "logits" and not np.isfinite(subject.logits).all():
        return "The logits are not finite.", "See `logits` first."
    if name not in masking.CHECKS:
        return None
    if name == "black_box" and not all(
        subject.threat_model.has(hook) for hook in Square.hooks
    ):
        return (
            f"The {subject.threat_model.name} norm has no methods "
            f"{', '.join(Square.hooks)}, which the query attack needs.",
            "Define them, or evaluate by an attack without gradients that "
            "works in any norm, such as `attacks.spsa`, as well.",
        )
    if name not in _WITHOUT_GRADIENT and subject.gradients() is None:
        return (
            "No white-box attack can run without an input gradient.",
            "See `differentiable` first.",
        )
    if model.accuracy(subject)[0] != "pass":
        return (
            "The accuracy is at chance, or no better than always naming the "
            f"most frequent class: {subject.num_correct} of "
            f"{len(subject.labels)} examples are correct. The outcome of "
            "attacks on this classifier is noise and says nothing about "
            "masking.",
            "See `accuracy` first.",
        )
    if subject.num_correct < _FEWEST_CORRECT:
        return (
            f"Only {subject.num_correct} of {len(subject.labels)} examples are "
            "classified correctly, too few to compare attacks.",
            "See `accuracy` first, or pass more examples: "
            f"{_FEWEST_CORRECT} correct ones are needed.",
        )
    return None
