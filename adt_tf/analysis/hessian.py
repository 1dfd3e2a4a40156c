"""Figure 2 (f): how curved the loss is, by its Hessian's leading eigenvalue.

    results = measure_eigenvalues({"Standard": one, "ADT-EXP": other}, test)
    print(results.to_dict())
    draw_eigenvalues(results, "hessian.png")

In a network of ReLUs the logits are linear around almost every image: all
curvature is that of the softmax, H = J^T (diag(p) - p p^T) J, with J the
logits' Jacobian. It has no negative eigenvalue and at most classes - 1 others.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy.sparse import linalg

from adt_tf import checks, data, seeds
from adt_tf.analysis import plots
from adt_tf.analysis.loss_surface import log_odds


@dataclasses.dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Dominant eigenvalues of the input Hessian of the cross-entropy.

    Attributes:
        names: Of the classifiers.
        eigenvalues: Those of largest magnitude, signed [classifiers, images].
        seed: Of the vectors that the iterations start from.
    """

    names: tuple[str, ...]
    eigenvalues: np.ndarray
    seed: int

    @property
    def mean(self) -> dict[str, float]:
        """The mean over the images, for each classifier."""
        return self._by_name(self.eigenvalues.mean(axis=1))

    @property
    def standard_deviation(self) -> dict[str, float]:
        """The standard deviation over the images, for each classifier."""
        return self._by_name(self.eigenvalues.std(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold."""
        return {
            "num_examples": self.eigenvalues.shape[1],
            "mean": self.mean,
            "standard_deviation": self.standard_deviation,
            "median": self._by_name(np.median(self.eigenvalues, axis=1)),
            "seed": self.seed,
        }

    def _by_name(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))


def hessian_vector_product(
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> Callable[..., tf.Tensor]:
    """Compiles (x, y, v) -> H(x) v, of a loss (x, y) -> [batch].

    Reverse over reverse: the gradient of <gradient, v>.

    Example:

    >>> cubes = hessian_vector_product(lambda x, y: tf.reduce_sum(x**3, [1]))
    >>> cubes(tf.constant([[1.0, 2.0]]), None, tf.constant([[1.0, 1.0]]))
    <tf.Tensor: shape=(1, 2), dtype=float32, numpy=array([[ 6., 12.]], ...)>
    """

    @tf.function(autograph=False)
    def product(x, y, v):
        with tf.GradientTape(watch_accessed_variables=False) as outer:
            outer.watch(x)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(x)
                values = loss(x, y)
            slope = tf.reduce_sum(inner.gradient(values, x) * v)
        return outer.gradient(slope, x, unconnected_gradients="zero")

    return product


def dominant_eigenvalue(
    product: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    tolerance: float = 1e-3,
    max_restarts: int = 100,
) -> float:
    """Finds the eigenvalue of largest magnitude, signed, by Lanczos.

    Args:
        product: v -> H v, of vectors [size], for a symmetric H.
        start: The vector to start from [size], 3 or more numbers.
        tolerance: The relative error allowed.
        max_restarts: Of Lanczos; each takes some twenty products.

    Example:

    >>> values = np.array([1.0, -3.0, 2.0, 0.5])
    >>> round(dominant_eigenvalue(lambda v: values * v, np.ones(4)), 6)
    -3.0
    """
    start = np.asarray(start, np.float64)
    start = start / np.linalg.norm(start)
    # Where the classifier is sure, H is tiny, and Lanczos would compare it
    # with the rounding errors of numbers near 1.
    scale = np.linalg.norm(product(start))
    if not np.isfinite(scale):
        raise ValueError(
            "A product with the Hessian is NaN or infinite, so it has no "
            "eigenvalue: look for a quotient, a root or a logarithm in the "
            "classifier, and compute in float32."
        )
    if scale == 0:
        return 0.0
    operator = linalg.LinearOperator(
        (start.size, start.size),
        matvec=lambda v: np.asarray(product(v), np.float64).ravel() / scale,
        dtype=np.float64,
    )
    try:
        values = linalg.eigsh(
            operator,
            k=1,
            which="LM",
            v0=start,
            tol=tolerance,
            maxiter=max_restarts,
            return_eigenvectors=False,
        )
    except linalg.ArpackNoConvergence as error:
        raise ValueError(
            f"No eigenvalue was found to a relative error of {tolerance:g}: "
            "the products of the Hessian may be too noisy for it. Raise "
            "`tolerance`."
        ) from error
    return float(scale * values[0])


def measure_eigenvalues(
    classifiers: Mapping[str, Any],
    dataset: Any,
    *,
    tolerance: float = 1e-3,
    seed: int = 0,
    verbose: bool = False,
) -> Eigenvalues:
    """Measures the input Hessian's dominant eigenvalue at each image.

        lambda with |lambda| = max |eig(grad_x^2 CE(f(x), y))|

    Images come one by one: each needs its own number of products.

    Args:
        classifiers: From a name to a classifier of images in [0, 1].
        dataset: (images, labels), or as in `adt_tf.evaluate`.
        tolerance: The relative error allowed.
        seed: Of the vectors that the iterations start from.
        verbose: Whether to show a progress bar.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 5.3.
    """
    images, labels = data.as_arrays(dataset)
    starts = seeds.per_example(
        lambda s: tf.random.stateless_normal([images[0].size], s),
        tf.constant(images),
        seeds.make(seed),
    ).numpy()
    bar = keras.utils.Progbar(
        len(classifiers) * len(labels), verbose=int(verbose), unit_name="image"
    )
    eigenvalues = np.zeros([len(classifiers), len(labels)])
    for i, classifier in enumerate(classifiers.values()):
        checks.check_classifier(classifier)
        multiply = hessian_vector_product(_cross_entropy(classifier))
        for j in range(len(labels)):
            x, y = (
                tf.constant(images[j : j + 1]),
                tf.constant(labels[j : j + 1]),
            )

            def product(v, x=x, y=y, multiply=multiply):
                v = tf.constant(v.reshape(x.shape), tf.float32)
                return multiply(x, y, v).numpy().ravel()

            eigenvalues[i, j] = dominant_eigenvalue(
                product, starts[j], tolerance=tolerance
            )
            bar.add(1)
    return Eigenvalues(tuple(classifiers), eigenvalues, seed)


def _cross_entropy(classifier: Any) -> Callable[..., tf.Tensor]:
    def loss(x, y):
        return tf.nn.softplus(log_odds(classifier(x, training=False), y))

    return loss


def draw_eigenvalues(results: Eigenvalues, path: str | os.PathLike) -> None:
    """Draws every image's eigenvalue, and their means, on one log scale."""
    num_classifiers, num_images = results.eigenvalues.shape
    figure = plots.make_figure(height=4.2)
    axes = figure.subplots()
    spread = 0.3 * np.linspace(-1, 1, num_images)
    for i, values in enumerate(results.eigenvalues):
        values = values[np.argsort(np.abs(values))]
        # A logarithmic axis has no place for signs: they are the markers'.
        for sign, marker in ((1, "o"), (-1, "v")):
            chosen = np.sign(values) == sign
            axes.scatter(
                i + spread[chosen],
                np.abs(values[chosen]),
                s=14,
                marker=marker,
                color=plots.color(i),
                alpha=0.6,
                linewidths=0,
            )
        for value, line, label in (
            (values.mean(), "-", "mean"),
            (np.median(values), ":", "median"),
        ):
            axes.hlines(
                np.abs(value),
                i - 0.36,
                i + 0.36,
                color="black",
                linewidth=2,
                linestyle=line,
                label=label if i == 0 else None,
            )
    axes.set_yscale("log", nonpositive="mask")
    ticks = [
        f"{name}\n{results.mean[name]:.3g} ± "
        f"{results.standard_deviation[name]:.3g}"
        for name in results.names
    ]
    axes.set_xticks(range(num_classifiers), ticks)
    axes.set(
        xlim=(-0.5, num_classifiers - 0.5),
        ylabel="|eigenvalue| (nats per unit²)",
        title="Curvature of the loss: dominant eigenvalue of the input Hessian",
    )
    axes.legend(frameon=False, loc="best")
    plots.tidy(axes)
    triangles = " (a triangle: negative)" * bool(
        (results.eigenvalues < 0).any()
    )
    plots.note(
        figure,
        f"A dot is one of {num_images} images, by size{triangles}. Below the "
        "names: mean ± deviation.",
    )
    plots.save(figure, path)
