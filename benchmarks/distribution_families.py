"""What a richer family of distributions is worth, on the digits.

    python benchmarks/distribution_families.py --seeds=3 --epochs=30

Two tables, a row for each family. The first attacks one classifier, the preset
of AT-PGD, that stays as it is: entropy, share of samples that fool, distance
between samples of one image. The second trains a classifier with each family:
natural accuracy, accuracy under PGD-20, and the time of a training step beside
that of ADT-EXP. --epochs=0 leaves out the training, and only times its steps.
Values are means over the seeds, with their standard deviations.
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, methods, networks, optimizers, seeds
from adt_tf.analysis import diversity

EPSILON = 0.15
_SHAPE = {"input_shape": (8, 8, 1), "width_factor": 0.125}
#: The family, its method and the method's arguments.
FAMILIES = {
    "Dirac (PGD-7)": ("at_pgd", {}),
    "Langevin, T = 0.01": ("at_pgd", {"temperature": 0.01}),
    "Gaussian": ("adt_exp", {}),
    "mixture of 3": ("adt_exp", {"family": "mixture-3"}),
    "low rank, 4": ("adt_exp", {"family": "low-rank-4"}),
    "Gaussian, generated": ("adt_exp_am", _SHAPE),
    "flow of 2, generated": ("adt_exp_am", {**_SHAPE, "family": "flow-2"}),
    "implicit, bound of q": ("adt_imp_am", _SHAPE),
    "implicit, Stein": ("adt_imp_am", {**_SHAPE, "entropy": "stein"}),
}


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--attack_epochs", type=int, default=10)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--samples", type=int, default=50)
    options = parser.parse_args()
    x, y = data.as_arrays(data.load("digits", split="test"))
    few = x[: options.images], y[: options.images]
    train = data.load("digits", split="train")
    target = adt_tf.from_preset("digits_small_cnn_at_pgd")
    print("| family | entropy | samples that fool (%) | distance |")
    print("| --- | ---: | ---: | ---: |")
    for name in FAMILIES:
        rows = [
            attacked(name, seed, target, train, few, options)
            for seed in range(options.seeds)
        ]
        print(f"| {name} | {_cells(rows)} |", flush=True)
    heads = "natural (%) | PGD-20 (%) | " if options.epochs else ""
    print(f"\n| family | {heads}time of a step (ms) |")
    print("| --- |" + " ---: |" * (3 if options.epochs else 1))
    for name in FAMILIES:
        rows = [
            trained(name, seed, train, (x, y), options.epochs)
            for seed in range(options.seeds)
        ]
        print(f"| {name} | {_cells(rows)} |", flush=True)


def _method(name: str, seed: int) -> methods.Method:
    method, arguments = FAMILIES[name]
    more = {"seed": seed} if "input_shape" in arguments else {}
    return methods.get(method, epsilon=EPSILON, **arguments, **more)


def attacked(name, seed, target, train, few, options) -> list[float]:
    """Entropy, share that fools and distance, on a fixed classifier."""
    attack = _method(name, seed).attack
    if attack.networks:
        steps = options.attack_epochs * data.steps_per_epoch(train, 64)
        batches = data.train_pipeline(train, batch_size=64, seed=seed)
        attack.fit(target, batches.take(steps), seed=seed, verbose=0)
    result = diversity.measure_diversity(
        target,
        few,
        [diversity.samples(attack, name)],
        num_samples=options.samples,
        seed=seed,
    )

    @tf.function(autograph=False)
    def entropy(x, y):
        solution = attack.solve(target, x, y, seed=seeds.make(seed))
        return attack.sample(
            x, solution, num_samples=10, seed=seeds.make(seed + 1)
        ).entropy

    return [
        float(np.mean(entropy(*map(tf.constant, few)))),
        100 * result.fooled[name],
        result.mean_distance[name],
    ]


def trained(name, seed, train, test, epochs) -> list[float]:
    """Natural and robust accuracy, and milliseconds of a step."""
    method = _method(name, seed)
    classifier = networks.get(
        "small_cnn", input_shape=(8, 8, 1), num_classes=10, seed=seed
    )
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=seed
    )
    steps = data.steps_per_epoch(train, 64)
    rate = keras.optimizers.schedules.PiecewiseConstantDecay(
        [max(1, epochs * 25 // 30) * steps], [0.05, 0.005]
    )
    trainer.compile(optimizers.SGD(rate, momentum=0.9, l2=2e-4))
    batches = data.train_pipeline(train, batch_size=64, seed=seed)
    batch = next(iter(batches))
    for _ in range(3):
        trainer.train_on_batch(*batch)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        trainer.train_on_batch(*batch)
        times.append(1000 * (time.perf_counter() - start))
    if not epochs:
        return [float(np.median(times))]
    trainer.fit(batches.take(epochs * steps), verbose=0)
    report = adt_tf.evaluate(
        classifier, test, attacks.pgd(EPSILON), verbose=False
    )
    accuracies = [100 * value for value in report.accuracy.values()]
    return [*accuracies, float(np.median(times))]


def _cells(rows: list[list[float]]) -> str:
    """Means and standard deviations over the seeds, column by column."""
    means, deviations = np.mean(rows, axis=0), np.std(rows, axis=0)
    return " | ".join(
        f"{mean:.3g} ± {deviation:.2g}"
        for mean, deviation in zip(means, deviations, strict=True)
    )


if __name__ == "__main__":
    main()
