"""Figure 2 (f): curvature of the loss, by the Hessian's largest eigenvalue.

    results = measure_eigenvalues({"Standard": one, "ADT-EXP": other}, test)
    print(results.to_dict())
    draw_eigenvalues(results, "hessian.png")

In a ReLU network the logits are linear around almost every image, so all
curvature comes from the softmax: H = J^T (diag(p) - p p^T) J, where J is the
Jacobian of the logits. H has no negative eigenvalue and at most classes - 1
positive ones.
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

from adt_tf import data, seeds
from adt_tf.analysis import by_name, check_differentiable, plots
from adt_tf.analysis.loss_surface import log_odds


@dataclasses.dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Dominant eigenvalues of the input Hessian of the cross-entropy.

    Attributes:
        names: Names of the classifiers.
        eigenvalues: Eigenvalues of largest magnitude, signed
            [classifiers, images].
        seed: Seed of the initial vectors of the iterations.
    """

    names: tuple[str, ...]
    eigenvalues: np.ndarray
    seed: int

    @property
    def mean(self) -> dict[str, float]:
        """Mean over the images, for each classifier."""
        return by_name(self.names, self.eigenvalues.mean(axis=1))

    @property
    def standard_deviation(self) -> dict[str, float]:
        """Standard deviation over the images, for each classifier."""
        return by_name(self.names, self.eigenvalues.std(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        return {
            "num_examples": self.eigenvalues.shape[1],
            "mean": self.mean,
            "standard_deviation": self.standard_deviation,
            "median": by_name(self.names, np.median(self.eigenvalues, axis=1)),
            "seed": self.seed,
        }


def hessian_vector_product(
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> Callable[..., tf.Tensor]:
    """Compiles (x, y, v) -> H(x) v for a loss (x, y) -> [batch].

    It is the gradient of <gradient, v> (reverse over reverse).

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
    """Returns the eigenvalue of largest magnitude, signed, by Lanczos.

    Args:
        product: Function v -> H v of vectors [size], for a symmetric H.
        start: Initial vector [size], of 3 or more numbers.
        tolerance: Allowed relative error.
        max_restarts: Number of restarts of Lanczos, of about twenty products
            each.

    Example:

    >>> values = np.array([1.0, -3.0, 2.0, 0.5])
    >>> round(dominant_eigenvalue(lambda v: values * v, np.ones(4)), 6)
    -3.0
    """
    start = np.asarray(start, np.float64)
    start = start / np.linalg.norm(start)
    # Where the classifier is confident, H is tiny. Lanczos would compare it
    # with rounding errors of numbers near 1, so H is scaled first.
    scale = np.linalg.norm(product(start))
    if not np.isfinite(scale):
        raise ValueError(
            "A product with the Hessian is NaN or infinite, so there is no "
            "eigenvalue. Look for a division, a root or a logarithm in the "
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
            f"The eigenvalue did not converge to a relative error of "
            f"{tolerance:g}: products with the Hessian may be too noisy. "
            "Increase `tolerance`."
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
    """Measures the dominant eigenvalue of the input Hessian at each image.

        lambda with |lambda| = max |eig(grad_x^2 CE(f(x), y))|

    Images are not batched, because each needs its own number of products.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        dataset: (images, labels), or a data set as in `adt_tf.evaluate`.
        tolerance: Allowed relative error.
        seed: Seed of the initial vectors of the iterations.
        verbose: Whether to show a progress bar.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 5.3.
    """
    images, labels = data.as_arrays(dataset)
    check_differentiable(classifiers, images)
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
    """Draws the eigenvalue of every image, and the means, on a log scale."""
    num_classifiers, num_images = results.eigenvalues.shape
    figure = plots.make_figure(height=4.2)
    axes = figure.subplots()
    spread = 0.3 * np.linspace(-1, 1, num_images)
    for i, values in enumerate(results.eigenvalues):
        values = values[np.argsort(np.abs(values))]
        # A logarithmic axis cannot show signs, so the markers show them.
        for sign, marker in ((1, "o"), (-1, "v")):
            has_sign = np.sign(values) == sign
            axes.scatter(
                i + spread[has_sign],
                np.abs(values[has_sign]),
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
                label=label if i == 0 else "",
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
    triangles = ""
    if (results.eigenvalues < 0).any():
        triangles = " (triangles: negative)"
    plots.note(
        figure,
        f"A dot is one of {num_images} images, in order of size{triangles}. "
        "Below the names: mean ± standard deviation.",
    )
    plots.save(figure, path)
