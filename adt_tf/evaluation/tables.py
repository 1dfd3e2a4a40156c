"""Writes a report as text for terminals, and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adt_tf.evaluation.verdicts import ROBUST
from adt_tf.markdown import code, escape

if TYPE_CHECKING:
    from adt_tf.evaluation.outcome import Report


def text(report: Report) -> str:
    """Returns a table, the warnings, and the attacks' descriptions."""
    accuracy = {**report.accuracy, ROBUST: report.robust_accuracy}
    width = max(len(name) for name in accuracy)
    rows = []
    for name, value in accuracy.items():
        low, high = report.intervals[name]
        rows.append(
            f"{name:<{width}}  {100 * value:6.2f} %   "
            f"[{100 * low:5.1f}, {100 * high:5.1f}]{_mark(report, name)}"
        )
    rule = "-" * max(map(len, rows))
    robust = rows.pop()
    if report.caveat:
        robust += f"  ({report.caveat})"
    meaning = "accuracy under each attack alone"
    if not report.independent:
        meaning = "share still standing after each attack in turn"
    warnings = report.warnings or ()
    column = max((len(warning.check) for warning in warnings), default=0)
    return "\n".join(
        [
            rule,
            *rows,
            rule,
            robust,
            rule,
            *(line for warning in warnings for line in warning.lines(column)),
            *([rule] if warnings else []),
            f"{meaning}; 95 % intervals",
            f"{report.num_examples} examples, seed {report.seed}",
            *(f"  {description}" for description in report.attacks.values()),
        ]
    )


def _mark(report: Report, name: str) -> str:
    """Returns a note for the row of an attack that was cut or is blind."""
    return "".join(f"  {note}" for note in report.marks(name))


def markdown(report: Report) -> str:
    """Returns a table with intervals and descriptions of the attacks."""
    accuracy = {**report.accuracy, ROBUST: report.robust_accuracy}
    meaning = "accuracy" if report.independent else "still standing"
    lines = [
        f"| attack | {meaning} (%) | 95 % interval | s |",
        "| --- | ---: | --- | ---: |",
    ]
    for name, value in accuracy.items():
        low, high = report.intervals[name]
        seconds = report.seconds.get(name)
        caveat = report.caveat if name == ROBUST else ""
        lines.append(
            f"| {escape(name)}{_mark(report, name)} | {100 * value:.2f}"
            f"{f' ({escape(caveat)})' if caveat else ''} | "
            f"{100 * low:.1f} to {100 * high:.1f} | "
            f"{'' if seconds is None else f'{seconds:.0f}'} |"
        )
    lines += ["", f"{report.num_examples} examples, seed {report.seed}."]
    lines += [
        f"- {escape(name)}: {code(description)}"
        for name, description in report.attacks.items()
    ]
    if report.warnings:
        lines += [""]
    for warning in report.warnings or ():
        lines.append(
            f"- {warning.status}, {code(warning.check)}: "
            f"{escape(warning.evidence)} {escape(warning.advice or '')}"
        )
    return "\n".join(lines) + "\n"
