"""Figure 2 (a-e): the loss around an image, for several classifiers.

results = measure_loss_surfaces(
    {"Standard": one, "ADT-EXP": other}, (x[0], y[0]), epsilon=8 / 255)
draw_loss_surfaces(results, "loss_surface.png")
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib import ticker

from adt_tf import data, seeds, threat_models
from adt_tf.analysis import check_differentiable, map_batches, plots
from adt_tf.checks import arguments

#: Offsets along both directions, in units of epsilon.
OFFSETS = np.linspace(-2.0, 2.0, 41)
_DIAMOND = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
# Number of points of an outline; every eighth part of the circle is one.
_OUTLINE = 65
#: Probabilities of the true class at which contours are drawn.
CONFIDENCES = np.array([0.9, 0.5, 0.1, 0.01])


@dataclasses.dataclass(frozen=True, eq=False)
class LossSurfaces:
    """The cross-entropy on a grid around one image.

    Attributes:
        names: Names of the classifiers.
        offsets: Offsets along both directions, in units of epsilon [n].
        loss: Cross-entropy [classifiers, n along the gradient, n along the
            random direction].
        epsilon: Unit of the offsets.
        seed: Seed of the random direction.
        reach: Outline of the offsets inside the ball [classifiers, points, 2]:
            a diamond in l-infinity, an ellipse, nearly a disc, in l2. None is
            the diamond.
    """

    names: tuple[str, ...]
    offsets: np.ndarray
    loss: np.ndarray
    epsilon: float
    seed: int
    reach: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary for JSON, with the range of each surface."""
        return {
            "epsilon": self.epsilon,
            "offsets": [float(self.offsets[0]), float(self.offsets[-1])],
            "loss": {
                name: {"lowest": float(z.min()), "highest": float(z.max())}
                for name, z in zip(self.names, self.loss, strict=True)
            },
            "seed": self.seed,
        }


def log_odds(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns the log-odds [batch] against the true class.

        m = logsumexp_{c != y} z_c - z_y,   cross-entropy = log(1 + exp(m))

    The gradient of the cross-entropy is a positive multiple of the gradient of
    m, which does not underflow in float32 where the classifier is confident.

    Args:
        logits: Logits [batch, classes].
        y: Labels [batch].
    """
    logits = tf.cast(logits, tf.float32)
    is_true = tf.one_hot(y, logits.shape[-1], True, False)
    true = tf.reduce_sum(tf.where(is_true, logits, 0.0), axis=-1)
    others = tf.where(is_true, logits.dtype.min, logits)
    return tf.reduce_logsumexp(others, axis=-1) - true


def measure_loss_surfaces(
    classifiers: Mapping[str, Any],
    example: tuple[np.ndarray, int],
    *,
    epsilon: float | threat_models.ThreatModel,
    offsets: np.ndarray = OFFSETS,
    batch_size: int = 128,
    seed: int = 0,
    verbose: bool = False,
) -> LossSurfaces:
    """Measures the cross-entropy at x + epsilon (a d_g + b d_r).

    d_g is the direction of steepest ascent of the classifier at x; d_r is a
    random direction, the same for every classifier. In l-infinity they are the
    sign of the gradient and a random sign for each pixel. Both are corners of
    the unit ball, so an attack may reach |a| + |b| <= 1. The images are not
    clipped to the pixel range, whose edges would appear as kinks of the loss.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        example: One image [height, width, channels] and its label.
        epsilon: Unit of the offsets, or a threat model.
        offsets: Increasing values of a and b.
        batch_size: Number of images in a batch.
        seed: Seed of the random direction.
        verbose: Whether to show a progress bar for each classifier.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 5.3.
    """
    image, label = example
    x, y = data.as_arrays((np.asarray(image)[None], np.asarray(label)[None]))
    threat_model = threat_models.get(epsilon)
    offsets = np.asarray(offsets, np.float32)
    if offsets.ndim != 1 or len(offsets) < 2 or (np.diff(offsets) <= 0).any():
        raise arguments.error(
            "be two or more increasing numbers, such as np.linspace(-2, 2, 41)",
            offsets=offsets,
        )
    check_differentiable(classifiers, x)
    across = threat_model.random_direction(tf.constant(x), seeds.make(seed))
    a, b = np.meshgrid(offsets, offsets, indexing="ij")
    surfaces, outlines = [], []
    for classifier in classifiers.values():
        along = threat_model.steepest(_gradient(classifier, x, y))
        outlines.append(_outline(threat_model, along, across))
        evaluate = _loss_function(
            classifier, x, y, threat_model.epsilon, (along, across)
        )
        values = map_batches(
            evaluate,
            a.ravel(),
            b.ravel(),
            batch_size=batch_size,
            verbose=verbose,
        )
        surfaces.append(values.reshape(a.shape))
    return LossSurfaces(
        tuple(classifiers),
        offsets,
        np.array(surfaces),
        threat_model.epsilon,
        seed,
        np.array(outlines),
    )


def _outline(
    threat_model: threat_models.ThreatModel, along: tf.Tensor, across: tf.Tensor
) -> np.ndarray:
    """Returns the points (a, b) at which a d_g + b d_r leaves the unit ball."""
    angles = np.linspace(0, 2 * np.pi, _OUTLINE, dtype=np.float32)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    a, b = (points[:, i, None, None, None] for i in range(2))
    norms = threat_model.norm(a * along + b * across).numpy()
    # A gradient of zero is no limit; the line ends far outside the figure.
    return points / np.maximum(norms, 1e-3)[:, None]


def _gradient(classifier: Any, x: np.ndarray, y: np.ndarray) -> tf.Tensor:
    """Returns the gradient of the log-odds of one image."""
    x, y = tf.constant(x), tf.constant(y)

    @tf.function(autograph=False)
    def gradient():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            value = log_odds(classifier(x, training=False), y)
        return tape.gradient(value, x)

    return gradient()


def _loss_function(
    classifier: Any,
    x: np.ndarray,
    y: np.ndarray,
    radius: float | tf.Tensor,
    directions: tuple[tf.Tensor, tf.Tensor],
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Returns (a, b) -> cross-entropy, each [batch], for one image."""
    x, y = tf.constant(x), tf.constant(y)
    along, across = directions

    @tf.function(autograph=False)
    def loss(a, b):
        a, b = (tf.reshape(t, [-1, 1, 1, 1]) for t in (a, b))
        logits = classifier(
            x + radius * (a * along + b * across), training=False
        )
        return tf.nn.softplus(log_odds(logits, tf.repeat(y, tf.shape(a)[0])))

    return loss


def draw_loss_surfaces(results: LossSurfaces, path: str | os.PathLike) -> None:
    """Draws each surface above its contours, all on one scale."""
    count = len(results.names)
    columns = 2 if count in (2, 4) else min(count, 3)
    blocks = -(-count // columns)
    figure = plots.make_figure(height=0.5 + (3 if count == 1 else 4.6) * blocks)
    grid = figure.add_gridspec(
        2 * blocks, columns, height_ratios=(1.2, 1) * blocks
    )
    beside = figure.add_gridspec(1, 2)
    levels = ticker.MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(
        0, results.loss.max()
    )
    scale = {"cmap": plots.COLORMAP, "vmin": 0, "vmax": levels[-1]}
    all_axes = []
    for i, name in enumerate(results.names):
        block, column = divmod(i, columns)
        # A single pair side by side uses the full width.
        above, below = (
            (beside[0], beside[1])
            if count == 1
            else (grid[2 * block, column], grid[2 * block + 1, column])
        )
        solid = figure.add_subplot(above, projection="3d")
        flat = figure.add_subplot(below)
        solid.set_title(name)
        _draw_solid(results, i, solid, scale)
        picture = _draw_flat(results, i, flat, scale)
        all_axes += [solid, flat]
    figure.colorbar(
        picture,
        ax=all_axes,
        label="cross-entropy (nats)",
        ticks=levels,
        aspect=35 * blocks,
    )
    figure.suptitle(f"Loss around one image, ε = {_fraction(results.epsilon)}")
    plots.note(
        figure,
        "Lines: probability of the true class. Dashed: the reach of an attack.",
    )
    plots.save(figure, path)


def _draw_solid(results: LossSurfaces, i: int, axes: Any, scale: dict) -> None:
    a, b = np.meshgrid(results.offsets, results.offsets, indexing="ij")
    axes.plot_surface(
        a,
        b,
        results.loss[i],
        rcount=len(a),
        ccount=len(a),
        linewidth=0,
        antialiased=False,
        **scale,
    )
    axes.set_zlim(0, scale["vmax"])
    axes.view_init(elev=25, azim=-125)
    axes.set_xlabel("gradient", fontsize=plots.SMALL, labelpad=-8)
    axes.set_ylabel("random", fontsize=plots.SMALL, labelpad=-8)
    axes.tick_params(labelsize=plots.SMALL, pad=-3)
    axes.set_box_aspect((1, 1, 0.9), zoom=1.2)


def _draw_flat(results: LossSurfaces, i: int, axes: Any, scale: dict) -> Any:
    a, b = np.meshgrid(results.offsets, results.offsets, indexing="ij")
    loss = results.loss[i]
    picture = axes.pcolormesh(a, b, loss, shading="gouraud", **scale)
    lines = -np.log(CONFIDENCES)
    inside = lines[(lines > loss.min()) & (lines < loss.max())]
    if inside.size:
        contours = axes.contour(
            a, b, loss, inside, colors="white", linewidths=1
        )
        axes.clabel(
            contours,
            fmt=lambda line: f"{100 * np.exp(-line):.0f} %",
            fontsize=plots.SMALL,
        )
    reach = _DIAMOND if results.reach is None else results.reach[i]
    axes.plot(*reach.T, color="white", linestyle="--")
    limits = (results.offsets[0], results.offsets[-1])
    axes.set(
        xlim=limits, ylim=limits, xlabel="along gradient (ε)", aspect="equal"
    )
    if i == 0 or axes.get_subplotspec().is_first_col():
        axes.set_ylabel("along random (ε)")
    axes.set_title(
        f"loss {loss.min():.2f} to {loss.max():.2f}", fontsize=plots.SMALL
    )
    return picture


def _fraction(epsilon: float) -> str:
    """Writes multiples of 1/255 as a fraction, such as 8/255."""
    steps = 255 * epsilon
    if abs(steps - round(steps)) < 1e-3:
        return f"{round(steps)}/255"
    return f"{epsilon:g}"
