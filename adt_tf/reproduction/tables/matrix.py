"""Generalisation across attacks: trained on one attack, attacked with others.

The models are trained at equal cost. The cost of a training is the number of
multiplications of its convolutions. F is this number for a forward pass of the
classifier, G and Q for the generator and q. A backward pass to the input costs
F, a backward pass to input and weights 2 F. A training image then costs

    AT-PGD        7 gradients of the image (2 F each), outer step 3 F     17 F
    FGSM-RS       1 gradient, outer step                                   5 F
    ADT-EXP-AM    2 gradients for the generator's input, outer step,
                  forward and backward pass of the generator        7 F + 3 G
    ADT-IMP-AM    the same, and q                             7 F + 3 G + 3 Q

Each model trains for the number of epochs (`Scale.schedules`) at which its cost
equals AT-PGD's.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Rectangle

from adt_tf import evaluation
from adt_tf.analysis import plots
from adt_tf.evaluation.outcome import RIGHT
from adt_tf.reproduction import attack_runs, costs, documents
from adt_tf.reproduction.paired_differences import Difference, difference
from adt_tf.reproduction.study import Study
from adt_tf.reproduction.tables import accuracies
from adt_tf.reproduction.target import Target

_OWN, _SPSA, _AUTOATTACK = PROTOCOLS = ("generalisation", "spsa", "autoattack")
#: Mapping from a column to its protocol and the attack there; None for clean
#: images or, with AutoAttack, for all attacks together.
_COLUMNS = {
    "natural": (_OWN, None),
    "FGSM": (_OWN, "fgsm"),
    "PGD-20": (_OWN, "pgd-20"),
    "EXP-AM": (_OWN, "exp-am"),
    "IMP-AM": (_OWN, "imp-am"),
    "C&W-30": (_OWN, "cw-30"),
    "SPSA": (_SPSA, "spsa-256"),
    "Square": (_OWN, "square"),
    "AutoAttack": (_AUTOATTACK, None),
}
#: Mapping from a row to the column of the attack that it was trained on.
_TRAINED_ON = {
    "FGSM-RS": "FGSM",
    "PGD": "PGD-20",
    "EXP-AM": "EXP-AM",
    "IMP-AM": "IMP-AM",
}
_BASELINE = "PGD"

#: Verdicts on the images, by the label of the row, the seed and the column.
_Verdicts = Mapping[str, Mapping[int, Mapping[str, np.ndarray]]]


def write(study: Study, name: str, target: Target) -> None:
    """Writes the matrix of the rows that have been evaluated."""
    rows = {
        label: run
        for label, run in target.runs.items()
        if all(
            attack_runs.is_evaluated(study, run, seed, protocol)
            for seed in study.seeds
            for protocol in PROTOCOLS
        )
    }
    verdicts = {
        label: {seed: _verdicts(study, run, seed) for seed in study.seeds}
        for label, run in rows.items()
    }
    picture = study.file(f"{name}.png")
    if rows:
        _draw_matrix(verdicts, picture)
    gaps = _gaps(verdicts)
    lines = [
        f"![{target.title}]({picture.name})",
        "",
        *_matrix(verdicts),
        "",
        *_caption(study),
        "",
        *_costs(study, rows),
        "",
        target.note,
        *_differences(study, gaps),
        "",
        "Measured by:",
        "",
        *(
            f"- `{attack_runs.command(study, run, seed, protocol)}`"
            for run in rows.values()
            for seed in study.seeds
            for protocol in PROTOCOLS
        ),
    ]
    is_whole = len(rows) == len(target.rows)
    documents.write(
        dataclasses.replace(
            study, rows=None if is_whole else tuple(rows.values())
        ),
        name,
        f"Beyond the paper: {target.title}",
        lines,
        {
            "accuracy": {
                label: [_shares(columns) for columns in seeds.values()]
                for label, seeds in verdicts.items()
            },
            "minus_pgd": {
                label: {k: list(gap) for k, gap in columns.items()}
                for label, columns in gaps.items()
            },
        },
    )


def _verdicts(study: Study, run: str, seed: int) -> dict[str, np.ndarray]:
    """Returns for each column which images are classified correctly."""
    reports = {
        protocol: attack_runs.report(study, run, seed, protocol)
        for protocol in PROTOCOLS
    }
    columns = {}
    for column, (protocol, attack) in _COLUMNS.items():
        report = reports[protocol]
        # The report lists the attacks in the order of the protocol.
        names = dict(
            zip(
                study.scale.protocols[protocol].attacks,
                list(report.outcomes)[1:],
                strict=True,
            )
        )
        if protocol == _AUTOATTACK:
            columns[column] = report.robust == RIGHT
        else:
            outcome = names[attack] if attack else evaluation.NATURAL
            columns[column] = report.outcomes[outcome] == RIGHT
    return columns


def _shares(columns: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Returns each column's accuracy and its interval in %."""
    shares = {}
    for column, right in columns.items():
        low, high = evaluation.wilson_interval(int(right.sum()), right.size)
        shares[column] = {
            "value": 100 * float(right.mean()),
            "low": 100 * low,
            "high": 100 * high,
        }
    return shares


def _matrix(verdicts: _Verdicts) -> list[str]:
    body = []
    for label, seeds in verdicts.items():
        shares = [_shares(columns) for columns in seeds.values()]
        cells = [
            accuracies.cell([s[column] for s in shares]) for column in _COLUMNS
        ]
        own = list(_COLUMNS).index(_TRAINED_ON[label])
        cells[own] = f"**{cells[own]}**"
        body.append([label, *cells])
    return documents.markdown_table(["trained on", *_COLUMNS], body)


def _caption(study: Study) -> list[str]:
    scale = study.scale
    spsa = scale.protocols[_SPSA]
    (attack,) = (
        spsa.attacks[name]
        for _, name in _COLUMNS.values()
        if name is not None and name in spsa.attacks
    )
    return [
        "Accuracy in % (rows: trained on; columns: attacked with); "
        f"{accuracies.spread_of(study)}. Bold: the attack that the model was "
        "trained on; FGSM stands for FGSM-RS's single step, PGD-20 for PGD-7. "
        f"SPSA is {attack} on {accuracies.images_of(spsa)}, the other columns "
        "are on "
        f"{accuracies.images_of(scale.protocols[_OWN])}. The generators that "
        f"attack have {scale.attack_width_factor:g} of the paper's width and "
        f"{scale.attack_epochs} epochs of training against the fixed model.",
    ]


def _costs(study: Study, rows: Mapping[str, str]) -> list[str]:
    """Returns the table of epochs and of training times, where known."""
    book = costs.Book(study.output)
    body = []
    for label, run in rows.items():
        config = study.config(run, study.seeds[0])
        steps = config.epochs * costs.steps_per_epoch(config)
        cost = book.step(config)
        seconds = costs.duration(steps * cost.seconds) if cost else "unknown"
        body.append([label, str(config.epochs), str(steps), seconds])
    lines = documents.markdown_table(
        ["trained on", "epochs", "steps", "training time here"], body
    )
    if any(flag.startswith("--epochs") for flag in study.flags):
        lines += ["", "Because of --epochs the costs are NOT equal here."]
    return lines


def _gaps(verdicts: _Verdicts) -> dict[str, dict[str, Difference]]:
    """Returns the paired differences of all rows to PGD's."""
    baseline = verdicts.get(_BASELINE)
    if baseline is None:
        return {}
    gaps: dict[str, dict[str, Difference]] = {}
    for label, seeds in verdicts.items():
        if label == _BASELINE:
            continue
        gaps[label] = {}
        for column in _COLUMNS:
            pairs = [
                (columns[column].astype(float), baseline[seed][column])
                for seed, columns in seeds.items()
            ]
            if len(pairs) > 1:
                means = np.array([(a - b).mean() for a, b in pairs])
                pairs = [(means, np.zeros_like(means))]
            gaps[label][column] = difference(*pairs[0])
    return gaps


def _differences(
    study: Study, gaps: Mapping[str, Mapping[str, Difference]]
) -> list[str]:
    if not gaps:
        return []
    over = (
        "of the images"
        if len(study.seeds) == 1
        else f"of the {len(study.seeds)} seeds' mean differences"
    )
    body = [
        [
            f"{label} - {_BASELINE}",
            *(gap.in_points() for gap in columns.values()),
        ]
        for label, columns in gaps.items()
    ]
    return [
        "",
        "Difference in points to the model trained on PGD, paired by image and "
        f"seed, with Student's 95 % interval {over}. The intervals are not "
        f"corrected for the {len(gaps) * len(_COLUMNS)} comparisons:",
        "",
        *documents.markdown_table(["paired", *_COLUMNS], body),
    ]


def _draw_matrix(verdicts: _Verdicts, path: str | os.PathLike) -> None:
    """Draws the mean accuracies over the seeds as a heat map."""
    values = np.array(
        [
            [
                100 * np.mean([columns[c].mean() for columns in seeds.values()])
                for c in _COLUMNS
            ]
            for seeds in verdicts.values()
        ]
    )
    figure = plots.make_figure(height=1.9 + 0.6 * len(values), width=8.5)
    axes = figure.subplots()
    axes.pcolormesh(values, cmap=plots.COLORMAP, vmin=0, vmax=100)
    for (row, column), value in np.ndenumerate(values):
        axes.annotate(
            f"{value:.1f}",
            (column + 0.5, row + 0.5),
            ha="center",
            va="center",
            # The lower half of the colour map is dark.
            color="white" if value < 50 else "black",
        )
    names = list(_COLUMNS)
    for row, label in enumerate(verdicts):
        column = names.index(_TRAINED_ON[label])
        axes.add_patch(
            Rectangle(
                (column + 0.03, row + 0.03),
                0.94,
                0.94,
                fill=False,
                edgecolor=plots.COLORS[1],
                linewidth=3,
            )
        )
    axes.set_xticks(np.arange(len(names)) + 0.5, names)
    axes.set_yticks(np.arange(len(values)) + 0.5, list(verdicts))
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set(
        xlabel="attacked with",
        ylabel="trained on",
        title="Accuracy (%) of models trained on different attacks",
    )
    plots.note(figure, "Framed: the attack that the model was trained on.")
    plots.save(figure, path)
