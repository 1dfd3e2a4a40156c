"""Writes a table of accuracies, with the paper's numbers below each row."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from adt_tf import evaluation
from adt_tf.evaluation.outcome import RIGHT, ROBUST
from adt_tf.reproduction import (
    attack_runs,
    documents,
    paired_differences,
    paper_numbers,
    released,
)
from adt_tf.reproduction.scales import Protocol
from adt_tf.reproduction.study import Study
from adt_tf.reproduction.target import Target

#: Mapping from the paper's columns to the attacks of the protocols.
COLUMNS = {
    "FGSM": "fgsm",
    "PGD-10": "pgd-10",
    "PGD-20": "pgd-20",
    "PGD-100": "pgd-100",
    "MIM": "mim-random-20",
    "C&W": "cw-30",
    "FeaAttack": "fea",
    "EXP": "exp",
    "EXP-AM": "exp-am",
    "IMP-AM": "imp-am",
    **{f"SPSA-{n}": f"spsa-{n}" for n in (256, 512, 1024, 2048)},
}
_MISSING = "-"
_AUTOATTACK = "AutoAttack"


def write(study: Study, name: str, target: Target) -> None:
    """Writes a table of the rows that have been evaluated.

    These may be more rows than `--rows` selects.
    """
    # A table that the paper does not have shows the columns of all protocols.
    theirs: Mapping[str, Mapping[str, Any]] = {
        label: dict.fromkeys(("A_nat", "A_rob")) for label in target.rows
    }
    source = "Beyond the paper"
    if name in paper_numbers.NUMBERS:
        theirs = paper_numbers.rows(name)
        source = paper_numbers.NUMBERS[name]["source"]
    rows = {
        label: run
        for label, run in target.runs.items()
        if all(
            attack_runs.is_evaluated(study, run, seed, target.protocols[0])
            for seed in study.seeds
        )
    }
    columns = list(next(iter(theirs.values())))
    protocol = study.scale.protocols[target.protocols[0]]
    accuracies = {
        label: [
            _accuracies(study, run, seed, target.protocols[0], columns)
            for seed in study.seeds
        ]
        for label, run in rows.items()
    }
    others = _released(study, target, columns)
    # A row without a run shows the released model.
    accuracies |= {
        label: [row]
        for label, row in others.items()
        if label in target.rows and target.rows[label] is None
    }
    body = []
    for label in target.rows:
        ours = [
            cell([seed[column] for seed in accuracies[label]])
            if label in accuracies
            else _MISSING
            for column in columns
        ]
        body.append([label, *ours])
        if name in paper_numbers.NUMBERS:
            numbers = [f"*{theirs[label][column]:.2f}*" for column in columns]
            body.append(["*paper*", *numbers])
    lines = documents.markdown_table(
        ["model", *(_heading(column, protocol) for column in columns)], body
    )
    lines += ["", *_caption(study, protocol), *_notes(target)]
    comparison_lines, comparisons = _compare(study, target, protocol, rows)
    lines += comparison_lines
    lines += _released_lines(study, columns, others, theirs)
    lines += ["", "Measured by:", ""]
    lines += [
        f"- `{attack_runs.command(study, run, seed, target.protocols[0])}`"
        for run in rows.values()
        for seed in study.seeds
    ]
    # The command in the document makes all rows that the table shows.
    is_whole = len(rows) == len(list(filter(None, target.rows.values())))
    runs = None if is_whole else tuple(rows.values())
    documents.write(
        dataclasses.replace(study, rows=runs),
        name,
        f"{source}: {target.title}",
        lines,
        {
            "accuracy": accuracies,
            "paper": {label: theirs[label] for label in target.rows},
            "compared": comparisons,
            "released": others,
        },
    )


def _released(
    study: Study, target: Target, columns: Sequence[str]
) -> dict[str, dict[str, dict[str, float] | None]]:
    """Returns the accuracies of released models, with AutoAttack's."""
    if not target.takes_released:
        return {}
    return {
        row: {
            **_of_columns(
                released.report(study, file, "paper"),
                study.scale.protocols["paper"].attacks,
                columns,
            ),
            _AUTOATTACK: _of_columns(
                released.report(study, file, "autoattack"),
                released.attacks_of(study, "autoattack"),
                [ROBUST],
            )[ROBUST],
        }
        for row, file in released.find(study.released).items()
    }


def _released_lines(
    study: Study,
    columns: Sequence[str],
    others: Mapping[str, Mapping[str, Any]],
    theirs: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Returns the table of the released models and the list of their files."""
    if not others:
        return []
    body = []
    for row, accuracies in others.items():
        cells = [cell([accuracies[c]]) for c in (*columns, _AUTOATTACK)]
        body.append([row, *cells])
        numbers = [f"*{theirs[row][column]:.2f}*" for column in columns]
        body.append(["*paper*", *numbers, _MISSING])
    files = released.find(study.released)
    return [
        "",
        "Models released by others, without further training:",
        "",
        *documents.markdown_table(["model", *columns, _AUTOATTACK], body),
        "",
        *(
            f"- {row}: {file.name}, SHA-256 {released.fingerprint(file)}; "
            f"`{released.command(study, file, 'paper')}`"
            for row, file in files.items()
        ),
    ]


def _accuracies(
    study: Study, run: str, seed: int, protocol: str, columns: Sequence[str]
) -> dict[str, dict[str, float] | None]:
    """Returns the accuracy and interval of each column in %, or None."""
    report = attack_runs.report(study, run, seed, protocol)
    return _of_columns(report, study.scale.protocols[protocol].attacks, columns)


def _of_columns(
    report: evaluation.Report, attacks: Iterable[str], columns: Sequence[str]
) -> dict[str, dict[str, float] | None]:
    # The report lists the attacks in the order of the protocol.
    names = dict(zip(attacks, list(report.outcomes)[1:], strict=True))
    shares = report.accuracy | {ROBUST: report.robust_accuracy}

    def share(column):
        name = {"A_nat": evaluation.NATURAL, "A_rob": ROBUST}.get(
            column, names.get(COLUMNS.get(column))
        )
        if name is None:
            return None
        low, high = report.intervals[name]
        return {
            "value": 100 * shares[name],
            "low": 100 * low,
            "high": 100 * high,
        }

    return {column: share(column) for column in columns}


def cell(shares: Sequence[Mapping[str, float] | None]) -> str:
    """Formats the accuracies of all seeds.

    For one seed, ± is the farther end of the interval; for several seeds, the
    standard deviation.

    Args:
        shares: "value", "low" and "high" in % for each seed; None for an
            attack that was not run.
    """
    measured = [share for share in shares if share is not None]
    if len(measured) < len(shares):
        return _MISSING
    values = [share["value"] for share in measured]
    if len(values) == 1:
        # Near 0 and 100 % the interval is not symmetric.
        low, high = measured[0]["low"], measured[0]["high"]
        reach = max(high - values[0], values[0] - low)
        return f"{values[0]:.1f} ± {reach:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def _heading(column: str, protocol: Protocol) -> str:
    """Returns a column with the attack that replaces it at this scale."""
    attack = COLUMNS.get(column, "")
    replacement = protocol.attacks.get(attack, attack)
    return column if replacement == attack else f"{column} (here {replacement})"


def images_of(protocol: Protocol) -> str:
    """Describes the test images of a protocol.

    Example:

    >>> images_of(Protocol({}, 1000))
    'the first 1000 test images'
    """
    count = protocol.test_examples
    return f"the first {count} test images" if count else "all test images"


def spread_of(study: Study) -> str:
    """Explains the numbers after ±."""
    if len(study.seeds) == 1:
        return "± is the farther end of a 95 % interval over the images"
    return f"± is the standard deviation over the seeds {study.seeds}"


def _caption(study: Study, protocol: Protocol) -> list[str]:
    lines = [
        f"Accuracy in %, on {images_of(protocol)}; {spread_of(study)}; "
        f"{_MISSING}: not run here."
    ]
    weaker = [f"{a} is {b}" for a, b in protocol.attacks.items() if a != b]
    width = study.scale.attack_width_factor
    if width < 1 and "exp-am" in protocol.attacks:
        weaker.append(
            f"the generators of exp-am and imp-am have {width:g} of the width, "
            f"and {study.scale.attack_epochs} epochs of training"
        )
    if weaker:
        lines.append(
            "Weaker than in the paper, which flatters the models: "
            f"{', '.join(weaker)}."
        )
    return lines


def _notes(target: Target) -> list[str]:
    return ["", target.note] if target.note else []


def _compare(
    study: Study, target: Target, protocol: Protocol, rows: dict[str, str]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the paired differences of A_rob, as Markdown and as values."""
    values = []
    for label, other in target.baselines.items():
        if label not in rows or other not in rows:
            continue
        gaps = []
        for seed in study.seeds:
            reports = [
                attack_runs.report(study, rows[k], seed, target.protocols[0])
                for k in (label, other)
            ]
            robust = [report.robust == RIGHT for report in reports]
            gap = paired_differences.difference(*robust)
            p_value = evaluation.compare(*reports)[ROBUST].p_value
            values.append(_paired(label, other, seed, gap, p_value))
            gaps.append(gap.mean)
        if len(gaps) > 1:
            gap = paired_differences.difference(
                np.array(gaps), np.zeros(len(gaps))
            )
            p_value = paired_differences.p_value(gaps)
            values.append(_paired(label, other, "all", gap, p_value))
    if not values:
        return [], []
    text = (
        "The share of images that withstand all of "
        f"{', '.join(protocol.attacks.values())}, compared image by image "
        "(p: exact McNemar test)"
    )
    if len(study.seeds) > 1:
        text += (
            "; all: the mean of the seeds' differences, its interval and p by "
            "Student's t over the seeds"
        )
    header = ["A_rob, paired", "seed", "points", "95 % interval", "p"]
    body = []
    for value in values:
        # The sum with 0.0 turns -0.0 into 0.0.
        mean, low, high = (
            f"{round(100 * v, 1) + 0.0:+.1f}" for v in value["difference"]
        )
        body.append(
            [
                f"{value['row']} - {value['other']}",
                str(value["seed"]),
                mean,
                f"{low} to {high}",
                f"{value['p_value']:.2g}",
            ]
        )
    table = documents.markdown_table(header, body)
    return ["", f"{text}:", "", *table], values


def _paired(
    row: str,
    other: str,
    seed: int | str,
    gap: paired_differences.Difference,
    p_value: float,
) -> dict[str, Any]:
    return {
        "row": row,
        "other": other,
        "seed": seed,
        "difference": list(gap),
        "p_value": p_value,
    }
