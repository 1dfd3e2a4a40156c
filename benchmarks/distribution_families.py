"""Compares the families of adversarial distributions.

    python benchmarks/distribution_families.py
    python benchmarks/distribution_families.py --data_dir=DIR

On the digits, or with --data_dir on 5,000 images of CIFAR-10 with WRN-10-1
(flags/mini). Two tables have a row for each family. The first attacks one fixed
classifier, trained by AT-PGD: entropy, share of samples that fool it, distance
between samples of one image. The second trains a classifier with each family:
natural accuracy, accuracy under PGD-20, and the time of a training step.
--epochs=0 trains nothing, and times the steps only. Values are means and
standard deviations over the seeds. Runs are kept in build/distribution_families
and are not trained again.
"""

from __future__ import annotations

import argparse
import pathlib

import measuring

measuring.prepare_tensorflow()

#: Mapping from a family to its method and the method's flags.
FAMILIES = {
    "Dirac (PGD-7)": ("at_pgd", ()),
    "Langevin, T = 0.01": ("at_pgd", ("--temperature=0.01",)),
    "Gaussian": ("adt_exp", ()),
    "mixture of 3": ("adt_exp", ("--family=mixture-3",)),
    "low rank, 4": ("adt_exp", ("--family=low-rank-4",)),
    "Gaussian, generated": ("adt_exp_am", ()),
    "flow of 2, generated": ("adt_exp_am", ("--family=flow-2",)),
    "implicit, bound of q": ("adt_imp_am", ()),
    "implicit, Stein": ("adt_imp_am", ("--entropy=stein",)),
}
_TARGET = "Dirac (PGD-7)"
_TIMED_STEPS = 10


def parse_options() -> argparse.Namespace:
    """Returns the command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--epochs", type=int, help="of the flagfile by default; 0 for none"
    )
    parser.add_argument("--attack_epochs", type=int, default=10)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--test_images", type=int, default=1000)
    parser.add_argument("--data_dir", help="prepared CIFAR-10 of TFDS")
    parser.add_argument("--output", default="build/distribution_families")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        help="further flag of all runs, as in --set=--train_examples=256",
    )
    return parser.parse_args()


def config_of(family: str, seed: int, options: argparse.Namespace):
    """Returns the configuration of a training run."""
    from adt_tf.runs.config import Config

    method, flags = FAMILIES[family]
    folder = "mini" if options.data_dir else "digits"
    arguments = [f"--flagfile={folder}/{method}", *flags, f"--seed={seed}"]
    if options.epochs:
        arguments.append(f"--epochs={options.epochs}")
    if options.data_dir:
        arguments.append(f"--data_dir={options.data_dir}")
    return Config.parse([*arguments, *options.set])


def train(family: str, seed: int, options: argparse.Namespace):
    """Returns the classifier of a run; trains it if it does not exist."""
    from adt_tf.runs.experiment import Experiment
    from adt_tf.runs.workdir import Workdir

    config = config_of(family, seed, options)
    name = "".join(c if c.isalnum() else "_" for c in family)
    path = pathlib.Path(options.output, f"{config.dataset}-{name}-{seed}")
    workdir = Workdir(path)
    if not workdir.is_finished:
        experiment = Experiment.from_config(workdir.settled(config))
        experiment.train(workdir.path, flags=experiment.flags)
    return workdir.load_classifier()


def measure_samples(
    family: str, seed: int, target, options: argparse.Namespace
) -> list[float]:
    """Returns entropy, share of samples that fool, and distance."""
    from adt_tf import data
    from adt_tf.analysis import diversity, entropy_weight
    from adt_tf.runs import inputs
    from adt_tf.runs.experiment import Experiment

    config = config_of(family, seed, options)
    experiment = Experiment.from_config(config)
    attack, examples = experiment.trainer.attack, experiment.train_data
    if attack.networks:
        size = config.batch_size
        steps = options.attack_epochs * data.steps_per_epoch(examples, size)
        batches = data.train_pipeline(examples, batch_size=size, seed=seed)
        attack.fit(target, batches.take(steps), seed=seed, verbose=0)
    test = inputs.load_data(config, "test", options.images)
    result = diversity.measure_diversity(
        target,
        test,
        [diversity.samples(attack, family)],
        num_samples=options.samples,
        seed=seed,
    )
    return [
        entropy_weight.mean_entropy(target, test, attack, seed=seed),
        100 * result.fooled[family],
        result.mean_distance[family],
    ]


def measure_training(
    family: str, seed: int, options: argparse.Namespace
) -> list[float]:
    """Returns natural and robust accuracy in %, unless --epochs=0."""
    import adt_tf
    from adt_tf import attacks
    from adt_tf.runs import inputs

    if options.epochs == 0:
        return []
    config = config_of(family, seed, options)
    size = len(inputs.load_data(config, "test"))
    report = adt_tf.evaluate(
        train(family, seed, options),
        inputs.load_data(config, "test", min(size, options.test_images)),
        attacks.pgd(inputs.threat_model(config)),
        verbose=False,
    )
    return [100 * value for value in report.accuracy.values()]


def time_steps(options: argparse.Namespace) -> dict[str, list[float]]:
    """Returns the milliseconds of the steps of all families, in turns."""
    from adt_tf.reproduction import stopwatch

    configs = {name: config_of(name, 0, options) for name in options.families}
    seconds = stopwatch.time_steps(configs, _TIMED_STEPS)
    return {name: 1000 * values for name, values in seconds.items()}


def format_cells(rows: list[list[float]]) -> str:
    """Formats means and standard deviations of the columns."""
    import numpy as np

    return " | ".join(
        f"{mean:.3g} ± {deviation:.2g}"
        for mean, deviation in zip(
            np.mean(rows, axis=0), np.std(rows, axis=0), strict=True
        )
    )


def main() -> None:
    """Prints the tables."""
    options = parse_options()
    seeds = range(options.seeds)
    target = None
    if options.epochs != 0 or not options.data_dir:
        target = train_target(options)
    if target is not None:
        print("| family | entropy | samples that fool (%) | distance |")
        print("| --- | ---: | ---: | ---: |")
        for name in options.families:
            rows = [measure_samples(name, s, target, options) for s in seeds]
            print(f"| {name} | {format_cells(rows)} |", flush=True)
    times = time_steps(options)
    columns = [] if options.epochs == 0 else ["natural (%)", "PGD-20 (%)"]
    columns.append("median time of a step (ms)")
    print(f"\n| family | {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * len(columns))
    for name in options.families:
        rows = [measure_training(name, seed, options) for seed in seeds]
        cells = [format_cells(rows)] if options.epochs != 0 else []
        milliseconds = sorted(times[name])[_TIMED_STEPS // 2]
        cells.append(f"{milliseconds:.3g}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def train_target(options: argparse.Namespace):
    """Returns the AT-PGD classifier that all families attack."""
    import adt_tf

    if not options.data_dir:
        return adt_tf.from_preset("digits_small_cnn_at_pgd")
    return train(_TARGET, 0, options)


if __name__ == "__main__":
    main()
