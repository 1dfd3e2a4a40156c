"""Figure 6: the loss after each step of EXP or another gradient ascent.

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
from adt_tf.analysis import by_name, map_batches, plots
from adt_tf.attacks import GradientAscent
from adt_tf.checks import arguments


@dataclasses.dataclass(frozen=True, eq=False)
class Convergence:
    """Loss and accuracy after each number of steps.

    Attributes:
        names: Names of the classifiers.
        loss: Mean cross-entropy of samples after t steps
            [classifiers, num_steps + 1].
        accuracy: Share of samples that are classified correctly, in the same
            shape.
        attack: Name of the attack.
        num_examples: Number of attacked images.
        seed: Seed of the attack's noise.
        image_loss: Loss of each image [classifiers, images, num_steps + 1], or
            None.
    """

    names: tuple[str, ...]
    loss: np.ndarray
    accuracy: np.ndarray
    attack: str
    num_examples: int
    seed: int
    image_loss: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        return {
            "attack": self.attack,
            "num_examples": self.num_examples,
            "loss": by_name(self.names, self.loss),
            "accuracy": by_name(self.names, self.accuracy),
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

    One run of the attack is enough: each step draws fresh samples of the
    current distribution to estimate its gradient, and these are recorded.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        dataset: (images, labels), or a data set as in `adt_tf.evaluate`.
        attack: Gradient ascent, such as
            `adt_tf.attacks.exp(8 / 255, num_steps=100)`.
        batch_size: Number of images in a batch.
        seed: Seed of the attack's noise.
        verbose: Whether to show a progress bar for each classifier.

    Reference: Dong et al., Adversarial Distributional Training, App. D.3.
    """
    if not isinstance(attack, GradientAscent):
        raise arguments.error(
            "be a gradient ascent, such as "
            "`adt_tf.attacks.exp(8 / 255, num_steps=100)`",
            attack=attack,
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
    # One more step draws the samples after the last step.
    longer = copy.copy(attack)
    longer.num_steps = attack.num_steps + 1

    def record(logits, y):
        is_correct = tf.argmax(logits, -1, y.dtype) == y[:, tf.newaxis]
        loss = objectives.cross_entropy_of(logits, y)
        accuracy = tf.reduce_mean(tf.cast(is_correct, tf.float32), axis=1)
        return tf.reduce_mean(loss, axis=1), accuracy

    @tf.function(autograph=False)
    def traced(x, y):
        # The same seeds as in `attack.distribution(..., seed=seed)`.
        key = seeds.fold(seeds.make(seed), 0)
        return longer.trace(classifier, x, y, record, seed=key)

    return traced


def draw_convergence(results: Convergence, path: str | os.PathLike) -> None:
    """Draws loss and accuracy against the number of steps."""
    figure = plots.make_figure(height=3.6)
    left, right = figure.subplots(1, 2)
    steps = np.arange(results.loss.shape[1])
    every = max(1, len(steps) // 12)  # about a dozen markers
    for axes, values in ((left, results.loss), (right, 100 * results.accuracy)):
        for i, name in enumerate(results.names):
            axes.plot(
                steps,
                values[i],
                color=plots.color(i),
                marker=plots.marker(i),
                markersize=5,
                markevery=every,
                clip_on=False,  # or the frame would cut markers in half
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
