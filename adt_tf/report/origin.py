"""The page's sections on where the models and the numbers come from."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from adt_tf.report import charts
from adt_tf.report.collect import Run
from adt_tf.report.wording import counted, escape
from adt_tf.runs import provenance, workdir

_UNKNOWN = "unknown"


def setup(runs: Sequence[Run]) -> str:
    """What was trained, on what, how, when and with which code."""
    facts = [_facts(run) for run in runs]
    rows = {
        name: [fact[name] or _UNKNOWN for fact in facts] for name in facts[0]
    }
    head = "".join(
        f'<th scope="col">{charts.key(i)} {escape(run.name)}</th>'
        for i, run in enumerate(runs)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f"{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for name, values in rows.items()
        if set(values) != {_UNKNOWN}
    )
    flags = "".join(
        f"<details><summary>All flags of {escape(run.name)}</summary>"
        f"{code(*run.flags)}</details>"
        for run in runs
        if run.flags
    )
    packages = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(version)}</dd>"
        for name, version in provenance.versions().items()
    )
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Runs">'
        f'<table class="setup"><thead><tr><td></td>{head}</tr></thead><tbody>'
        f"{body}</tbody></table></div>{flags}"
        "<h3>The code that wrote this page</h3>"
        f'<dl class="versions">{packages}</dl>'
    )


def _facts(run: Run) -> dict[str, object]:
    """What is known about a run; empty where it is not."""
    start = run.provenance[-1] if run.provenance else {}
    code_of = ", ".join(
        f"{name} {start[name]}"
        for name in ("Python", "tensorflow", "keras")
        if name in start
    )
    return {
        "method": run.result.get("method"),
        "network": run.result.get("network"),
        "data set": run.result["dataset"],
        "training data": _data(start.get("data")),
        "their SHA-256": start.get("data", {}).get("sha256", "")[:16],
        "epsilon in training": run.flag("epsilon"),
        "epsilon in the evaluation": f"{run.result['epsilon']:g}",
        "epochs": run.flag("epochs") or len(run.metrics.get("epoch", ())),
        "seed of training": run.flag("seed"),
        "seed of the attacks": str(run.report.seed),
        "protocol": run.result.get("protocol"),
        "training started": start.get("started"),
        "trained with commit": _short(start.get("git commit")),
        "trained with": code_of,
        "training ended": provenance.written_at(run.classifier),
        "evaluated": provenance.written_at(run.evaluated),
        "evaluated with commit": _short(run.result.get("commit")),
        "classifier": run.classifier,
        "its SHA-256": workdir.fingerprint(run.folder) or "unknown",
    }


def _short(commit: str | None) -> str:
    """Enough of a commit to find it, and whether the code was changed."""
    name, dash, changed = (commit or "").partition("-")
    return name[:12] + dash + changed


def _data(known: dict | None) -> str:
    if not known:
        return ""
    shape = " × ".join(map(str, known["shape"]))
    return (
        f"{counted(known['examples'], 'image')} of {shape}, "
        f"{known['classes']} classes"
    )


def reproduce(runs: Sequence[Run], command: str) -> str:
    """The commands behind the numbers."""
    parts = []
    for i, run in enumerate(runs):
        parts.append(f"<h3>{charts.key(i)} {escape(run.name)}</h3>")
        if run.flags:
            folder = quoted(run.folder)
            parts += [
                "<p>Train it again, into another folder, with the same "
                "flags:</p>",
                code(
                    f"python scripts/train.py --flagfile={folder}/flags.txt "
                    f"--workdir={folder}-again"
                ),
            ]
        seconds = counted(round(sum(run.report.seconds.values())), "second")
        evaluated = run.result.get("command")
        parts += [
            "<p>Natural accuracy, accuracy under each attack and "
            f"A<sub>rob</sub> (the evaluation took {seconds}; the verdict on "
            f"every image is in {escape(run.evaluated.name)} and the .csv "
            "beside it):</p>",
            code(evaluated)
            if evaluated
            else "<p>The evaluation was run from Python; its attacks and its "
            "seed are given below.</p>",
            f"<p>Lint:</p>{lint_command(run)}",
        ]
    if len(runs) > 1:
        first, second = (quoted(run.evaluated) for run in runs[:2])
        parts.append(
            "<h3>The paired comparison</h3>"
            + code(f"python scripts/evaluate.py --compare {first} {second}")
        )
    parts.append(
        "<h3>This page</h3><p>With the images, the accuracy against epsilon "
        "and the analyses, which it measures itself with the seed of the "
        "attacks:</p>" + code(command)
    )
    return "".join(parts)


def lint_command(run: Run) -> str:
    """What runs lint on a model, as a block of code."""
    if run.flags:
        return code(f"python scripts/lint.py --workdir={quoted(run.folder)}")
    return code(
        f"adt_tf.lint(classifier, test, epsilon={run.result['epsilon']:g})"
    )


def attack_list(run: Run) -> str:
    """Each attack with all its settings."""
    items = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(text.strip('<>'))}</code>"
        "</dd>"
        for name, text in run.report.attacks.items()
    )
    return f'<dl class="attack-list">{items}</dl>' if items else ""


def code(*lines: str) -> str:
    """A block of commands."""
    text = "\n".join(escape(line) for line in lines)
    return f'<pre tabindex="0"><code>{text}</code></pre>'


def quoted(path: object) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))
