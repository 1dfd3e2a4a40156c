"""Compares searches in bfloat16 and float32 by paired verdicts.

    python benchmarks/search_precision.py
    python benchmarks/search_precision.py --runs=mini/at_pgd,mini/adt_exp \\
      --seeds=0 --data_dir=DIR

Trains each run twice with each seed, with the inner problem in float32 and in
bfloat16, and attacks each of these classifiers in both precisions. A float32
forward pass gives every verdict. Two numbers describe a run, both in images of
500: how many more images withstand the attack in bfloat16 than in float32, for
the classifier with the largest difference; and how many more images withstand
the attack in float32 after training in bfloat16, on the mean of the seeds.
Writes build/bench/search_precision.json. Classifiers in build/search_precision
are not trained again.
"""

from __future__ import annotations

import measuring
from absl import app, flags

measuring.prepare_tensorflow()

RUNS = flags.DEFINE_list(
    "runs", ["digits/at_pgd", "digits/adt_exp"], "Flagfiles of the runs."
)
SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of each run.")
ATTACKS = flags.DEFINE_list(
    "attacks", ["pgd-20", "pgd-100", "cw-30", "exp-20"], "Names of attacks."
)
EXAMPLES = flags.DEFINE_integer("examples", 500, "Number of test examples.")
EXTRA = flags.DEFINE_multi_string(
    "set", [], "Further flag of all runs, as in --set=--epochs=3."
)
DATA_DIR = flags.DEFINE_string("data_dir", None, "Prepared data of TFDS.")
FORMATS = ("float32", "bfloat16")


def classifier_of(run: str, seed: str, search_precision: str):
    """Returns a trained classifier and its configuration."""
    from adt_tf.runs.config import Config
    from adt_tf.runs.experiment import Experiment
    from adt_tf.runs.workdir import Workdir

    arguments = [f"--flagfile={run}", f"--seed={seed}", *EXTRA.value]
    arguments.append(f"--search_precision={search_precision}")
    if DATA_DIR.value:
        arguments.append(f"--data_dir={DATA_DIR.value}")
    config = Config.parse(arguments)
    name = f"{run.replace('/', '-')}-{seed}-{search_precision}"
    workdir = Workdir(measuring.ROOT / "build" / "search_precision" / name)
    if not workdir.is_finished:
        Experiment.from_config(config).train(
            workdir.path, flags=config.to_flags()
        )
    return workdir.load_classifier(), config


def verdicts_of(classifier, test, config) -> dict:
    """Returns which examples withstand all attacks, by their precision."""
    import numpy as np

    import adt_tf
    from adt_tf.runs import inputs

    threat_model = inputs.threat_model(config)
    verdicts = {}
    for name in FORMATS:
        attacks = [
            adt_tf.attacks.get(attack, threat_model, search_precision=name)
            for attack in ATTACKS.value
        ]
        report = adt_tf.evaluate(
            classifier, test, attacks, independent=True, verbose=False
        )
        rows = list(report.outcomes.values())
        verdicts[name] = np.all(np.array(rows) == 1, axis=0)
    return verdicts


def measure(run: str) -> list[dict]:
    """Returns the two rows of a run."""
    import numpy as np

    from adt_tf.runs import inputs

    by_attack, by_training = [], []
    for seed in SEEDS.value:
        shares = {}
        for name in FORMATS:
            classifier, config = classifier_of(run, seed, name)
            test = inputs.load_data(config, "test", EXAMPLES.value)
            verdicts = verdicts_of(classifier, test, config)
            one, other = verdicts["float32"], verdicts["bfloat16"]
            shares[name] = one.mean()
            by_attack.append(500 * (other.mean() - one.mean()))
            print(
                f"{run}, seed {seed}, trained in {name}: of {len(one)} images "
                f"{one.sum()} withstand float32, {other.sum()} bfloat16; "
                f"{np.sum(other & ~one)} bfloat16 only, "
                f"{np.sum(one & ~other)} float32 only",
                flush=True,
            )
        by_training.append(500 * (shares["bfloat16"] - shares["float32"]))
    return [
        measuring.value_row(
            f"{run}: more images withstand attacks in bfloat16, at most",
            [max(by_attack)],
            "images of 500",
            aim="<= 1",
        ),
        measuring.value_row(
            f"{run}: more images withstand after training in bfloat16",
            by_training,
            "images of 500",
        ),
    ]


def main(_) -> None:
    """Measures every run."""
    rows = [row for run in RUNS.value for row in measure(run)]
    measuring.write("search_precision", rows)


if __name__ == "__main__":
    app.run(main)
