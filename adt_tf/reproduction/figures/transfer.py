"""Figure 4: accuracy of each model on images found on every other model."""

from __future__ import annotations

import functools
from typing import Any

from adt_tf import attacks
from adt_tf.analysis import transfer
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement, fields_of
from adt_tf.reproduction.study import Runs, Study

_TRANSFERRED = ("pgd-20", "mim-20")


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement for each attack."""
    count = study.scale.images["figure4"]
    first = next(iter(rows.values()))

    def measure(attack):
        return fields_of(
            transfer.measure_transfer(
                study.classifiers(rows),
                study.images("figure4", first),
                attacks.get(attack, study.threat_model(first)),
                verbose=True,
            )
        )

    return [
        Measurement(
            f"figure4-{attack}",
            functools.partial(measure, attack),
            tuple(rows.values()),
            {"images": count},
            gradients=len(rows) * count * 22,
        )
        for attack in _TRANSFERRED
    ]


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws a heat map for each attack."""
    lines, values = [], {}
    for attack, name in zip(
        _TRANSFERRED, ("figure4.png", "figure4-mim.png"), strict=True
    ):
        matrix = arrays[f"figure4-{attack}"]
        results = transfer.TransferMatrix(
            tuple(matrix["names"].tolist()),
            matrix["accuracy"],
            matrix["natural"],
            str(matrix["attack"]),
            int(matrix["num_examples"]),
            0,
        )
        transfer.draw_transfer(results, study.file(name))
        values[results.attack] = results.to_dict()
        lines += [f"![{results.attack}]({study.file(name).name})", ""]
        lines += markdown_table(
            [f"{results.attack}, found on", *results.names],
            [
                [source, *(f"{100 * value:.1f}" for value in row)]
                for source, row in zip(
                    ("none (clean)", *results.names),
                    (results.natural, *results.accuracy),
                    strict=True,
                )
            ],
        )
        lines.append("")
    return lines[2:-1], values
