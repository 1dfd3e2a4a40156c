"""Measures how an ADT-EXP step's time grows with k, T, batch and width.

python benchmarks/growth.py

Each of the four varies alone around WRN-10-1, T = 4, k = 4, batch 32; all
settings are interleaved. The picture shows the times and the line of
proportional growth: the multiplications of a step, scaled to that setting.
Writes build/bench/growth.json and docs/images/growth.png.
"""

from __future__ import annotations

import json

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()

ROUNDS = flags.DEFINE_integer("rounds", 3, "Number of rounds.")
BASE = {"k": 4, "T": 4, "batch": 32, "width": 1}
VALUES = {
    "k": [2, 4, 8],
    "T": [2, 4, 8],
    "batch": [16, 32, 64],
    "width": [1, 2, 4],
}


def settings_of(axis: str, value: int) -> tuple[int, ...]:
    """Returns (k, T, batch, width) with one of them changed."""
    return tuple((BASE | {axis: value}).values())


def step_of(k: int, num_steps: int, batch: int, width: int):
    """Returns a training step as a function, and its multiplications."""
    x, y = measuring.batch_of(batch)
    trainer = measuring.trainer_of(
        "adt_exp", f"wrn-10-{width}", num_samples=k, num_steps=num_steps
    )
    # Two passes for each input gradient, three for the weights' gradient.
    passes = 2 * num_steps * k + 3
    multiplications = measuring.multiplications(trainer.classifier)
    work = passes * batch * multiplications
    return lambda: trainer.train_on_batch(x, y), work


def draw(seconds: dict, work: dict) -> None:
    """Draws the four curves with their lines of proportional growth."""
    from adt_tf.analysis import plots

    figure = plots.make_figure(height=3.0)
    for axes, (axis, values) in zip(
        figure.subplots(1, 4, sharey=False), VALUES.items(), strict=True
    ):
        keys = [settings_of(axis, value) for value in values]
        base = tuple(BASE.values())
        scale = seconds[base] / work[base]
        multiplications = [work[key] for key in keys]
        axes.plot(
            [w / 1e9 for w in multiplications],
            [scale * w for w in multiplications],
            color=plots.GREY,
            linestyle="--",
            label="in proportion",
        )
        axes.plot(
            [w / 1e9 for w in multiplications],
            [seconds[key] for key in keys],
            color=plots.COLORS[0],
            marker=plots.MARKERS[0],
            linestyle="none",
            label="measured",
        )
        axes.set_title(f"{axis} = {', '.join(map(str, values))}", fontsize=9)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        plots.tidy(axes)
    figure.supxlabel("thousand million multiplications a step", fontsize=9)
    figure.axes[0].set_ylabel("seconds a step")
    figure.axes[0].legend(fontsize=7)
    plots.save(figure, measuring.ROOT / "docs" / "images" / "growth.png")


def main(_) -> None:
    """Times all settings and draws the picture."""
    logging.set_verbosity(logging.ERROR)
    import numpy as np

    settings = dict.fromkeys(
        settings_of(axis, value)
        for axis, values in VALUES.items()
        for value in values
    )
    works, work = {}, {}
    for key in settings:
        works[key], work[key] = step_of(*key)
    times = measuring.interleaved(works, ROUNDS.value)
    seconds = {key: float(np.median(t)) for key, t in times.items()}
    path = measuring.OUTPUT / "growth.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            **dict(zip(BASE, key, strict=True)),
            "seconds": round(seconds[key], 4),
            "multiplications": work[key],
        }
        for key in settings
    ]
    path.write_text(json.dumps(rows, indent=2) + "\n")
    for row in rows:
        print(row)
    draw(seconds, work)


if __name__ == "__main__":
    app.run(main)
