"""The report's table as Markdown, for terminals and for report.md.

Names come from files and may hold anything: they are escaped, so that neither
HTML nor Markdown in them takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from adt_tf.report.evaluated_runs import EvaluatedRun

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def table(runs: Sequence[EvaluatedRun]) -> str:
    """A row for each model, a column for each attack, in per cent."""
    names = list(runs[0].accuracy)
    lines = [
        "| method | " + " | ".join(map(escape, names)) + " |",
        "| --- |" + " ---: |" * len(names),
    ]
    for run in runs:
        values = " | ".join(f"{100 * v:.1f}" for v in run.accuracy.values())
        lines.append(f"| {escape(run.name)} | {values} |")
    return "\n".join(lines)


def render(runs: Sequence[EvaluatedRun]) -> str:
    """The table with the two pictures and the commands."""
    result = runs[0].result
    lines = [
        f"# Robustness on {escape(result['dataset'])}",
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
            f"- {escape(run.name)}: "
            f"{code(run.result.get('command', run.folder))}"
            for run in runs
        ),
    ]
    return "\n".join(lines) + "\n"


def escape(value: object) -> str:
    r"""Makes any text harmless in Markdown, in tables too.

    Underscores inside words, as in adt_exp, mean nothing and stay.

    >>> print(escape("<b> *a* adt_exp _b_ [x](y) |"))
    &lt;b&gt; \*a\* adt_exp \_b\_ \[x\](y) \|
    """
    text = " ".join(str(value).split())
    text = re.sub(r"[\\`*\[\]|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    # An ampersand alone, as in C&W, means nothing either.
    return re.sub(r"[<>]|&(?=#?\w+;)", lambda match: _ENTITIES[match[0]], text)


def code(value: object) -> str:
    r"""Sets a text in type of fixed width.

    >>> print(code("adt_exp"), code("<b>`"))
    `adt_exp` <code>&lt;b&gt;\`</code>
    """
    text = " ".join(str(value).split())
    # Between backticks nothing can be escaped.
    if re.search("[<`]", text):
        return f"<code>{escape(text)}</code>"
    return f"`{text}`"
