"""Figure 6: how the loss climbs, step by step, under EXP or any ascent.

results = measure_convergence(
    {"AT-PGD": one, "ADT-EXP": other}, test,
    attacks.exp(8 / 255, num_steps=100))
draw_convergence(results, "convergence.png")
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from adt_tf import checks, data, objectives, seeds
from adt_tf.analysis import map_batches, plots
from adt_tf.attacks import GradientAscent


@dataclasses.dataclass(frozen=True, eq=False)
class Convergence:
    """Loss and accuracy after each number of steps.

    Attributes:
        names: Of the classifiers.
        loss: The mean cross-entropy of samples after t steps
            [classifiers, num_steps + 1].
        accuracy: The share of samples classified correctly, in the same shape.
        attack: The attack's name.
        num_examples: How many images were attacked.
        seed: Of the attack's noise.
        image_loss: The loss image by image, if it was kept
            [classifiers, images, num_steps + 1].
    """

    names: tuple[str, ...]
    loss: np.ndarray
    accuracy: np.ndarray
    attack: str
    num_examples: int
    seed: int
    image_loss: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "attack": self.attack,
            "num_examples": self.num_examples,
            "loss": dict(zip(self.names, self.loss.tolist(), strict=True)),
            "accuracy": dict(
                zip(self.names, self.accuracy.tolist(), strict=True)
            ),
            "seed": self.seed,
        }


def measure_convergence(
    classifiers: Mapping[str, Any],
    dataset: Any,
    attack: GradientAscent,
    *,
    batch_size: int = 64,
    seed: int = 0,
    verbose: bool = False,
) -> Convergence:
    """Records an attack's samples after 0, 1, ..., `num_steps` steps.

    One climb gives them all: the samples that a step takes its gradient from
    are fresh ones of the distribution that the steps before it have found.

    Args:
        classifiers: From a name to a classifier of images in [0, 1].
        dataset: (images, labels), or as in `adt_tf.evaluate`.
        attack: Such as `adt_tf.attacks.exp(8 / 255, num_steps=100)`.
        batch_size: Images at once.
        seed: Of the attack's noise.
        verbose: Whether to show a progress bar for each classifier.

    Reference: Dong et al., Adversarial Distributional Training, App. D.3.
    """
    if not isinstance(attack, GradientAscent):
        raise ValueError(
            "Argument `attack` must be one that climbs step by step, such as "
            "`adt_tf.attacks.exp(8 / 255, num_steps=100)`. Received: "
            f"attack={attack!r}"
        )
    images, labels = data.as_arrays(dataset)
    losses, accuracies = [], []
    for classifier in classifiers.values():
        checks.check_classifier(classifier)
        loss, correct = map_batches(
            _recorder(classifier, attack, seed),
            images,
            labels,
            batch_size=batch_size,
            verbose=verbose,
        )
        losses.append(loss)
        accuracies.append(correct.mean(axis=0))
    image_loss = np.array(losses)
    return Convergence(
        tuple(classifiers),
        image_loss.mean(axis=1),
        np.array(accuracies),
        attack.name,
        len(labels),
        seed,
        image_loss,
    )


def _recorder(
    classifier: Any, attack: GradientAscent, seed: int
) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Compiles (x, y) -> loss, accuracy, each [batch, num_steps + 1]."""
    # The samples after the last step are those that one more step would see.
    longer = copy.copy(attack)
    longer.num_steps = attack.num_steps + 1

    def record(logits, y):
        right = tf.argmax(logits, -1, y.dtype) == y[:, tf.newaxis]
        loss = objectives.cross_entropy_of(logits, y)
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32), axis=1)
        return tf.reduce_mean(loss, axis=1), accuracy

    @tf.function(autograph=False)
    def traced(x, y):
        # The seeds are those of `attack.distribution(..., seed=seed)`.
        key = seeds.fold(seeds.make(seed), 0)
        return longer.trace(classifier, x, y, record, seed=key)

    return traced


def draw_convergence(results: Convergence, path: str | os.PathLike) -> None:
    """Draws loss and accuracy against the number of steps."""
    figure = plots.make_figure(height=3.6)
    left, right = figure.subplots(1, 2)
    steps = np.arange(results.loss.shape[1])
    # A dozen markers, on whole steps.
    every = max(1, len(steps) // 12)
    for axes, values in ((left, results.loss), (right, 100 * results.accuracy)):
        for i, name in enumerate(results.names):
            axes.plot(
                steps,
                values[i],
                color=plots.color(i),
                marker=plots.marker(i),
                markersize=5,
                markevery=every,
                clip_on=False,  # markers on the frame are whole
                label=name,
            )
        axes.set(xlabel="steps of the attack")
        plots.tidy(axes)
    left.set(ylabel="cross-entropy (nats)", title="Mean loss")
    right.set(ylabel="accuracy (%)", title="Accuracy", ylim=(0, 102))
    left.set_ylim(bottom=0)
    figure.legend(
        *left.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=min(4, len(results.names)),
        frameon=False,
    )
    figure.suptitle(
        f"Samples of {results.attack.split('-')[0]}'s distributions, "
        f"{results.num_examples} images"
    )
    plots.save(figure, path)
