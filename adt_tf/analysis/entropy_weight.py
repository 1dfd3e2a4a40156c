"""Figure 5: the effect of the entropy weight lambda on trained classifiers.

records = [
    Record(
        entropy_weight=0.01,
        accuracy={"natural": 0.87, "PGD-20": 0.52},
        entropy=mean_entropy(classifier, test, attack)),
    ...]
results = collect_entropy_weights(records)
draw_entropy_weights(results, "entropy_weight.png")
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import checks, data, seeds
from adt_tf.analysis import by_name, map_batches, plots
from adt_tf.attacks import Attack
from adt_tf.evaluation.statistics import wilson_interval


@dataclasses.dataclass(frozen=True)
class Record:
    """Results of one run.

    Attributes:
        entropy_weight: Entropy weight lambda of the training.
        accuracy: Accuracy under each attack, and "natural", as in
            evaluation.json.
        entropy: Mean entropy of the adversarial distributions.
        num_examples: Number of examples behind the accuracies, from which
            their confidence intervals follow; None for no intervals.
    """

    entropy_weight: float
    accuracy: dict[str, float]
    entropy: float
    num_examples: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class EntropyWeights:
    """Results of several runs, sorted by entropy weight.

    Attributes:
        entropy_weights: Entropy weights [runs].
        attacks: Names of the columns of `accuracy`.
        accuracy: Accuracies [runs, attacks].
        entropy: Mean entropies [runs].
        reach: Largest distance of an accuracy from an end of its 95 %
            interval, or None.
    """

    entropy_weights: np.ndarray
    attacks: tuple[str, ...]
    accuracy: np.ndarray
    entropy: np.ndarray
    reach: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        return {
            "entropy_weight": self.entropy_weights.tolist(),
            "accuracy": by_name(self.attacks, self.accuracy.T),
            "entropy": self.entropy.tolist(),
            "reach": self.reach,
        }


def mean_entropy(
    classifier: Any,
    dataset: Any,
    attack: Attack,
    *,
    num_samples: int = 10,
    batch_size: int = 128,
    seed: int = 0,
    verbose: bool = False,
) -> float:
    """Estimates the mean entropy of the distributions that an attack finds.

        mean_i H(p_i),   H(p) = -E_p log p, from `num_samples` samples

    The attack decides how the entropy is reduced over the dimensions; its
    default is the mean. The entropy of a point is 0 by convention. For an
    implicit distribution the value is a lower bound, up to a constant.

    Args:
        classifier: Classifier from images in [0, 1] to logits.
        dataset: (images, labels), or a data set as in `adt_tf.evaluate`.
        attack: Attack, such as
            `adt_tf.attacks.exp(8 / 255, entropy_weight=0.01)`, or the amortised
            attack that the classifier was trained with.
        num_samples: Number of samples of each distribution.
        batch_size: Number of images in a batch.
        seed: Seed of the noise.
        verbose: Whether to show a progress bar.
    """
    checks.check_classifier(classifier)
    images, labels = data.as_arrays(dataset)

    @tf.function(autograph=False)
    def entropy(x, y):
        key = seeds.make(seed)
        solution = attack.solve(classifier, x, y, seed=seeds.fold(key, 0))
        return attack.sample(
            x, solution, num_samples=num_samples, seed=seeds.fold(key, 1)
        ).entropy

    values = map_batches(
        entropy, images, labels, batch_size=batch_size, verbose=verbose
    )
    return float(values.mean())


def collect_entropy_weights(records: Sequence[Record]) -> EntropyWeights:
    """Sorts runs by entropy weight, and collects their accuracies."""
    records = sorted(records, key=lambda record: record.entropy_weight)
    weights = [record.entropy_weight for record in records]
    columns = {tuple(sorted(record.accuracy)) for record in records}
    if len(columns) != 1 or len(set(weights)) < len(weights):
        raise ValueError(
            "Argument `records` must hold runs that were evaluated with the "
            "same attacks, one run for each entropy weight. Received: weights "
            f"{weights}, attacks {sorted(columns)}"
        )
    attacks = tuple(records[0].accuracy)
    return EntropyWeights(
        np.array(weights, np.float64),
        attacks,
        np.array([[r.accuracy[name] for name in attacks] for r in records]),
        np.array([record.entropy for record in records], np.float64),
        _reach(records),
    )


def _reach(records: Sequence[Record]) -> float | None:
    """Returns the largest distance to an end of a Wilson interval."""
    if any(record.num_examples is None for record in records):
        return None

    def reach(share, total):
        low, high = wilson_interval(round(share * total), total)
        return max(high - share, share - low)

    return max(
        reach(share, record.num_examples)
        for record in records
        for share in record.accuracy.values()
    )


def draw_entropy_weights(
    results: EntropyWeights, path: str | os.PathLike
) -> None:
    """Draws accuracy and entropy against the entropy weight."""
    figure = plots.make_figure(height=3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    # A logarithmic axis cannot show zero, so the weights are equally spaced.
    steps = np.arange(len(results.entropy_weights))
    for i, name in enumerate(results.attacks):
        left.plot(
            steps,
            100 * results.accuracy[:, i],
            color=plots.color(i),
            marker=plots.marker(i),
            linestyle="--" if name == "natural" else "-",
            label=name,
        )
    right.plot(
        steps, results.entropy, color="black", marker="o", label="entropy"
    )
    for step, value in zip(steps, results.entropy, strict=True):
        right.annotate(
            f"{value:.2f}".replace("-", "−"),
            (step, value),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=plots.SMALL,
            path_effects=plots.HALO,
        )
    for axes in (left, right):
        axes.set_xticks(steps, [f"{w:g}" for w in results.entropy_weights])
        axes.set_xlabel("entropy weight λ")
        axes.margins(x=0.1, y=0.15)
        plots.tidy(axes)
    title = "Accuracy"
    if results.reach is not None:
        title += f", 95 % intervals within ±{100 * results.reach:.1f}"
    left.set(ylabel="accuracy (%)", title=title)
    right.set(ylabel="entropy (nats per pixel value)", title="Mean entropy")
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=min(4, len(results.attacks)),
        frameon=False,
    )
    figure.suptitle("Runs with different entropy weights")
    plots.save(figure, path)
