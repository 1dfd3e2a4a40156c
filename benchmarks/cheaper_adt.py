"""Robust accuracy against cost of cheaper settings of ADT-EXP, on the digits.

python benchmarks/cheaper_adt.py

Each setting is trained three times with other seeds, as flags/digits/
adt_exp.flags says but for T, k, the step and the noise, and evaluated by
PGD-20 and APGD-CE on the test set. The cost is the number of input
gradients a training image meets, T * k, with the processor's seconds beside
it. A finished run is not repeated. Writes build/bench/cheaper_adt.json.
"""

from __future__ import annotations

import json
import time

import measuring
from absl import app, flags, logging

measuring.prepare_tensorflow()

EPSILON = 0.15
SETTINGS = {
    "paper": {"num_steps": 7, "num_samples": 5},
    "k = 1": {"num_steps": 7, "num_samples": 1},
    "k = 2": {"num_steps": 7, "num_samples": 2},
    "k = 2, antithetic": {
        "num_steps": 7,
        "num_samples": 2,
        "antithetic": True,
    },
    "T = 3, k = 1, step 0.7": {
        "num_steps": 3,
        "num_samples": 1,
        "step_size": 0.7,
    },
}

SEEDS = flags.DEFINE_integer("seeds", 3, "How many seeds.")
EPOCHS = flags.DEFINE_integer("epochs", 30, "Epochs of each training.")


def method_of(setting: dict):
    """ADT-EXP with a setting, and with its noise in pairs r, -r if asked."""
    import tensorflow as tf

    from adt_tf import distributions, methods

    class Antithetic(distributions.TanhGaussian):
        def noise(self, x, num_samples, seed):
            half = super().noise(x, (num_samples + 1) // 2, seed)
            return tf.concat([half, -half], axis=1)[:, :num_samples]

    setting = dict(setting)
    antithetic = setting.pop("antithetic", False)
    method = methods.adt_exp(EPSILON, **setting)
    if antithetic:
        method.attack.family = Antithetic(method.attack.threat_model)
    return method


def train_and_attack(setting: dict, seed: int, epochs: int) -> dict:
    """Returns the accuracies and the seconds of one training."""
    import keras

    import adt_tf
    from adt_tf import attacks, data

    train = data.load("digits", split="train")
    x, y = data.as_arrays(data.load("digits", split="test"))
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
        epochs=epochs,
        verbose=0,
    )
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu
    suite = [
        attacks.pgd(EPSILON, num_steps=20),
        attacks.get("apgd-ce", EPSILON),
    ]
    report = adt_tf.evaluate(classifier, (x, y), attacks=suite, seed=0)
    return {
        "natural": report.accuracy["natural"],
        "robust": report.robust_accuracy,
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


def main(_) -> None:
    """Trains what is missing and prints the table."""
    logging.set_verbosity(logging.ERROR)
    path = measuring.OUTPUT / "cheaper_adt.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(path.read_text()) if path.exists() else {}
    for seed in range(SEEDS.value):
        for name, setting in SETTINGS.items():
            runs = done.setdefault(name, {})
            if str(seed) not in runs:
                runs[str(seed)] = train_and_attack(setting, seed, EPOCHS.value)
                path.write_text(json.dumps(done, indent=2) + "\n")
                print(name, seed, runs[str(seed)], flush=True)
    print(table(done))


def table(done: dict) -> str:
    """Returns means over the seeds with the smallest and largest, in %."""
    import numpy as np

    lines = ["| setting | T k | natural | robust | CPU s |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, runs in done.items():
        setting = SETTINGS[name]
        cells = []
        for key in ("natural", "robust"):
            values = 100 * np.array([run[key] for run in runs.values()])
            cells.append(
                f"{values.mean():.1f} ({values.min():.1f} to "
                f"{values.max():.1f})"
            )
        cost = setting["num_steps"] * setting["num_samples"]
        cpu = np.median([run["cpu_seconds"] for run in runs.values()])
        lines.append(
            f"| {name} | {cost} | {cells[0]} | {cells[1]} | {cpu:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    app.run(main)
