"""Tries the methods of a threat model on random numbers.

    check(L1(1.0), (8, 8, 1))       # raises if methods contradict each other

An error in a norm of one's own can make every attack weak, so that any model
looks robust. Each rule is a function that yields the faults that it finds.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from adt_tf import configs, files, seeds
from adt_tf.checks import arguments
from adt_tf.threat_models.base import ThreatModel

# Relative error that rounding in float32 may cause.
_TOLERANCE = 1e-3
_NUM_IMAGES = 8
# Largest number of values of an image for which the Jacobian is computed.
_LARGEST_JACOBIAN = 256


def check(
    threat_model: ThreatModel, shape: Sequence[int], *, seed: int = 0
) -> None:
    """Checks that the methods of a threat model agree with each other.

    `norm` must be absolutely homogeneous, `limit` a projection onto its ball,
    `steepest` a unit vector along which a linear function rises as much as
    along any other that is tried, and random images must lie in the ball and
    the pixel box. `bijector`, if there is one, must have the inverse and the
    log-determinant of its map; the latter is tried for images of at most 256
    values. Copies must equal the original.

    Args:
        threat_model: A norm of your own, with an epsilon above 0.
        shape: Shape of an image, (height, width, channels). A small one, such
            as (8, 8, 3), takes about a second.
        seed: Seed of the images and gradients.

    Raises:
        ValueError: Names each method that fails, and how.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> check(Linf(0.1), (8, 8, 1))
    """
    if not isinstance(threat_model, ThreatModel):
        raise arguments.error("be a threat model", threat_model=threat_model)
    shape = arguments.image_shape(shape)
    arguments.number_above(0, epsilon=threat_model.epsilon)
    low, high = threat_model.bounds
    random = np.random.default_rng(seed)
    size = (_NUM_IMAGES, *shape)
    x = tf.constant(random.uniform(low, high, size), tf.float32)
    gradient = tf.constant(random.normal(size=size), tf.float32)
    faults = []
    for rule in _RULES:
        try:
            for fault in rule(threat_model, x, gradient):
                faults.append(fault)
        except Exception as error:
            # The code of a user may raise anything.
            name = rule.__name__.removeprefix("_")
            kind = type(error).__name__
            faults.append(f"{name}: raises {kind}: {files.first_line(error)}")
    faults = list(dict.fromkeys(faults))
    if faults:
        raise ValueError(
            f"The methods of {threat_model} contradict each other, so attacks "
            f"would make a model look robust. Received: {'; '.join(faults)}"
        )


def _norm(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    delta = threat_model.limit(gradient)
    size = threat_model.norm(delta).numpy()
    for factor in (-2.0, 0.5):
        scaled = threat_model.norm(factor * delta).numpy()
        if not _close(scaled, abs(factor) * size):
            yield (
                f"norm: must be absolutely homogeneous, but norm({factor:g} "
                f"delta) is {scaled[0]:g} where norm(delta) is {size[0]:g}"
            )
    if not _close(threat_model.norm(tf.zeros_like(x)), 0.0):
        yield "norm: must be 0 for no change"
    samples = tf.stack([delta, delta], axis=1)
    expected = np.stack([size, size], axis=1)
    sampled = threat_model.norm(samples)
    if sampled.shape != expected.shape or not _close(sampled, expected):
        yield (
            "norm: must be that of each sample, of shape "
            f"{expected.shape}, for samples {tuple(samples.shape)}: sum over "
            f"`example_axes(delta)`. Its shape is {tuple(sampled.shape)}"
        )


def _limit(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    epsilon = threat_model.epsilon
    limited = threat_model.limit(4 * epsilon * gradient)
    size = threat_model.norm(limited).numpy()
    if not np.all(size <= epsilon * (1 + _TOLERANCE)):
        yield f"limit: leaves the ball, with a norm of {size.max():g}"
    if not _close(threat_model.limit(limited), limited):
        yield "limit: must not change its own result"
    for unit in _units(threat_model, gradient):
        inside = 0.5 * epsilon * unit
        if not _close(threat_model.limit(inside), inside):
            yield "limit: must not change a point of norm epsilon / 2"
        outside = threat_model.limit(2 * epsilon * unit)
        size = threat_model.norm(outside).numpy()
        if not _close(size, epsilon):
            yield (
                "limit: must map a point of norm 2 epsilon to one of norm "
                f"epsilon, but its norm is {size.min() / epsilon:g} epsilon"
            )


def _steepest(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    unit = threat_model.steepest(gradient)
    size = threat_model.norm(unit).numpy()
    if not _close(size, 1.0):
        yield f"steepest: must have norm 1, but has {size[0]:g}"
    rise = _along(gradient, unit)
    others = list(_units(threat_model, gradient))
    for step in (0.01, 0.1, 1.0, 10.0):
        near = threat_model.limit_to_unit(unit + step * gradient)
        others += _normalized(threat_model, near)
    # Some of the other unit vectors are those of other images' gradients.
    best = np.max(
        [
            _along(gradient, tf.roll(other, shift, axis=0))
            for other in others
            for shift in range(_NUM_IMAGES)
        ],
        axis=0,
    )
    if not np.all(rise > 0):
        yield (
            "steepest: must rise along the gradient, but <gradient, steepest> "
            f"is {rise.min():g}"
        )
    elif not np.all(rise >= best * (1 - _TOLERANCE)):
        worst = np.argmin(rise / best)
        yield (
            "steepest: must rise most of all unit vectors, but <gradient, "
            f"steepest> is {rise[worst]:g}, and {best[worst]:g} for another"
        )
    if not _close(threat_model.steepest(tf.zeros_like(x)), 0.0):
        yield "steepest: must be 0 for a gradient of 0"


def _box(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    """Projected and random images lie in the ball and the box."""
    seed = seeds.make(0)
    low, high = threat_model.bounds
    far = 4 * threat_model.epsilon * gradient
    projected = threat_model.project(x, x + far)
    images = {
        "project": projected,
        "perturb": threat_model.perturb(x, far),
        "from_unit": threat_model.from_unit(x, threat_model.steepest(gradient)),
        "random_start": threat_model.random_start(x, seed),
        "random_surface": threat_model.random_surface(x, seed),
    }
    if threat_model.has("random_point"):
        images["random_point"] = threat_model.random_point(x, seed)
    noisy = threat_model.random_noise(x, 4, seed)
    if noisy.shape != [len(x), 4, *x.shape[1:]]:
        yield (
            "random_noise: must have shape [batch, num_draws, ...], but has "
            f"{tuple(noisy.shape)}"
        )
    else:
        images |= {"random_noise": tf.concat(tf.unstack(noisy, axis=1), 0)}
    outside = []
    for name, x_adv in images.items():
        repeats = len(x_adv) // len(x)
        try:
            threat_model.check(tf.tile(x, [repeats, 1, 1, 1]), x_adv)
        except ValueError:
            outside.append(name)
    if outside:
        yield (
            f"{', '.join(outside)}: must stay in the ball and the pixel box; "
            "if the box deforms the perturbations of this norm, override "
            "`project` and `distance`"
        )
    again = threat_model.project(x, projected)
    if not np.allclose(again, projected, atol=_TOLERANCE * (high - low)):
        yield "project: must not change its own result"


def _reach(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    """Extreme points are as far as the ball allows."""
    seed = seeds.make(0)
    low, high = threat_model.bounds
    size = threat_model.norm(threat_model.random_direction(x, seed)).numpy()
    if not _close(size, 1.0):
        yield f"random_direction: must have norm 1, but has {size[0]:g}"
    # In the middle of the box and at a small radius the box has no effect.
    small = copy.copy(threat_model)
    longest = float(tf.reduce_max(tf.abs(threat_model.steepest(gradient))))
    if longest > 0:
        small.epsilon = min(small.epsilon, 0.4 * (high - low) / longest)
    middle = tf.fill(x.shape, (low + high) / 2)
    on_surface = small.random_surface(middle, seed)
    share = small.distance(middle, on_surface).numpy() / small.epsilon
    if not np.all(share > 0.9):
        yield (
            "random_surface: must reach a norm of epsilon, but reaches "
            f"{share.min():g} epsilon"
        )
    relative = small.relative_size(on_surface - middle).numpy()
    if not 0 < relative.max() <= 1 + _TOLERANCE:
        yield (
            "relative_size: must lie between 0 and 1, but reaches "
            f"{relative.max():g}"
        )
    corners = tf.fill(x.shape, low), tf.fill(x.shape, high)
    far = float(tf.reduce_max(threat_model.distance(*corners)))
    most = threat_model.largest_epsilon(x.shape[1:])
    if not far <= most * (1 + _TOLERANCE):
        yield (
            f"largest_epsilon: is {most:g}, but a black image and a white one "
            f"are {far:g} apart"
        )


def _bijector(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    if not threat_model.has("bijector"):
        return
    shape = x.shape[1:]
    bijector = threat_model.bijector(shape)
    size = math.prod(shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(gradient)
        delta = bijector.forward(gradient)
    norm = threat_model.norm(delta).numpy()
    if not np.all(norm <= threat_model.epsilon * (1 + _TOLERANCE)):
        yield f"bijector: leaves the ball, with a norm of {norm.max():g}"
    # Addition, so that TFP does not return the remembered input.
    inverse = bijector.inverse(delta + 0.0)
    if not np.allclose(inverse, gradient, atol=0.01):
        yield "bijector: its inverse does not return the input"
    log_det = bijector.forward_log_det_jacobian(gradient, len(shape)).numpy()
    if log_det.shape != (len(x),):
        yield (
            f"bijector: its log-determinant must have shape {(len(x),)}, but "
            f"has {log_det.shape}"
        )
    elif size <= _LARGEST_JACOBIAN:
        jacobian = tape.batch_jacobian(
            delta, gradient, experimental_use_pfor=False
        )
        matrices = np.reshape(jacobian, [-1, size, size]).astype(np.float64)
        expected = np.linalg.slogdet(matrices)[1]
        if not np.allclose(log_det, expected, rtol=0.01, atol=0.01 * size):
            yield (
                f"bijector: its log-determinant is {log_det[0]:g}, but that "
                f"of its Jacobian {expected[0]:g}"
            )


def _get_config(
    threat_model: ThreatModel, x: tf.Tensor, gradient: tf.Tensor
) -> Iterator[str]:
    """Copies, rescaled or not, are the same ball."""
    far = 4 * threat_model.epsilon * gradient
    config = threat_model.get_config()
    again = threat_model.from_config(config)
    if configs.fingerprint(again.get_config()) != configs.fingerprint(config):
        yield "get_config: its result makes another threat model"
    elif not _close(again.limit(far), threat_model.limit(far)):
        yield "get_config: its result makes a threat model of another `limit`"
    by_tensor = threat_model.scaled(tf.constant(0.5)).limit(far)
    if not _close(by_tensor, threat_model.scaled(0.5).limit(far)):
        yield (
            "scaled: by a tensor, it sets `epsilon` alone: compute what "
            "depends on it in the methods instead of the constructor"
        )


_RULES = (_norm, _limit, _steepest, _box, _reach, _bijector, _get_config)


def _units(
    threat_model: ThreatModel, gradient: tf.Tensor
) -> Iterator[tf.Tensor]:
    """Yields vectors of norm 1: random, and at extreme points of the ball."""
    direction = threat_model.random_direction(gradient, seeds.make(1))
    for delta in (gradient, tf.sign(gradient), direction):
        yield from _normalized(threat_model, delta)


def _normalized(
    threat_model: ThreatModel, delta: tf.Tensor
) -> Iterator[tf.Tensor]:
    """Yields vectors divided by their norm, unless one is 0 or not finite."""
    size = threat_model.norm(delta)
    if np.all(np.isfinite(size) & (size > 0)):
        yield delta / tf.reshape(size, [-1, 1, 1, 1])


def _along(gradient: tf.Tensor, unit: tf.Tensor) -> np.ndarray:
    """Returns the inner product of each example."""
    return tf.reduce_sum(gradient * unit, axis=[1, 2, 3]).numpy()


def _close(value: tf.Tensor, expected: tf.Tensor | float) -> bool:
    """Returns whether values are equal, up to rounding of the largest."""
    scale = float(np.max(np.abs(expected))) or 1.0
    return np.allclose(value, expected, rtol=0, atol=_TOLERANCE * scale)
