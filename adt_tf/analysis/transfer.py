"""Figure 4: accuracy on adversarial images found on other classifiers.

results = measure_transfer(
    {"AT-PGD": one, "ADT-EXP": other}, test, attacks.pgd(8 / 255))
print(results.to_dict())
draw_transfer(results, "transfer.png")
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib.patches import Rectangle

from adt_tf import checks, data
from adt_tf.analysis import by_name, map_batches, plots
from adt_tf.attacks import Attack
from adt_tf.checks import arguments


@dataclasses.dataclass(frozen=True, eq=False)
class TransferMatrix:
    """Accuracies on adversarial images found on other classifiers.

    Attributes:
        names: Names of the classifiers.
        accuracy: Accuracy of each target on the images found on each source
            [sources, targets]; the diagonal is white-box.
        natural: Accuracy of each target on clean images [targets].
        attack: Name of the attack.
        num_examples: Number of attacked images.
        seed: Seed of the attack's noise.
    """

    names: tuple[str, ...]
    accuracy: np.ndarray
    natural: np.ndarray
    attack: str
    num_examples: int
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary for JSON, with `accuracy[source][target]`."""
        return {
            "attack": self.attack,
            "num_examples": self.num_examples,
            "natural": by_name(self.names, self.natural),
            "accuracy": {
                source: by_name(self.names, row)
                for source, row in zip(self.names, self.accuracy, strict=True)
            },
            "seed": self.seed,
        }


def measure_transfer(
    classifiers: Mapping[str, Any],
    dataset: Any,
    attack: Attack,
    *,
    batch_size: int = 128,
    seed: int = 0,
    verbose: bool = False,
) -> TransferMatrix:
    """Attacks every classifier, and tests all of them on the images found.

    An image counts as correct if the target classifies it correctly both clean
    and attacked.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        dataset: (images, labels), or a data set as in `adt_tf.evaluate`.
        attack: Attack, such as `adt_tf.attacks.pgd(8 / 255)`.
        batch_size: Number of images in a batch.
        seed: Seed of the attack's noise.
        verbose: Whether to show a progress bar for each source.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 5.2.
    """
    if not isinstance(attack, Attack):
        raise arguments.error(
            "be an attack such as "
            "`adt_tf.attacks.get('pgd-20', epsilon=8 / 255)`",
            attack=attack,
        )
    for classifier in classifiers.values():
        checks.check_classifier(classifier)
    images, labels = data.as_arrays(dataset)

    @tf.function(autograph=False)
    def correct(x, y):
        """Returns booleans [batch, targets]."""
        logits = [f(x, training=False) for f in classifiers.values()]
        return tf.stack(
            [tf.argmax(z, axis=-1, output_type=y.dtype) == y for z in logits],
            axis=1,
        )

    natural = map_batches(correct, images, labels, batch_size=batch_size)
    accuracy = []
    for source in classifiers.values():

        def attacked(x, y, source=source):
            x_adv = attack(source, x, y, seed=seed).x_adv
            attack.threat_model.check(x, x_adv)
            return correct(x_adv, y)

        outcomes = map_batches(
            attacked, images, labels, batch_size=batch_size, verbose=verbose
        )
        accuracy.append(np.mean(natural & outcomes, axis=0))
    return TransferMatrix(
        tuple(classifiers),
        np.array(accuracy),
        natural.mean(axis=0),
        attack.name,
        len(labels),
        seed,
    )


def draw_transfer(results: TransferMatrix, path: str | os.PathLike) -> None:
    """Draws the accuracies in per cent, with a frame around white boxes."""
    count = len(results.names)
    values = 100 * np.vstack([results.natural, results.accuracy])
    figure = plots.make_figure(height=1.9 + 0.62 * (count + 1))
    axes = figure.subplots()
    picture = axes.imshow(
        values, cmap=plots.COLORMAP, vmin=0, vmax=100, aspect="auto"
    )
    for (row, column), value in np.ndenumerate(values):
        axes.text(
            column,
            row,
            f"{value:.1f}",
            ha="center",
            va="center",
            fontsize=12,
            # The colour map is dark below the middle.
            color="white" if value < 50 else "black",
        )
    for i in range(count):
        axes.add_patch(
            Rectangle(
                (i - 0.46, i + 0.56),
                0.92,
                0.88,
                fill=False,
                edgecolor=plots.COLORS[1],
                linewidth=3,
            )
        )
    axes.axhline(0.5, color="white", linewidth=5)
    axes.set_xticks(range(count), results.names)
    axes.set_yticks(range(count + 1), ["none (clean)", *results.names])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set(
        xlabel="target (classifies the images)",
        ylabel="source (is attacked)",
        title=f"Accuracy under transferred {results.attack}",
    )
    figure.colorbar(picture, ax=axes, label="accuracy (%)")
    plots.note(
        figure,
        f"{results.num_examples} images. Frames mark white-box attacks: the "
        "target is the source.",
    )
    plots.save(figure, path)
