"""The page's sections on what is behind the numbers: images, analyses, lint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adt_tf.report import charts, images, measure
from adt_tf.report.analyses import Analysis
from adt_tf.report.collect import Run
from adt_tf.report.origin import code, lint_command
from adt_tf.report.wording import counted, epsilon_text, escape

_MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skipped": "–"}
# From the worst to the best, as lint prints them.
_ORDER = ("fail", "warn", "skipped", "pass")
# The share of pixels whose sigma is told apart; the others are all brightest.
_BRIGHTEST = 0.98


def image_grid(
    runs: Sequence[Run], pictures: measure.Pictures, epsilon: float
) -> str:
    """Clean images; for each model the attacked ones, why, and sigma."""
    labels = pictures.labels
    # One pixel that may do as it likes would leave all others dark.
    highest = float(np.quantile(pictures.sigma.mean(axis=-1), _BRIGHTEST))
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
                [
                    _seen(*classes)
                    for classes in zip(
                        pictures.seen[i],
                        pictures.natural[i],
                        labels,
                        strict=True,
                    )
                ],
                [
                    f"{t}, attacked by PGD, class {c}"
                    for t, c in zip(told, labels, strict=True)
                ],
                pictures.right[i],
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
        f"{highest:.2f} or more, the same for all models; a bright pixel may "
        "change at random, a dark one has to change as it does.</p>"
    )


def _seen(attacked, clean, label) -> str:
    """What a model sees; no attack is to blame where it was wrong before."""
    if clean == label:
        return f"seen as {attacked}"
    return f"seen as {attacked}, wrong already when clean: {clean}"


def _row(name, sources, captions, told, right=None) -> str:
    cells = []
    for i, (source, caption) in enumerate(zip(sources, captions, strict=True)):
        kind = "" if right is None else ("right" if right[i] else "wrong")
        cells.append(
            f'<td class="{kind}">{images.zoom(source, f"{told[i]}, {caption}")}'
            f"<span>{escape(caption)}</span></td>"
        )
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'


def analyses(found: Sequence[Analysis] | None, command: str) -> str:
    """The pictures of the analyses, each with how to read it."""
    if found is None:
        return f"<p>Not run. To have them:</p>{code(command)}"
    figures = "".join(
        f'<figure class="card analysis"><h3>{escape(one.title)}</h3>'
        f"{_picture(one)}<figcaption>{escape(one.text)}</figcaption></figure>"
        for one in found
    )
    return f'<div class="figures">{figures}</div>'


def _picture(one: Analysis) -> str:
    if one.png is None:
        return ""
    picture = images.zoom(images.data_uri(one.png), one.alt)
    return f'<div class="paper">{picture}</div>'


def lint(runs: Sequence[Run]) -> str:
    """Lint's verdicts on each model, or the command that gives them."""
    return "".join(_lint(i, run) for i, run in enumerate(runs))


def _lint(index: int, run: Run) -> str:
    head = f"<h3>{charts.key(index)} {escape(run.name)}</h3>"
    if run.lint is None:
        return f"{head}<p>Lint: not run. To run it:</p>{lint_command(run)}"
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
