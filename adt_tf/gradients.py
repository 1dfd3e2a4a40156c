"""How an ascent learns which way is up: by backpropagation, or by queries.

    backpropagation()                # white box
    spsa(num_samples=256)            # black box: outputs only

An estimator is a pair: `noise(x, seed)` draws what a step needs, and

    estimate(climbed, params, noise) -> (gradients, x_adv, logits)

works out the gradients in the parameters of the sum of what is climbed, with
the images and logits seen at the parameters themselves. `climbed(params,
offset)` gives (values [batch, k], x_adv, logits), and moves the images by
`offset` [1 or batch, k, ...] first, where that is not None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf import configs


@dataclasses.dataclass(eq=False)
class GradientEstimator:
    """`noise(x, seed)` and `estimate(climbed, params, noise)`.

    `images_per_example` counts what one estimate shows the classifier at once.
    """

    name: str
    noise: Callable[[tf.Tensor, tf.Tensor], Any]
    estimate: Callable[..., tuple[Any, tf.Tensor, tf.Tensor]]
    images_per_example: int = 1


# Its square, and a sum of many, are float32 numbers still.
_STEEPEST = 1e18


def finite(slopes: Any) -> Any:
    """Takes a slope that is NaN for zero, and cuts those beyond 1e18.

    One NaN would make an image of nothing but NaN, which any classifier gets
    wrong; and Adam's square of 1e20 is infinite. Where a classifier has no
    gradient an attack is blind, not broken, and `adt_tf.lint` says so.
    """

    def bounded(slope):
        slope = tf.clip_by_value(slope, -_STEEPEST, _STEEPEST)
        return tf.where(tf.math.is_nan(slope), tf.zeros_like(slope), slope)

    return tf.nest.map_structure(bounded, slopes)


@configs.recorded
def backpropagation() -> GradientEstimator:
    """The exact gradient."""

    def estimate(climbed, params, noise):
        del noise
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            values, x_adv, logits = climbed(params, None)
            # Examples do not interact, so the gradient of the sum over the
            # batch is each example's own.
            total = tf.reduce_sum(tf.reduce_mean(values, axis=1))
        # A classifier without gradients has a gradient of zero: such an attack
        # is blind, not broken, and `adt_tf.lint` says so.
        slopes = tape.gradient(
            total, params, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return finite(slopes), x_adv, logits

    return GradientEstimator("backpropagation", lambda x, seed: (), estimate)


@configs.recorded
def spsa(num_samples: int = 256, radius: float = 0.001) -> GradientEstimator:
    """Simultaneous perturbation: a gradient from values of the loss alone.

        g = 2/n sum_{i <= n/2} v_i (f(x + r v_i) - f(x - r v_i)) / (2 r),
        v_i uniform on {-1, 1}^d

    A step asks for n values, those of n / 2 pairs, as the paper's released
    code counts them. Only for a point (a Dirac family), whose parameter is
    the image itself. All images of a batch share the directions v_i, so the
    estimate for one does not depend on the others.

    Args:
        num_samples: n, the number of queries a step; even.
        radius: r.

    Reference: Uesato et al., Adversarial Risk and the Dangers of Evaluating
    Against Weak Attacks, 2018.
    """

    if not isinstance(num_samples, int) or num_samples < 2 or num_samples % 2:
        raise ValueError(
            "Argument `num_samples` must be an even number of queries, such "
            "as 256, since they are made in pairs. Received: "
            f"num_samples={num_samples}"
        )
    num_pairs = num_samples // 2

    def noise(x, seed):
        bits = tf.random.stateless_uniform(
            tf.concat([[1, num_pairs], tf.shape(x)[1:]], axis=0),
            seed,
            0,
            2,
            dtype=tf.int32,
        )
        return tf.ensure_shape(
            2.0 * tf.cast(bits, tf.float32) - 1.0,
            [1, num_pairs, *x.shape[1:]],
        )

    def estimate(climbed, params, noise):
        _, x_adv, logits = climbed(params, None)
        offset = radius * tf.concat([noise, -noise], axis=1)
        plus, minus = tf.split(climbed(params, offset)[0], 2, axis=1)
        slope = (plus - minus) / (2 * radius)
        flat = tf.reshape(noise, [num_pairs, -1])
        gradient = tf.matmul(slope, flat) / num_pairs
        gradient = finite(tf.reshape(gradient, tf.shape(params)))
        return gradient, x_adv, logits

    return GradientEstimator(
        f"spsa({num_samples}, {radius:g})", noise, estimate, num_samples
    )
