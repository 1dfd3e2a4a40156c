"""The page's sections on lint, on the set-up and on the commands."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

from adt_tf.report.evaluated_runs import EvaluatedRun
from adt_tf.report.wording import counted, epsilon_text
from adt_tf.runs import provenance

_UNKNOWN = "unknown"
# Marks of the statuses, in lint's order from the worst to the best.
_MARKS = {"fail": "✗", "warn": "!", "skipped": "–", "pass": "✓"}


def warnings(runs: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns the faults of each model that the evaluation found."""
    return [
        {"name": run.name, "findings": run.report.warnings or ()}
        for run in runs
    ]


def lint_findings(runs: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns lint's findings on each model, or the command that runs lint."""
    views = []
    for run in runs:
        view = {"name": run.name, "command": lint_command(run), "run": False}
        if run.lint is not None:
            view |= {"run": True, **_findings(run.lint)}
        views.append(view)
    return views


def _findings(lint: dict[str, Any]) -> dict[str, Any]:
    order = list(_MARKS)
    findings = sorted(lint["findings"], key=lambda f: order.index(f["status"]))
    counts = ", ".join(
        f"{sum(f['status'] == status for f in findings)} {status}"
        for status in order
    )
    return {
        "ok": lint["ok"],
        "summary": f"Lint: {counts}; "
        f"{counted(lint['num_examples'], 'example')}, "
        f"{lint.get('norm') or 'linf'} epsilon "
        f"{epsilon_text(lint['epsilon'])}, seed {lint['seed']}",
        "findings": [
            {
                "status": f["status"],
                "mark": _MARKS[f["status"]],
                "check": f["check"],
                "evidence": f["evidence"],
                "advice": f.get("advice"),
            }
            for f in findings
        ],
    }


def setup(runs: Sequence[EvaluatedRun]) -> dict[str, Any]:
    """Describes the model, data, settings, times and code of each run.

    Returns:
        The `facts`, with a value for each run; the `flags` of each run; and the
        versions of the `packages` that write the page.
    """
    columns = [_facts(run) for run in runs]
    facts = {
        name: [str(column[name] or _UNKNOWN) for column in columns]
        for name in columns[0]
    }
    return {
        "facts": {k: v for k, v in facts.items() if set(v) != {_UNKNOWN}},
        "flags": [(run.name, run.flags) for run in runs if run.flags],
        "packages": provenance.versions(),
    }


def _facts(run: EvaluatedRun) -> dict[str, object]:
    """Returns the known facts about a run; unknown ones are empty."""
    start = run.provenance[-1] if run.provenance else {}
    packages = ", ".join(
        f"{name} {start[name]}"
        for name in ("Python", "tensorflow", "keras")
        if start.get(name)
    )
    return {
        "method": run.result.get("method"),
        "network": run.result.get("network"),
        "data set": run.result["dataset"],
        "training data": _data(start.get("data")),
        "SHA-256 of the data": start["data"]["sha256"][:16] if start else None,
        "norm, epsilon of training": ", ".join(run.trained_with or ()),
        "norm, epsilon of the evaluation": f"{run.result.get('norm', 'linf')}, "
        f"{run.result['epsilon']:g}",
        "epochs": run.flag("epochs") or len(run.metrics.get("epoch", ())),
        "seed of training": run.flag("seed"),
        "seed of the attacks": str(run.report.seed),
        "protocol": run.result.get("protocol"),
        "training started": start.get("started"),
        "trained with commit": _short(start.get("git commit")),
        "trained with": packages,
        # A classifier that no run has written may be a copy.
        "training ended": run.flags and _written_at(run.classifier),
        "evaluated": provenance.written_at(run.evaluated),
        "evaluated with commit": _short(run.result.get("commit")),
        "classifier": run.classifier or run.result.get("preset"),
        "SHA-256 of the classifier": run.fingerprint,
    }


def _written_at(path: pathlib.Path | None) -> str | None:
    return provenance.written_at(path) if path else None


def _short(commit: str | None) -> str:
    """Shortens a commit's hash; keeps a suffix such as "-dirty"."""
    name, dash, suffix = (commit or "").partition("-")
    return name[:12] + dash + suffix


def _data(summary: dict[str, Any] | None) -> str:
    if not summary:
        return ""
    shape = " × ".join(map(str, summary["shape"]))
    return (
        f"{counted(summary['examples'], 'image')} of {shape}, "
        f"{summary['classes']} classes"
    )


def commands(runs: Sequence[EvaluatedRun]) -> dict[str, Any]:
    """Returns the commands that give the numbers of the page.

    Returns:
        The commands that train, evaluate and lint each of the `runs`, None if
        there is no such command; and the command to `compare` the first two.
    """
    compare = None
    if len(runs) > 1:
        first, second = (_quoted(run.evaluated) for run in runs[:2])
        compare = f"adt-evaluate --compare {first} {second}"
    return {"runs": [_commands(run) for run in runs], "compare": compare}


def _commands(run: EvaluatedRun) -> dict[str, Any]:
    train = None
    if run.flags and run.workdir is not None:
        folder = _quoted(run.workdir.path)
        train = (
            f"adt-train --flagfile={folder}/flags.txt --workdir={folder}-again"
        )
    return {
        "name": run.name,
        "train": train,
        "seconds": round(sum(run.report.seconds.values())),
        "verdicts": run.evaluated.name,
        "evaluate": run.result.get("command"),
        "lint": lint_command(run),
    }


def lint_command(run: EvaluatedRun) -> str:
    """Returns the command or the call that runs lint on a model.

    The data of an evaluation from Python has a name, which may be no data set
    that a command can load.
    """
    if run.flags and run.workdir is not None:
        return f"adt-lint --workdir={_quoted(run.workdir.path)}"
    result, norm = run.result, run.result.get("norm", "linf")
    if result.get("command") and (run.classifier or result.get("preset")):
        flags = {
            "preset": result.get("preset"),
            "model": run.classifier,
            "architecture": result.get("architecture"),
            "dataset": result["dataset"],
            "data_dir": result.get("data_dir"),
            "image_size": ",".join(map(str, result.get("image_size") or ())),
            "norm": norm if norm != "linf" else None,
            "epsilon": repr(result["epsilon"]),
        }
        words = ["adt-lint"]
        words += [f"--{k}={_quoted(v)}" for k, v in flags.items() if v]
        words += ["--probabilities"] * bool(result.get("probabilities"))
        return " ".join(words)
    epsilon = f"{result['epsilon']:g}"
    if norm != "linf":
        epsilon = f"adt_tf.threat_models.{run.threat_model!r}"
    return f"adt_tf.lint(classifier, test, epsilon={epsilon})"


def attack_settings(run: EvaluatedRun) -> dict[str, str]:
    """Returns all settings of each attack."""
    return {name: text.strip("<>") for name, text in run.report.attacks.items()}


def _quoted(path: object) -> str:
    """Quotes a path for the shell."""
    return shlex.quote(str(path))
