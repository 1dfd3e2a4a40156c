"""Figure 7: the time of an epoch of each method."""

from __future__ import annotations

from typing import Any

import numpy as np

from adt_tf.analysis import epoch_time
from adt_tf.reproduction import paper_numbers, stopwatch
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.study import Runs, Study

_TIMED_ROUNDS = 5


def measurements(study: Study, rows: Runs) -> list[Measurement]:
    """Returns one measurement of all methods' steps in turns.

    All methods have the same number of steps in an epoch.
    """
    timing = study.scale.timing

    def measure():
        configs = {
            label: study.scale.timed(study.config(run, study.seeds[0]))
            for label, run in rows.items()
        }
        seconds = stopwatch.time_steps(configs, _TIMED_ROUNDS)
        network = next(iter(configs.values())).network
        return {
            "seconds": np.stack(list(seconds.values())),
            "network": network,
        }

    return [
        Measurement(
            "figure7",
            measure,
            (),
            {**timing, "rounds": _TIMED_ROUNDS},
            steps=_TIMED_ROUNDS + 1,
        )
    ]


def draw(
    study: Study, rows: Runs, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Draws the time of an epoch relative to AT-PGD's."""
    theirs = paper_numbers.rows("figure7")
    results = epoch_time.EpochTimes(
        tuple(rows.values()),
        arrays["figure7"]["seconds"],
        {rows[label]: row["ratio"] for label, row in theirs.items()},
        str(arrays["figure7"]["network"]),
    )
    epoch_time.draw_epoch_times(results, study.file("figure7.png"))
    body = []
    for label, step, ratio, (low, high) in zip(
        rows,
        np.median(results.seconds, axis=1),
        results.ratios,
        results.quartiles,
        strict=True,
    ):
        aim = f"{theirs[label]['ratio']:g}" if label in theirs else ""
        body.append(
            [
                label,
                f"{step:.4g}",
                f"{ratio:.2f}",
                f"{low:.2f} to {high:.2f}",
                aim,
            ]
        )
    lines = markdown_table(
        ["method", "step (s)", "over AT-PGD's", "quartiles", "paper, about"],
        body,
    )
    lines += ["", f"Timed on {results.setting}."]
    values = results.to_dict() | {
        "ratios": dict(zip(rows, results.round_ratios.tolist(), strict=True))
    }
    return lines, values
