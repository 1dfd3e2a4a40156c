"""The page's sections on what is behind the numbers, and how to get them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from adt_tf.report import charts, images, measure, provenance
from adt_tf.report.analyses import Analysis
from adt_tf.report.collect import Run
from adt_tf.report.wording import counted, epsilon_text, escape

_MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skipped": "–"}
# From the worst to the best, as lint prints them.
_ORDER = ("fail", "warn", "skipped", "pass")


def image_grid(
    runs: Sequence[Run], pictures: measure.Pictures, epsilon: float
) -> str:
    """Clean images; for each model the attacked ones, why, and sigma."""
    labels = pictures.labels
    highest = float(pictures.sigma.mean(axis=-1).max())
    rows = [
        _row(
            "clean",
            [images.png(image) for image in pictures.clean],
            [f"class {label}" for label in labels],
            [f"Clean image {i + 1}" for i in range(len(labels))],
        )
    ]
    for i, run in enumerate(runs):
        name = f"{charts.key(i)} {escape(run.name)}"
        changes = pictures.attacked[i] - pictures.clean
        told = [f"{run.name}, image {k + 1}" for k in range(len(labels))]
        rows += [
            _row(
                f"{name}, attacked",
                [images.png(image) for image in pictures.attacked[i]],
                [f"seen as {seen}" for seen in pictures.seen[i]],
                [
                    f"{t}, attacked by PGD, class {c}"
                    for t, c in zip(told, labels, strict=True)
                ],
                pictures.seen[i] == labels,
            ),
            _row(
                f"{name}, perturbation",
                [images.perturbation(change, epsilon) for change in changes],
                [f"±{np.abs(change).max():.2g}" for change in changes],
                [f"{t}: its perturbation by PGD" for t in told],
            ),
            _row(
                f"{name}, σ of EXP",
                [images.heat(sigma, highest) for sigma in pictures.sigma[i]],
                [f"mean {sigma.mean():.2f}" for sigma in pictures.sigma[i]],
                [
                    f"{t}: sigma of each pixel in EXP's distribution"
                    for t in told
                ],
            ),
        ]
    small = " pixels" if max(pictures.clean.shape[1:3]) <= 64 else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" '
        f'aria-label="Images"><table class="images{small}"><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
        '<p class="note">A click or Enter enlarges an image; the arrow keys '
        "go on to its neighbours and Esc closes it. Perturbations: grey is no "
        f"change, black −{escape(epsilon_text(epsilon))}, white "
        f"+{escape(epsilon_text(epsilon))}. σ: dark is 0, bright "
        f"{highest:.2f}; a bright pixel may change at random, a dark one has "
        "to change as it does.</p>"
    )


def _row(name, sources, captions, told, right=None) -> str:
    cells = []
    for i, (source, caption) in enumerate(zip(sources, captions, strict=True)):
        kind = "" if right is None else ("right" if right[i] else "wrong")
        cells.append(
            f'<td class="{kind}">{_zoom(source, f"{told[i]}, {caption}")}'
            f"<span>{escape(caption)}</span></td>"
        )
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _zoom(source: str, alt: str) -> str:
    return (
        f'<button type="button" class="zoom"><img src="{source}" '
        f'alt="{escape(alt)}"></button>'
    )


def analyses(found: Sequence[Analysis] | None, command: str) -> str:
    """The pictures of the analyses, each with how to read it."""
    if found is None:
        return f"<p>Not run. To have them: {code(command)}</p>"
    figures = "".join(
        f'<figure class="card"><h3>{escape(one.title)}</h3>'
        f'<div class="paper">{_zoom(images.data_uri(one.png), one.alt)}</div>'
        f"<figcaption>{escape(one.text)}</figcaption></figure>"
        for one in found
    )
    return f'<div class="figures">{figures}</div>'


def lint(runs: Sequence[Run]) -> str:
    """Lint's verdicts on each model, or the command that gives them."""
    return "".join(_lint(i, run) for i, run in enumerate(runs))


def _lint(index: int, run: Run) -> str:
    head = f"<h3>{charts.key(index)} {escape(run.name)}</h3>"
    if run.lint is None:
        command = f"python scripts/lint.py --workdir={quoted(run.folder)}"
        return f"{head}<p>Lint: not run. {code(command)}</p>"
    findings = sorted(
        run.lint["findings"], key=lambda f: _ORDER.index(f["status"])
    )
    counts = ", ".join(
        f"{sum(f['status'] == status for f in findings)} {status}"
        for status in _ORDER
    )
    summary = (
        f"Lint: {counts}; {counted(run.lint['num_examples'], 'example')}, "
        f"epsilon {epsilon_text(run.lint['epsilon'])}, seed {run.lint['seed']}"
    )
    rows = "".join(
        f'<tr><td class="status {escape(f["status"])}">'
        '<span aria-hidden="true">'
        f"{_MARKS[f['status']]}</span> {escape(f['status'])}</td>"
        f'<th scope="row">{escape(f["check"])}</th><td>{escape(f["evidence"])}'
        f"{_advice(f)}</td></tr>"
        for f in findings
    )
    opened = "" if run.lint["ok"] else " open"
    return (
        f"{head}<details{opened}><summary>{escape(summary)}</summary>"
        f'<div class="scroll" role="region" tabindex="0" aria-label="Lint: '
        f'{escape(run.name)}"><table class="lint"><tbody>{rows}</tbody></table>'
        "</div></details>"
    )


def _advice(finding: dict[str, str]) -> str:
    advice = finding.get("advice")
    return f"<br><em>{escape(advice)}</em>" if advice else ""


def setup(runs: Sequence[Run]) -> str:
    """What was trained, on what, how, when and with which code."""
    rows = {
        "method": [run.result["method"] for run in runs],
        "network": [run.result.get("network") or "unknown" for run in runs],
        "data set": [run.result["dataset"] for run in runs],
        "epsilon in training": [
            run.flag("epsilon") or "unknown" for run in runs
        ],
        "epsilon in the evaluation": [
            f"{run.result['epsilon']:g}" for run in runs
        ],
        "epochs": [run.flag("epochs") or "unknown" for run in runs],
        "seed of training": [run.flag("seed") or "unknown" for run in runs],
        "seed of the attacks": [run.report.seed for run in runs],
        "protocol": [run.result.get("protocol") or "unknown" for run in runs],
        "trained": [provenance.written_at(run.classifier) for run in runs],
        "evaluated": [provenance.written_at(run.evaluated) for run in runs],
        "classifier": [run.classifier for run in runs],
        "its SHA-256": [
            provenance.fingerprint(run.classifier)[:16] for run in runs
        ],
    }
    head = "".join(
        f'<th scope="col">{charts.key(i)} {escape(run.name)}</th>'
        for i, run in enumerate(runs)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        f"{''.join(f'<td>{escape(value)}</td>' for value in values)}</tr>"
        for name, values in rows.items()
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
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>"
        f"</table></div>{flags}<h3>The code that wrote this page</h3>"
        f'<dl class="versions">{packages}</dl><p class="note">Dates are those '
        "of the files. Training may have used other versions.</p>"
    )


def reproduce(runs: Sequence[Run], command: str) -> str:
    """The commands behind the numbers."""
    parts = []
    for i, run in enumerate(runs):
        folder = quoted(run.folder)
        seconds = sum(run.report.seconds.values())
        parts.append(
            f"<h3>{charts.key(i)} {escape(run.name)}</h3>"
            "<p>Train it again, into another folder, with the same flags:</p>"
            + code(
                f"python scripts/train.py --flagfile={folder}/flags.txt "
                f"--workdir={folder}-again"
            )
            + "<p>Natural accuracy, accuracy under each attack and "
            "A<sub>rob</sub> (the evaluation took "
            f"{counted(round(seconds), 'second')}; the verdict on every image "
            f"is in {escape(run.evaluated.name)} and the .csv beside it):</p>"
            + code(run.result["command"])
            + "<p>Lint:</p>"
            + code(f"python scripts/lint.py --workdir={folder}")
        )
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


def attack_list(run: Run) -> str:
    """Each attack with all its settings."""
    items = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(text)}</code></dd>"
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
