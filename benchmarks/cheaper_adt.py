"""Decides whether cheaper settings of ADT-EXP cost at most 1 point, on digits.

    python benchmarks/cheaper_adt.py

Each setting is trained as flags/digits/adt_exp.flags, except for its samples,
and is compared with the paper's T = 7, k = 5 by the same seeds on the same test
images, under PGD-20 and APGD-CE. The number of seeds comes first, by Stein's
two-stage procedure (1945): from the standard deviation s of the differences of
n0 pilot seeds, an interval of half width m = 1 point needs

    n = max(n0, ceil((t s / m)^2)),   t = Student's quantile, n0 - 1 degrees

seeds, and mean +- t s / sqrt(n) covers the true difference with 95 %. A setting
that needs more than --most_seeds gets the answer "cannot be told". The interval
is about other seeds and these test images; the interval over images is printed
too. Finished runs are kept in build/bench/cheaper_adt.json.
"""

from __future__ import annotations

import json
import math
import pathlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()

EPSILON = 0.15
NUM_STEPS = 7
BASELINE = "paper"


class Setting(NamedTuple):
    """A setting of the inner problem.

    Attributes:
        stages: Pairs of a number of steps and the number of samples there.
        antithetic: Whether the noise comes in pairs r, -r.
        step_size: Step size, or None for the method's own.
    """

    stages: tuple[tuple[int, int], ...]
    antithetic: bool = False
    step_size: float | None = None

    @property
    def num_steps(self) -> int:
        """The number of steps, T."""
        return sum(steps for steps, _ in self.stages)

    @property
    def cost(self) -> int:
        """The number of gradients of an image in a training step."""
        return sum(steps * samples for steps, samples in self.stages)


SETTINGS = {
    BASELINE: Setting(((NUM_STEPS, 5),)),
    "k = 2, antithetic": Setting(((NUM_STEPS, 2),), antithetic=True),
    "k = 1, 2, 5 over the steps": Setting(((3, 1), (2, 2), (2, 5))),
    "k = 1": Setting(((NUM_STEPS, 1),)),
    "k = 2": Setting(((NUM_STEPS, 2),)),
    "T = 3, k = 1, step 0.7": Setting(((3, 1),), step_size=0.7),
}

COMPARED = flags.DEFINE_list(
    "settings",
    None,
    "Settings by their numbers in the list, from 1; 1 and 2 by default.",
)
PILOT = flags.DEFINE_integer("pilot_seeds", 5, "Number of pilot seeds, n0.")
MOST = flags.DEFINE_integer("most_seeds", 20, "Largest number of seeds.")
MARGIN = flags.DEFINE_float("margin", 1.0, "Margin m in points.")
EPOCHS = flags.DEFINE_integer("epochs", 30, "Number of epochs.")
OUTPUT = flags.DEFINE_string("output", None, "JSON file of the runs.")


def method_of(setting: Setting):
    """Returns ADT-EXP with a setting."""
    import tensorflow as tf

    from adt_tf import attacks, distributions, methods

    class Antithetic(distributions.TanhGaussian):
        """A squashed Gaussian whose noise comes in pairs r, -r."""

        def noise(self, x, num_samples, seed):
            half = super().noise(x, (num_samples + 1) // 2, seed)
            return tf.concat([half, -half], axis=1)[:, :num_samples]

    class Staged(attacks.GradientAscent):
        """An ascent whose number of samples changes between stages."""

        def __init__(self, stages):
            super().__init__(**stages[-1][1].get_config())
            self.stages = stages

        def solve(self, classifier, x, y, *, seed, part=0, jit_compile=False):
            _, first = self.stages[0]
            progress = first.begin(classifier, x, y, seed=seed)
            for steps, attack in self.stages:
                progress = attack.advance(
                    classifier,
                    x,
                    y,
                    progress,
                    seed=seed,
                    num_steps=steps,
                    jit_compile=jit_compile,
                )
            params, *_ = progress.state
            return params

    arguments = {}
    if setting.step_size is not None:
        arguments["step_size"] = setting.step_size
    built_methods = [
        methods.adt_exp(
            EPSILON,
            num_steps=setting.num_steps,
            num_samples=num_samples,
            **arguments,
        )
        for _, num_samples in setting.stages
    ]
    for method in built_methods:
        if setting.antithetic:
            method.attack.family = Antithetic(method.attack.threat_model)
    if len(built_methods) == 1:
        return built_methods[0]
    stages = [
        (steps, method.attack)
        for (steps, _), method in zip(
            setting.stages, built_methods, strict=True
        )
    ]
    return built_methods[-1]._replace(attack=Staged(stages))


def train_and_attack(setting: Setting, seed: int) -> dict[str, Any]:
    """Returns the accuracies, the verdicts and the seconds of one training."""
    import keras

    import adt_tf
    from adt_tf import attacks, data

    train = data.load("digits", split="train")
    test = data.as_arrays(data.load("digits", split="test"))
    method = method_of(setting)
    classifier = adt_tf.networks.get(
        "small_cnn", input_shape=(8, 8, 1), seed=seed
    )
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=seed
    )
    steps = data.steps_per_epoch(train, 64)
    trainer.compile(
        adt_tf.optimizers.SGD(
            keras.optimizers.schedules.PiecewiseConstantDecay(
                [25 * steps], [0.05, 0.005]
            ),
            momentum=0.9,
            l2=2e-4,
        )
    )
    start, cpu = time.perf_counter(), time.process_time()
    trainer.fit(
        data.train_pipeline(train, batch_size=64, seed=seed, augment=False),
        steps_per_epoch=steps,
        shuffle=False,
        epochs=EPOCHS.value,
        verbose=0,
    )
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu
    suite = [
        attacks.pgd(EPSILON, num_steps=20),
        attacks.get("apgd-ce", EPSILON),
    ]
    report = adt_tf.evaluate(
        classifier, test, attacks=suite, seed=0, verbose=False
    )
    return {
        "natural": report.accuracy["natural"],
        "robust": report.robust_accuracy,
        "verdicts": "".join(str(int(right)) for right in report.robust),
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


class Runs:
    """The finished trainings, kept in a file."""

    def __init__(self):
        default = measuring.OUTPUT / "cheaper_adt.json"
        self._path = pathlib.Path(OUTPUT.value or default)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = self._path.read_text() if self._path.exists() else "{}"
        self._records = json.loads(text)

    def get(self, name: str, seed: int) -> dict[str, Any]:
        """Returns a training; trains it if it is missing."""
        key = f"{name}, {EPOCHS.value} epochs"
        records = self._records.setdefault(key, {})
        if str(seed) not in records:
            records[str(seed)] = train_and_attack(SETTINGS[name], seed)
            self._path.write_text(json.dumps(self._records, indent=2) + "\n")
            robust = 100 * records[str(seed)]["robust"]
            print(f"{name}, seed {seed}: {robust:.1f} % robust", flush=True)
        return records[str(seed)]

    def differences(self, name: str, num_seeds: int):
        """Returns the paired differences in points [seeds, images]."""
        import numpy as np

        def verdicts(setting, seed):
            text = self.get(setting, seed)["verdicts"]
            return np.array([int(letter) for letter in text], float)

        return 100 * np.stack(
            [
                verdicts(name, seed) - verdicts(BASELINE, seed)
                for seed in range(num_seeds)
            ]
        )


def half_width(pilot: Sequence[float], num_seeds: int) -> float:
    """Returns t s / sqrt(n), with t and s of the pilot's differences."""
    import numpy as np
    from scipy import stats

    quantile = stats.t.ppf(0.975, len(pilot) - 1)
    return float(quantile * np.std(pilot, ddof=1) / math.sqrt(num_seeds))


def seeds_needed(pilot: Sequence[float], margin: float) -> int:
    """Returns Stein's number of seeds for a half width of the margin."""
    return max(len(pilot), math.ceil((half_width(pilot, 1) / margin) ** 2))


def compare(runs: Runs, name: str) -> list[str]:
    """Returns the row of a setting, trained with as many seeds as it needs."""
    import numpy as np

    pilot = runs.differences(name, PILOT.value).mean(axis=1)
    num_needed = seeds_needed(pilot, MARGIN.value)
    print(
        f"{name}: the differences of {PILOT.value} pilot seeds have the "
        f"deviation {np.std(pilot, ddof=1):.2f} points, so a margin of "
        f"{MARGIN.value:g} needs {num_needed} seeds.",
        flush=True,
    )
    can_be_told = num_needed <= MOST.value
    num_seeds = num_needed if can_be_told else PILOT.value
    gaps = runs.differences(name, num_seeds)
    mean, half = gaps.mean(), half_width(pilot, num_seeds)
    # One observation an image: its mean difference over the seeds.
    images = gaps.mean(axis=0)
    over_images = 1.96 * images.std(ddof=1) / math.sqrt(images.size)
    answer = "cannot be told"
    if can_be_told and mean - half >= -MARGIN.value:
        answer = f"at most {MARGIN.value:g} below"
    elif can_be_told and mean + half < -MARGIN.value:
        answer = f"more than {MARGIN.value:g} below"
    seconds = [
        runs.get(name, seed)["cpu_seconds"]
        / runs.get(BASELINE, seed)["cpu_seconds"]
        for seed in range(num_seeds)
    ]
    return [
        name,
        str(SETTINGS[name].cost),
        f"{np.median(seconds):.2f}",
        str(num_needed),
        str(num_seeds),
        f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]",
        f"{over_images:.2f}",
        answer,
    ]


def main(_) -> None:
    """Trains the missing runs and prints the table."""
    logging.set_verbosity(logging.ERROR)
    names = list(SETTINGS)
    indices = COMPARED.value or ("1", "2")
    runs = Runs()
    rows = [compare(runs, names[int(index)]) for index in indices]
    columns = [
        "setting",
        "gradients of an image",
        "CPU time over the paper's",
        "seeds needed",
        "seeds run",
        "robust minus the paper's (points)",
        "half width over images",
        "answer",
    ]
    print(f"| {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * (len(columns) - 2) + " --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    app.run(main)
