"""The report's table as Markdown, for terminals and for report.md."""

from __future__ import annotations

from collections.abc import Sequence

from adt_tf.report.collect import Run


def table(runs: Sequence[Run]) -> str:
    """A row for each model, a column for each attack, in per cent."""
    names = list(runs[0].accuracy)
    lines = [
        "| method | " + " | ".join(map(_cell, names)) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for run in runs:
        values = " | ".join(f"{100 * v:.1f}" for v in run.accuracy.values())
        lines.append(f"| {_cell(run.name)} | {values} |")
    return "\n".join(lines)


def render(runs: Sequence[Run]) -> str:
    """The table with the two pictures and the commands."""
    result = runs[0].result
    lines = [
        f"# Robustness on {result['dataset']}",
        "",
        f"Accuracy in % on {result['num_examples']} test images, l-infinity "
        f"ball of radius {result['epsilon']:g}. A_rob counts an image only if "
        "it withstands every attack.",
        "",
        table(runs),
        "",
        "![Accuracy under each attack](accuracy.png)",
        "",
        "Test images, attacked by PGD-20 at epsilon "
        f"{result['epsilon']:g}, with the class that each model sees:",
        "",
        "![Clean and attacked images](images.png)",
        "",
        "The runs, with the command that measures each again:",
        "",
        *(
            f"- {run.name}: `{run.result.get('command', run.folder)}`"
            for run in runs
        ),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
