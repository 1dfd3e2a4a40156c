"""Formats numbers, and writes results as sentences of plain text.

percent(0.8), epsilon_text(8 / 255), verdict(run)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import evaluation
from adt_tf.evaluation.outcome import NATURAL, ROBUST, WRONG
from adt_tf.report.evaluated_runs import EvaluatedRun

#: A difference with a p value below this is significant.
SIGNIFICANT = 0.05


def percent(share: float) -> str:
    """Writes a share in per cent, with a no-break space.

    >>> percent(0.804)
    '80.4\\xa0%'
    """
    return f"{100 * share:.1f}\u00a0%"


def interval(bounds: tuple[float, float]) -> str:
    """Writes an interval of shares in per cent.

    >>> interval((0.77, 0.8404))
    '77.0 to 84.0'
    """
    low, high = bounds
    return f"{100 * low:.1f} to {100 * high:.1f}"


def epsilon_text(epsilon: float) -> str:
    """Writes multiples of 1/255 as a fraction, such as 8/255.

    >>> epsilon_text(8 / 255), epsilon_text(0.15), epsilon_text(1.0)
    ('8/255', '0.15', '1')
    """
    steps = 255 * epsilon
    if abs(steps - round(steps)) < 1e-3 and len(f"{epsilon:g}") > 5:
        return f"{round(steps)}/255"
    return f"{epsilon:g}"


def number(value: float, form: str = ".3g") -> str:
    """Writes a number with a typographic minus sign.

    >>> number(-0.25), number(61.2, "+.1f")
    ('−0.25', '+61.2')
    """
    return f"{value:{form}}".replace("-", "\u2212")


def p_value_parts(p: float) -> tuple[str, int | None]:
    """Splits a p value into a text and, if it is small, a power of 1/10.

    >>> p_value_parts(0.0312), p_value_parts(4.2e-31)
    (('0.031', None), ('4\\xa0×\\xa010', 31))
    """
    if p >= 0.001:
        return f"{p:.2g}", None
    if p == 0:  # below what a float can hold
        return "below 10", 300
    exponent = math.floor(math.log10(p))
    mantissa = round(p / 10.0**exponent)
    if mantissa == 10:
        mantissa, exponent = 1, exponent + 1
    return f"{mantissa}\u00a0×\u00a010", -exponent


def counted(number: int, noun: str) -> str:
    """Writes a number with its noun.

    >>> counted(1, "attack"), counted(500, "image")
    ('1 attack', '500 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Joins names with commas and an "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def attacks_effect(run: EvaluatedRun) -> str | None:
    """Says what the attacks did, as a sentence; None for fewer than two.

    Of attacks in turn none is the strongest: the first meets all images, the
    others only those that it has left.
    """
    report = run.report
    if len(report.attacks) < 2:
        return None
    if report.independent:
        name = min(report.attacks, key=report.accuracy.__getitem__)
        accuracy = percent(report.accuracy[name])
        return (
            f"The strongest attack is {name}, which alone reduces the accuracy "
            f"to {accuracy}."
        )
    first, *others = (
        int(np.sum(report.outcomes[name] == WRONG)) for name in report.attacks
    )
    name = next(iter(report.attacks))
    return (
        f"The attacks ran in turn: {name} came first and fools "
        f"{counted(first, 'image')}; the others ran on the images left "
        f"standing and fool {sum(others)} more."
    )


def threat(run: EvaluatedRun) -> str:
    """Describes what the attacks may do, as the end of "An attack may ..."."""
    return run.threat_model.describe(epsilon_text(run.result["epsilon"]))


def verdict(run: EvaluatedRun) -> str:
    """Summarises the evaluation of a model in one or two sentences."""
    report = run.report
    attacks = counted(len(report.attacks), "attack")
    effect = attacks_effect(run)
    sentence = (
        f"{run.name} classifies {percent(report.accuracy[NATURAL])} "
        f"of {counted(report.num_examples, 'clean test image')} correctly; "
        f"{percent(report.robust_accuracy)} "
        f"({interval(report.intervals[ROBUST])}) withstand {attacks} that may "
        f"{threat(run)}"
    )
    norm, trained_with = run.result.get("norm", "linf"), run.trained_with
    if trained_with and trained_with[0] != norm:
        sentence += (
            f"; it was trained in {trained_with[0]}, with an epsilon of "
            f"{epsilon_text(float(trained_with[1]))}"
        )
    return f"{sentence}. {effect}" if effect else f"{sentence}."


def headline(runs: Sequence[EvaluatedRun]) -> dict[str, Any] | None:
    """Compares the two most robust models; None for a single model.

    Returns:
        The names and robust accuracies of the `first` and the `second` model,
        the `p_value` of McNemar's test, and the `claim` that they allow:
        "untrusted" if the evaluation of a model has a caveat, "doubtful" if
        lint fails on a model, "unpaired" if the images differ, "significant",
        or "chance". `doubted` lists the names and robust accuracies of the
        models that forbid a ranking, with their caveats.
    """
    if len(runs) < 2:
        return None
    first, second = sorted(runs, key=lambda r: -r.report.robust_accuracy)[:2]
    view = {
        "first": first.name,
        "first_share": first.report.robust_accuracy,
        "second": second.name,
        "second_share": second.report.robust_accuracy,
    }
    for claim, doubted in {
        "untrusted": [run for run in runs if run.report.caveat],
        "doubtful": [run for run in runs if run.lint and not run.lint["ok"]],
    }.items():
        if doubted:
            return {
                **view,
                "claim": claim,
                "doubted": [
                    (run.name, run.report.robust_accuracy, run.report.caveat)
                    for run in doubted
                ],
            }
    try:
        test = evaluation.compare(first.report, second.report)[ROBUST]
    except ValueError:
        return {**view, "claim": "unpaired"}
    claim = "significant" if test.p_value < SIGNIFICANT else "chance"
    return {**view, "claim": claim, "p_value": test.p_value}
