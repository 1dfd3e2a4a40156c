"""Compares the evaluations of two classifiers, example by example."""

from __future__ import annotations

import json

from adt_tf.evaluation.outcome import Report
from adt_tf.evaluation.statistics import PairedTest, mcnemar
from adt_tf.evaluation.verdicts import NATURAL, RIGHT, ROBUST


def compare(first: Report, second: Report) -> dict[str, PairedTest]:
    """Tests two classifiers against each other, example by example.

    Args:
        first: Report of one classifier.
        second: Report of another one, under the same attacks on the same
            examples.

    Returns:
        The McNemar tests of the natural verdicts, of each attack's verdicts if
        both evaluations are independent, and of A_rob.
    """
    # Evaluations of earlier versions have no digest.
    have_digests = None not in (first.digest, second.digest)
    if have_digests and first.digest != second.digest:
        raise ValueError(
            "Two evaluations can be compared only if the examples are the "
            "same. These two have different images or labels; evaluate both "
            "on the same data (--dataset, --test_examples)."
        )
    settings = [
        (
            report.attacks,
            report.independent,
            report.num_examples,
        )
        for report in (first, second)
    ]
    if settings[0] != settings[1] or first.seed != second.seed:
        remedy = "the same protocol"
        if settings[0] == settings[1]:
            remedy = f"the same seed, such as --seed={first.seed}"
        raise ValueError(
            "Two evaluations can be compared only if the examples, the seed "
            "and the attacks are the same. Received: "
            f"{first.num_examples} and {second.num_examples} examples, seeds "
            f"{first.seed} and {second.seed}, "
            f"{json.dumps(first.attacks)} and {json.dumps(second.attacks)}; "
            f"evaluate both with {remedy}."
        )
    names = list(first.outcomes) if first.independent else [NATURAL]
    tests = {
        name: mcnemar(
            first.outcomes[name] == RIGHT, second.outcomes[name] == RIGHT
        )
        for name in names
    }
    return {**tests, ROBUST: mcnemar(first.robust, second.robust)}
