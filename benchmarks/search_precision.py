"""Is a search in bfloat16 as strong as one in float32? Paired verdicts.

    python benchmarks/search_precision.py
    python benchmarks/search_precision.py --runs=mini/at_pgd,mini/adt_exp \\
      --seeds=0 --data_dir=DIR

Trains each run with each seed twice, its inner problem searched in float32 and
in bfloat16, and attacks each of these classifiers twice, likewise. Every
verdict is a float32 forward pass. Two figures of a run count, both in images
of 500: how many more stand where the attack searches in bfloat16, for the
classifier that keeps most; and how many more stand, on the mean of the seeds,
where training searched in bfloat16, by the attack in float32. Writes
build/bench/search_precision.json; classifiers that are there already, in
build/search_precision, are not trained again.
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
    "attacks", ["pgd-20", "pgd-100", "cw-30", "exp-20"], "Attacks, each alone."
)
EXAMPLES = flags.DEFINE_integer("examples", 500, "Test examples at most.")
EXTRA = flags.DEFINE_multi_string(
    "set", [], "Further flag of all runs, as in --set=--epochs=3."
)
DATA_DIR = flags.DEFINE_string("data_dir", None, "Of TFDS.")
FORMATS = ("float32", "bfloat16")


def classifier_of(run: str, seed: str, search_precision: str):
    """Returns a trained classifier, and its configuration."""
    from adt_tf.runs.config import Config
    from adt_tf.runs.experiment import Experiment
    from adt_tf.runs.workdir import Workdir

    given = [f"--flagfile={run}", f"--seed={seed}", *EXTRA.value]
    given.append(f"--search_precision={search_precision}")
    if DATA_DIR.value:
        given.append(f"--data_dir={DATA_DIR.value}")
    config = Config.parse(given)
    name = f"{run.replace('/', '-')}-{seed}-{search_precision}"
    workdir = Workdir(measuring.ROOT / "build" / "search_precision" / name)
    if not workdir.is_finished:
        Experiment.from_config(config).train(
            workdir.path, flags=config.to_flags()
        )
    return workdir.load_classifier(), config


def standing(classifier, test, config) -> dict:
    """Returns, by the attack's format, which examples stand under all."""
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
        kept = {}
        for name in FORMATS:
            classifier, config = classifier_of(run, seed, name)
            test = inputs.load_data(config, "test", EXAMPLES.value)
            verdicts = standing(classifier, test, config)
            one, other = verdicts["float32"], verdicts["bfloat16"]
            kept[name] = one.mean()
            by_attack.append(500 * (other.mean() - one.mean()))
            print(
                f"{run}, seed {seed}, trained in {name}: {one.sum()} of "
                f"{len(one)} stand by float32, {other.sum()} by bfloat16; "
                f"{np.sum(other & ~one)} only by bfloat16, "
                f"{np.sum(one & ~other)} only by float32",
                flush=True,
            )
        by_training.append(500 * (kept["bfloat16"] - kept["float32"]))
    return [
        measuring.value_row(
            f"{run}: standing more by an attack in bfloat16, worst classifier",
            [max(by_attack)],
            "images of 500",
            aim="<= 1",
        ),
        measuring.value_row(
            f"{run}: standing more after training in bfloat16",
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
