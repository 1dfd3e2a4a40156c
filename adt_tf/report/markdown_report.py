"""The report's table as Markdown, for the terminal and for report.md.

Names come from files and may hold any text, so they are escaped.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from adt_tf import files
from adt_tf.evaluation.outcome import ROBUST
from adt_tf.markdown import code, escape
from adt_tf.report.evaluated_runs import EvaluatedRun

_TITLE = "# Robustness on "
_IN_TURN = (
    "The attacks ran in turn: a column is the share that withstands its attack "
    "and all attacks to the left. "
)


def table(runs: Sequence[EvaluatedRun]) -> str:
    """Returns a table in per cent: models are rows, attacks are columns."""
    names = list(runs[0].accuracy)
    lines = [
        "| method | " + " | ".join(map(escape, names)) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for run in runs:
        values = " | ".join(_cell(run, name) for name in names)
        lines.append(f"| {escape(run.name)} | {values} |")
    return "\n".join(lines)


def _cell(run: EvaluatedRun, name: str) -> str:
    """Returns an accuracy with its caveat, if it has one."""
    notes = "; ".join(run.report.marks(name))
    if name == ROBUST:
        notes = run.report.caveat
    value = f"{100 * run.accuracy[name]:.1f}"
    return f"{value} ({escape(notes)})" if notes else value


def render(runs: Sequence[EvaluatedRun]) -> str:
    """Returns the table with the two pictures and the commands."""
    result = runs[0].result
    lines = [
        f"{_TITLE}{escape(result['dataset'])}",
        "",
        f"Accuracy in % on {result['num_examples']} test images, "
        f"{runs[0].threat_model.name} ball of radius {result['epsilon']:g}. "
        + ("" if runs[0].report.independent else _IN_TURN)
        + "A_rob counts an image only if it withstands every attack.",
        "",
        table(runs),
        "",
        "![Accuracy under each attack](accuracy.png)",
        "",
        "Test images, attacked by PGD-20 at epsilon "
        f"{result['epsilon']:g}, with the class that each model predicts:",
        "",
        "![Clean and attacked images](images.png)",
        "",
        "The command that evaluated each run:",
        "",
        *(
            f"- {escape(run.name)}: "
            f"{code(run.result.get('command') or run.evaluated)}"
            for run in runs
        ),
    ]
    return "\n".join(lines) + "\n"


def is_report(path: pathlib.Path) -> bool:
    """Returns whether a file was written by `render`."""
    try:
        return files.read_text(path).startswith(_TITLE)
    except (OSError, ValueError):
        return False
