"""Numbers and results in words, and safe inside HTML.

    escape("<b>"), percent(0.8), epsilon_text(8 / 255), verdict(run)

All that comes from a user's files passes `escape` on its way into the page.
"""

from __future__ import annotations

import html
import math

import numpy as np

from adt_tf import evaluation
from adt_tf.evaluation.outcome import ROBUST, WRONG
from adt_tf.report.collect import Run

#: Below, a difference counts as more than chance.
SIGNIFICANT = 0.05


def escape(value: object) -> str:
    """Makes any text harmless in HTML, in attributes too.

    >>> escape('<script>"&')
    '&lt;script&gt;&quot;&amp;'
    """
    return html.escape(str(value), quote=True)


def percent(share: float) -> str:
    """Writes a share in per cent, its space unbreakable.

    >>> percent(0.804)
    '80.4\\xa0%'
    """
    return f"{100 * share:.1f}\u00a0%"


def interval(bounds: tuple[float, float]) -> str:
    """Writes an interval of shares in per cent."""
    low, high = bounds
    return f"{100 * low:.1f} to {100 * high:.1f}"


def epsilon_text(epsilon: float) -> str:
    """Writes 8/255 as such, where it is.

    >>> epsilon_text(8 / 255), epsilon_text(0.15)
    ('8/255', '0.15')
    """
    steps = 255 * epsilon
    if abs(steps - round(steps)) < 1e-3:
        return f"{round(steps)}/255"
    return f"{epsilon:g}"


def number(value: float, form: str = ".3g") -> str:
    """Writes a number with a true minus sign.

    >>> number(-0.25), number(61.2, "+.1f")
    ('−0.25', '+61.2')
    """
    return f"{value:{form}}".replace("-", "\u2212")


def p_value(p: float) -> str:
    """Writes a p value in HTML, powers of ten where it is small.

    >>> p_value(0.0312), p_value(4.2e-31)
    ('0.031', '4\\xa0×\\xa010<sup>−31</sup>')
    """
    if p >= 0.001:
        return f"{p:.2g}"
    if p == 0:  # below what a float can hold
        return "below 10<sup>−300</sup>"
    exponent = math.floor(math.log10(p))
    mantissa = round(p / 10.0**exponent)
    if mantissa == 10:
        mantissa, exponent = 1, exponent + 1
    return f"{mantissa}\u00a0×\u00a010<sup>−{-exponent}</sup>"


def counted(number: int, noun: str) -> str:
    """Writes a number with its noun.

    >>> counted(1, "attack"), counted(500, "image")
    ('1 attack', '500 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str]) -> str:
    """Joins names with commas and an "and"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def strongest(run: Run) -> tuple[str, str] | None:
    """The attack that breaks most, and what it does; None without attacks."""
    report = run.report
    if not report.attacks:
        return None
    fallen = {
        name: int(np.sum(report.outcomes[name] == WRONG))
        for name in report.attacks
    }
    name = max(fallen, key=fallen.get)
    if report.independent:
        return name, f"which alone leaves {percent(report.accuracy[name])}"
    return name, f"to which {counted(fallen[name], 'image')} fell in its turn"


def verdict(run: Run) -> str:
    """One sentence on a model, as text."""
    report = run.report
    attacks = counted(len(report.attacks), "attack")
    weakest = strongest(run)
    sentence = (
        f"{run.name} classifies {percent(report.accuracy[evaluation.NATURAL])} "
        f"of {counted(report.num_examples, 'clean test image')} correctly; "
        f"{percent(report.robust_accuracy)} "
        f"({interval(report.intervals[ROBUST])}) withstand {attacks} that may "
        f"change every pixel by up to {epsilon_text(run.result['epsilon'])}"
    )
    if weakest is None:
        return f"{sentence}."
    return f"{sentence}. Its weakest point is {weakest[0]}, {weakest[1]}."


def headline(runs: list[Run]) -> str:
    """One sentence, in HTML, on which model is the most robust."""
    if len(runs) < 2:
        return ""
    first, second = sorted(runs, key=lambda r: -r.report.robust_accuracy)[:2]
    shares = (
        f"{percent(first.report.robust_accuracy)} of the images withstand "
        f"every attack, against {percent(second.report.robust_accuracy)} for "
        f"{escape(second.name)}"
    )
    try:
        test = evaluation.compare(first.report, second.report)[ROBUST]
    except ValueError:
        return f"{escape(first.name)} comes first: {shares}."
    if first.lint and not first.lint["ok"]:
        return (
            f"{escape(first.name)} comes first: {shares}. But lint fails on "
            "it: do not trust this before its findings are resolved."
        )
    if test.p_value < SIGNIFICANT:
        return (
            f"<strong>{escape(first.name)}</strong> is the most robust: "
            f"{shares} (McNemar p\u00a0=\u00a0{p_value(test.p_value)})."
        )
    return (
        f"The two best are not told apart: with {escape(first.name)} {shares}, "
        f"which may be chance (McNemar p\u00a0=\u00a0{p_value(test.p_value)})."
    )
