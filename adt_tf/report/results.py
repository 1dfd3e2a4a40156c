"""The page's sections on what was measured: verdicts, table, pairs, charts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from adt_tf import evaluation
from adt_tf.evaluation.outcome import NATURAL, RIGHT, ROBUST
from adt_tf.evaluation.statistics import PairedTest
from adt_tf.report import charts
from adt_tf.report.collect import Run
from adt_tf.report.wording import (
    SIGNIFICANT,
    counted,
    escape,
    interval,
    number,
    p_value,
    percent,
    verdict,
)

# With more models than this, all are compared with the most robust only.
_ALL_PAIRS = 4


def verdicts(runs: Sequence[Run]) -> str:
    """A card for each model: the number, its parts, one sentence."""
    return "".join(_card(i, run) for i, run in enumerate(runs))


def _card(index: int, run: Run) -> str:
    report = run.report
    natural, robust = report.accuracy[NATURAL], report.robust_accuracy
    shares = (
        ("robust", robust, "withstand every attack"),
        ("fooled", natural - robust, "fall to an attack"),
        ("wrong", 1 - natural, "wrong already when clean"),
    )
    bar = "".join(
        f'<span class="{kind}" style="flex-grow:{share:.4f}"></span>'
        for kind, share, _ in shares
    )
    legend = "".join(
        f'<li class="{kind}">{percent(share)} {text}</li>'
        for kind, share, text in shares
    )
    return (
        f'<article class="card verdict s{index % charts.NUM_STYLES}">'
        f"<h2>{charts.key(index)} {escape(run.name)}</h2>"
        f'<p class="big"><b>{percent(robust)}</b> <span>A<sub>rob</sub>, 95 % '
        f"interval {interval(report.intervals[ROBUST])}</span></p>"
        f'<div class="stack" aria-hidden="true">{bar}</div>'
        f'<ul class="legend">{legend}</ul>'
        f"<p>{escape(verdict(run))}</p>{_lint_line(run)}</article>"
    )


def _lint_line(run: Run) -> str:
    if run.lint is None:
        return '<p class="note">Lint has not been run on it.</p>'
    if not run.lint["ok"]:
        return (
            '<p class="note warning"><strong>Lint fails:</strong> do not trust '
            'this number before <a href="#believe">its findings</a> are '
            "resolved.</p>"
        )
    count = len(run.lint["findings"])
    return (
        f'<p class="note"><a href="#believe">Lint</a>: none of '
        f"{counted(count, 'check')} fails.</p>"
    )


def table(runs: Sequence[Run]) -> str:
    """Attacks down, models across; each column sorts."""
    names = list(runs[0].report.outcomes)
    head = "".join(
        f'<th scope="col" class="s{i % charts.NUM_STYLES}"><button '
        f'type="button">{charts.key(i)} {escape(run.name)}</button></th>'
        for i, run in enumerate(runs)
    )
    body = "".join(
        f'<tr><th scope="row" data-value="{escape(name)}">{escape(name)}</th>'
        f"{_cells(runs, name)}</tr>"
        for name in names
    )
    meaning = "Accuracy under each attack alone"
    if not runs[0].report.independent:
        meaning = "Share still standing after each attack in turn"
    return (
        '<div class="scroll" role="region" tabindex="0" '
        'aria-label="Table of attacks"><table class="sortable attacks">'
        f"<caption>{meaning}, in %, with 95 % intervals. A column's heading "
        "sorts by it.</caption>"
        '<thead><tr><th scope="col"><button type="button">Attack</button>'
        f"</th>{head}</tr></thead><tbody>{body}</tbody>"
        '<tfoot><tr><th scope="row">A<sub>rob</sub>, all together</th>'
        f"{_cells(runs, ROBUST)}</tr></tfoot></table></div>"
    )


def _cells(runs: Sequence[Run], name: str) -> str:
    cells = []
    for i, run in enumerate(runs):
        share = 100 * run.accuracy[name]
        bounds = interval(run.report.intervals[name])
        cells.append(
            f'<td class="s{i % charts.NUM_STYLES}" data-value="{share!r}" '
            f'style="--share:{share:.2f}%"><b>{share:.1f}</b> '
            f"<small>{bounds}</small></td>"
        )
    return "".join(cells)


def comparison(runs: Sequence[Run]) -> str:
    """Each pair of models on the same images, by McNemar's test."""
    if len(runs) < 2:
        return (
            "<p>This page is about one model. Give <code>--workdirs</code> two "
            "or more that were evaluated alike, and they are compared here "
            "image by image.</p>"
        )
    pairs = list(itertools.combinations(range(len(runs)), 2))
    best = max(range(len(runs)), key=lambda i: runs[i].report.robust_accuracy)
    if len(runs) > _ALL_PAIRS:
        pairs = [(best, i) for i in range(len(runs)) if i != best]
    parts = []
    for i, j in pairs:
        try:
            tests = evaluation.compare(runs[i].report, runs[j].report)
        except ValueError as error:
            return f"<p>The models cannot be paired: {escape(error)}</p>"
        parts += [_pair(runs, i, j, n, tests[n]) for n in (ROBUST, NATURAL)]
        if len(tests) > 2:
            parts.append(_every_attack(runs[i].name, runs[j].name, tests))
    note = ""
    if len(pairs) > 1:
        note = (
            f" The p values are not corrected for {counted(len(pairs), 'pair')}"
            f" of models: divide {SIGNIFICANT:g} by that number to be strict."
        )
    return (
        "<p>Both models saw the same images, so only those on which they "
        "differ tell them apart. Were the models equally good, each such image "
        f"would be a coin toss.{note}</p>{''.join(parts)}"
    )


def _every_attack(first: str, second: str, tests: dict[str, PairedTest]) -> str:
    """The same test under each attack, folded away."""
    heads = ("Attack", f"only {first}", f"only {second}", "Difference", "p")
    head = "".join(
        f'<th scope="col"><button type="button">{escape(text)}</button></th>'
        for text in heads
    )
    body = "".join(
        f'<tr><th scope="row" data-value="{escape(name)}">{escape(name)}</th>'
        f'<td data-value="{test.first_only}">{test.first_only}</td>'
        f'<td data-value="{test.second_only}">{test.second_only}</td>'
        f'<td data-value="{test.difference!r}">'
        f"{number(100 * test.difference, '+.1f')}</td>"
        f'<td data-value="{test.p_value!r}">{p_value(test.p_value)}</td></tr>'
        for name, test in tests.items()
    )
    told = f"{escape(first)} and {escape(second)}"
    return (
        f"<details><summary>{told}, attack by attack</summary>"
        f'<div class="scroll" role="region" tabindex="0" aria-label="Paired '
        f'comparison of {told}"><table class="sortable paired"><caption>Images '
        "that only one of the models gets right, the difference of the "
        "accuracies in points, and McNemar's p.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        "</details>"
    )


def _pair(runs, i, j, name, test) -> str:
    first, second = (_right(runs[k], name) for k in (i, j))
    counts = (
        ("both", int(np.sum(first & second)), "both right"),
        (f"only s{i % charts.NUM_STYLES}", test.first_only, runs[i].name),
        (f"only s{j % charts.NUM_STYLES}", test.second_only, runs[j].name),
        ("neither", int(np.sum(~first & ~second)), "neither"),
    )
    texts = [
        f"{counts[0][1]} both right",
        f"{charts.key(i)} {counts[1][1]} only {escape(runs[i].name)}",
        f"{charts.key(j)} {counts[2][1]} only {escape(runs[j].name)}",
        f"{counts[3][1]} neither",
    ]
    bar = "".join(
        f'<span class="{kind}" style="flex-grow:{count}"></span>'
        for kind, count, _ in counts
    )
    symbol = "A<sub>rob</sub>" if name == ROBUST else "Natural accuracy"
    return (
        f'<div class="pair"><h3>{symbol}: {escape(runs[i].name)} and '
        f"{escape(runs[j].name)}</h3>"
        f'<div class="stack" aria-hidden="true">{bar}</div>'
        f'<ul class="legend">{"".join(f"<li>{t}</li>" for t in texts)}</ul>'
        f"<p>{_told(runs[i].name, runs[j].name, test)}</p></div>"
    )


def _told(first: str, second: str, test: PairedTest) -> str:
    if test.difference == 0:
        return "As many images right on either side."
    better = first if test.difference > 0 else second
    chance = "more than chance explains"
    if test.p_value >= SIGNIFICANT:
        chance = "which chance may explain"
    return (
        f"{escape(better)} is ahead by {100 * abs(test.difference):.1f} "
        f"points (p = {p_value(test.p_value)}), {chance}."
    )


def _right(run: Run, name: str) -> np.ndarray:
    if name == ROBUST:
        return run.report.robust
    return run.report.outcomes[name] == RIGHT


def attack_chart(runs: Sequence[Run]) -> str:
    """A track for each attack, a dot and its interval for each model."""
    rows = []
    for name in runs[0].accuracy:
        dots = [
            charts.Dot(run.name, i, run.accuracy[name], bounds)
            for i, run in enumerate(runs)
            for bounds in [run.report.intervals[name]]
        ]
        label = "; ".join(
            f"{d.name} {percent(d.share)} ({interval(d.bounds)})" for d in dots
        )
        shown = "A<sub>rob</sub>" if name == ROBUST else escape(name)
        rows.append(
            f'<div class="dots-row"><span>{shown}</span>'
            f"{charts.dot_row(dots, label=f'{name}: {label}')}</div>"
        )
    ticks = "".join(
        f'<span style="left:{x}%">{x}</span>' for x in (0, 25, 50, 75, 100)
    )
    return (
        f'<div class="card">{charts.legend([run.name for run in runs])}'
        f'<div class="dots">{"".join(rows)}'
        '<div class="dots-row axis" aria-hidden="true"><span></span>'
        f'<div class="ticks">{ticks}</div></div></div></div>'
    )
