"""Figure 5: what the entropy's weight lambda does to a trained classifier.

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
from adt_tf.analysis import map_batches, plots
from adt_tf.attacks import Attack
from adt_tf.evaluation.statistics import wilson_interval


@dataclasses.dataclass(frozen=True)
class Record:
    """One run.

    Attributes:
        entropy_weight: lambda, that it was trained with.
        accuracy: Under each attack, and "natural", as in evaluation.json.
        entropy: The mean entropy of its adversarial distributions.
        num_examples: That the accuracies are of, if they are to be shown with
            how far they can be trusted.
    """

    entropy_weight: float
    accuracy: dict[str, float]
    entropy: float
    num_examples: int | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class EntropyWeights:
    """Runs by increasing weight.

    Attributes:
        entropy_weights: [runs].
        attacks: The columns of `accuracy`.
        accuracy: [runs, attacks].
        entropy: [runs].
        reach: How far the widest 95 % interval of an accuracy reaches, or None.
    """

    entropy_weights: np.ndarray
    attacks: tuple[str, ...]
    accuracy: np.ndarray
    entropy: np.ndarray
    reach: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "entropy_weight": self.entropy_weights.tolist(),
            "accuracy": dict(
                zip(self.attacks, self.accuracy.T.tolist(), strict=True)
            ),
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

    It is reduced over the dimensions as the attack does, by their mean unless
    told otherwise. For a point it is 0 by convention, and for an implicit
    distribution a bound up to a constant.

    Args:
        classifier: From images in [0, 1] to logits; it is attacked.
        dataset: (images, labels), or as in `adt_tf.evaluate`.
        attack: Such as `adt_tf.attacks.exp(8 / 255, entropy_weight=0.01)`, or
            the amortised one that the classifier was trained with.
        num_samples: Of each distribution.
        batch_size: Images at once.
        seed: Of the noise.
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
    """Sorts runs by their weight and lines up their accuracies."""
    records = sorted(records, key=lambda record: record.entropy_weight)
    weights = [record.entropy_weight for record in records]
    columns = {tuple(sorted(record.accuracy)) for record in records}
    if len(columns) != 1 or len(set(weights)) < len(weights):
        raise ValueError(
            "Argument `records` must hold runs under the same attacks, one "
            f"for each weight. Received: weights {weights} under "
            f"{sorted(columns)}"
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
    """The farthest end of a Wilson interval, as a share."""
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
    """Draws accuracy and entropy against the weight, equally spaced."""
    figure = plots.make_figure(height=3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    # Zero has no place on a logarithmic axis, so every weight gets a step.
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
