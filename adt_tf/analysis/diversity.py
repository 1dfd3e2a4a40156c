"""Figure 1: distances between perturbations of the same image.

    sources = [
        restarts(attacks.pgd(8 / 255)),
        samples(methods.adt_exp(8 / 255).attack),
    ]
    results = measure_diversity(classifier, test, sources)
    print(results.mean_distance)
    draw_diversity(results, "diversity.png")

`restarts` runs an attack several times with different noise and takes the
final image of each run; `samples` runs it once and samples the distribution
that it finds.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from scipy.spatial import distance
from sklearn import decomposition

from adt_tf import checks, data, objectives, seeds
from adt_tf.analysis import by_name, map_batches, plots
from adt_tf.attacks import Attack
from adt_tf.checks import arguments

#: Number of images whose perturbations are projected for the figure.
NUM_PROJECTED = 3


class Source(NamedTuple):
    """A source of perturbed images.

    `draw(classifier, x, y, num_samples, seed)` returns images
    [batch, num_samples, ...].
    """

    name: str
    draw: Callable[..., tf.Tensor]


@dataclasses.dataclass(frozen=True, eq=False)
class Diversity:
    """Distances between perturbations of the same image.

    Attributes:
        names: Names of the sources.
        distances: Mean l2 distance of two perturbations of an image
            [sources, images].
        projections: Perturbations of the first images on their two principal
            axes [projected images, sources, num_samples, 2].
        explained: Share of the variance that these axes explain [projected].
        success: Share of perturbations that are misclassified
            [sources, images].
        right: Whether the clean images are classified correctly [images].
        seed: Seed of the noise.
    """

    names: tuple[str, ...]
    distances: np.ndarray
    projections: np.ndarray
    explained: np.ndarray
    success: np.ndarray
    right: np.ndarray
    seed: int

    @property
    def mean_distance(self) -> dict[str, float]:
        """Mean distance over the images, for each source."""
        return by_name(self.names, self.distances.mean(axis=1))

    @property
    def fooled(self) -> dict[str, float]:
        """Share of misclassified perturbations, for each source.

        Only images that are classified correctly when clean count; NaN if
        there is none.
        """
        shares = [
            float(row[self.right].mean()) if self.right.any() else math.nan
            for row in self.success
        ]
        return dict(zip(self.names, shares, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        return {
            "num_examples": self.distances.shape[1],
            "num_samples": self.projections.shape[2],
            "mean_distance": self.mean_distance,
            "standard_deviation": by_name(
                self.names, self.distances.std(axis=1)
            ),
            "num_right": int(self.right.sum()),
            "fooled": {
                name: None if math.isnan(share) else share
                for name, share in self.fooled.items()
            },
            "explained_variance": self.explained.tolist(),
            "seed": self.seed,
        }


def restarts(attack: Attack, name: str | None = None) -> Source:
    """Returns the source of final images of independent runs of an attack."""

    def draw(classifier, x, y, num_samples, seed):
        def run(i):
            return _run(attack, classifier, x, y, 1, seeds.fold(seed, i))[:, 0]

        ends = tf.map_fn(
            run, tf.range(num_samples), fn_output_signature=tf.float32
        )
        return tf.experimental.numpy.swapaxes(ends, 0, 1)

    return Source(name or f"{attack.name}, restarts", draw)


def samples(attack: Attack, name: str | None = None) -> Source:
    """Returns the source of samples of an attack's distribution."""

    def draw(classifier, x, y, num_samples, seed):
        return _run(attack, classifier, x, y, num_samples, seed)

    return Source(name or f"{attack.name}, samples", draw)


def _run(
    attack: Attack,
    classifier: Any,
    x: tf.Tensor,
    y: tf.Tensor,
    num_samples: int,
    seed: tf.Tensor,
) -> tf.Tensor:
    # A call of the attack would return the strongest image that it has met.
    solution = attack.solve(classifier, x, y, seed=seeds.fold(seed, 0))
    return attack.sample(
        x, solution, num_samples=num_samples, seed=seeds.fold(seed, 1)
    ).x_adv


def measure_diversity(
    classifier: Any,
    dataset: Any,
    sources: Sequence[Source],
    *,
    num_samples: int = 50,
    batch_size: int = 32,
    seed: int = 0,
    verbose: bool = False,
) -> Diversity:
    """Measures the distances between perturbations of the same image.

        distance(image) = mean_{i < j} |delta_i - delta_j|_2

    Perturbations are measured after clipping to the pixel range. The principal
    axes are computed from the perturbations of all sources together, so that
    no source is favoured.

    Args:
        classifier: Classifier from images in [0, 1] to logits.
        dataset: (images, labels), or a data set as in `adt_tf.evaluate`.
        sources: Sources of perturbed images, such as
            `[restarts(pgd(8 / 255)), samples(exp(8 / 255))]`.
        num_samples: Number of perturbations of each image from each source.
        batch_size: Number of images in a batch.
        seed: Seed of the noise.
        verbose: Whether to show a progress bar.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 2.2.
    """
    checks.check_classifier(classifier)
    arguments.integer_at_least(
        2, "A distance needs two perturbations.", num_samples=num_samples
    )
    names = tuple(source.name for source in sources)
    if not names or len(set(names)) < len(names):
        raise arguments.error(
            "hold sources with different names",
            "Set `name` to distinguish them.",
            sources=list(names),
        )
    images, labels = data.as_arrays(dataset)

    key = seeds.make(seed)

    @tf.function(autograph=False)
    def draw(x, y):
        images = [
            source.draw(classifier, x, y, num_samples, key)
            for source in sources
        ]
        wrong = [
            tf.argmax(objectives.logits_of(classifier, x_adv), -1, y.dtype)
            != y[:, tf.newaxis]
            for x_adv in images
        ]
        deltas = tf.stack(images, axis=1) - x[:, tf.newaxis, tf.newaxis]
        clean = objectives.logits_of(classifier, x[:, tf.newaxis])[:, 0]
        right = tf.argmax(clean, -1, y.dtype) == y
        return deltas, tf.stack(wrong, axis=1), right

    first_projections: list[Any] = []

    def measure(x, y):
        deltas, wrong, right = draw(x, y)
        shape = (len(x), len(sources), num_samples, -1)
        deltas = deltas.numpy().reshape(shape)
        missing = NUM_PROJECTED - len(first_projections)
        first_projections.extend(_project(delta) for delta in deltas[:missing])
        distances = np.array(
            [[distance.pdist(d).mean() for d in delta] for delta in deltas]
        )
        return distances, wrong.numpy().mean(axis=-1), right

    distances, success, right = map_batches(
        measure, images, labels, batch_size=batch_size, verbose=verbose
    )
    projections, explained = (
        np.array(p) for p in zip(*first_projections, strict=True)
    )
    return Diversity(
        names, distances.T, projections, explained, success.T, right, seed
    )


def _project(deltas: np.ndarray) -> tuple[np.ndarray, float]:
    """Projects [sources, num_samples, size] onto two principal axes."""
    pca = decomposition.PCA(n_components=2, svd_solver="full")
    flat = deltas.reshape(-1, deltas.shape[-1]).astype(np.float64)
    points = pca.fit_transform(flat).reshape(*deltas.shape[:2], 2)
    return points, float(pca.explained_variance_ratio_.sum())


def draw_diversity(results: Diversity, path: str | os.PathLike) -> None:
    """Draws the projections on one scale, and the distance of every image."""
    num_sources = len(results.names)
    figure = plots.make_figure(height=4.6 + 0.3 * num_sources)
    grid = figure.add_gridspec(
        2, NUM_PROJECTED, height_ratios=(2.4, 0.6 + 0.4 * num_sources)
    )
    reach = 1.08 * np.abs(results.projections).max() or 1.0
    for i, points in enumerate(results.projections):
        axes = figure.add_subplot(grid[0, i])
        for s in range(num_sources):
            axes.scatter(*points[s].T, **_dots(s), label=results.names[s])
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        share = f"{100 * results.explained[i]:.0f} % of the variance"
        axes.set_title(f"image {i + 1}\n{share}", fontsize=10)
        axes.set_xlabel("first principal axis")
        if i == 0:
            axes.set_ylabel("second principal axis")
            handles = axes.get_legend_handles_labels()
        else:
            axes.tick_params(labelleft=False)
        plots.tidy(axes, "both")
    _draw_distances(results, figure.add_subplot(grid[1, :]))
    figure.legend(
        *handles, loc="outside lower center", ncols=num_sources, frameon=False
    )
    figure.suptitle("Perturbations of the same image, in pixels of [0, 1]")
    plots.save(figure, path)


def _dots(index: int) -> dict[str, Any]:
    return {
        "s": 20,
        "marker": plots.marker(index),
        "color": plots.color(index),
        "alpha": 0.6,
        "linewidths": 0,
    }


def _draw_distances(results: Diversity, axes: Any) -> None:
    num_sources, num_images = results.distances.shape
    spread = 0.2 * np.linspace(-1, 1, num_images)
    for s, values in enumerate(results.distances):
        mean = values.mean()
        axes.scatter(values, s + spread, **_dots(s))
        axes.vlines(mean, s - 0.3, s + 0.3, color="black", linewidth=2)
        axes.annotate(
            f"{mean:.2f}",
            (mean, s - 0.33),
            ha="center",
            va="bottom",
            fontweight="bold",
        )
    # An axis from zero does not exaggerate small differences.
    axes.set(
        xlim=(0, 1.05 * results.distances.max() or 1.0),
        ylim=(num_sources - 0.6, -0.75),
        xlabel="mean l2 distance between two perturbations of an image\n"
        f"(dots: {num_images} images; line: mean; fooled: of "
        f"{results.right.sum()} correct images)",
    )
    axes.set_yticks(
        range(num_sources),
        [
            f"{name}\n{100 * share:.0f} % fooled"
            for name, share in results.fooled.items()
        ],
    )
    plots.tidy(axes, "x")
