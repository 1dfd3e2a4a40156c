"""Figure 7: the time of an epoch of each method."""

from __future__ import annotations

from typing import Any

import numpy as np

from adt_tf.analysis import epoch_time
from adt_tf.reproduction import paper_numbers, stopwatch
from adt_tf.reproduction.documents import markdown_table
from adt_tf.reproduction.measurements import Arrays, Measurement
from adt_tf.reproduction.study import Rows, Study

_TIMED_ROUNDS = 5


def measurements(study: Study, rows: Rows) -> list[Measurement]:
    """Steps of all methods in turns: all have equally many in an epoch."""
    timing = study.scale.timing

    def measure():
        configs = {}
        for label, run in rows.items():
            config = study.config(run, study.seeds[0])
            taken = {k: v for k, v in timing.items() if config[k] is not None}
            configs[label] = config | taken
        seconds = stopwatch.time_steps(configs, _TIMED_ROUNDS)
        network = next(iter(configs.values()))["network"]
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
    study: Study, rows: Rows, arrays: Arrays
) -> tuple[list[str], dict[str, Any]]:
    """Figure 7: the time of an epoch, relative to AT-PGD."""
    names = list(rows)
    seconds = arrays["figure7"]["seconds"]
    ratios = seconds / seconds[names.index("AT-PGD")]
    theirs = paper_numbers.rows("figure7")
    aims = [theirs.get(name, {}).get("ratio", np.nan) for name in names]
    results = epoch_time.EpochTimes(
        tuple(rows.values()),
        np.median(seconds, axis=1),
        np.median(ratios, axis=1),
        np.percentile(ratios, [25, 75], axis=1).T,
        np.array(aims),
        str(arrays["figure7"]["network"]),
    )
    epoch_time.draw_epoch_times(results, study.file("figure7.png"))
    lines = markdown_table(
        ["method", "step (s)", "over AT-PGD's", "quartiles", "paper, about"],
        [
            [
                name,
                f"{results.seconds[i]:.4g}",
                f"{results.ratios[i]:.2f}",
                f"{results.quartiles[i, 0]:.2f} to "
                f"{results.quartiles[i, 1]:.2f}",
                "" if np.isnan(aims[i]) else f"{aims[i]:g}",
            ]
            for i, name in enumerate(names)
        ],
    )
    lines += ["", f"Timed on {arrays['figure7']['network']}."]
    values = results.to_dict() | {
        "ratios": dict(zip(names, ratios.tolist(), strict=True))
    }
    return lines, values
