"""How an ascent learns which way is up: by backpropagation, or by queries.

backpropagation()                # white box
backpropagation(sample_chunk=1)  # the same, with less memory
backpropagation(precision="bfloat16")
spsa(num_samples=256)            # black box: outputs only
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adt_tf.checks import arguments
from adt_tf.configs import Configured

#: Formats of a search. "float32" is whatever the classifier computes in.
PRECISIONS = ("float32", "bfloat16")


class GradientEstimator(Configured, abc.ABC):
    """Estimates the gradient of what an ascent climbs.

    Attributes:
        images_per_example: Number of images that one estimate shows the
            classifier at once, for each sample.
        sample_chunk: Number of Monte-Carlo samples of a step that are seen at
            once; None for all.
        precision: Format in which the classifier computes what an ascent sees
            of it, one of `PRECISIONS`.
    """

    images_per_example: int = 1
    sample_chunk: int | None = None
    precision: str = "float32"
    #: Whether the gradient is the same whenever it is estimated.
    is_exact: bool = False

    @property
    def passes(self) -> int:
        """The number of images that one estimate shows it in all."""
        return self.images_per_example

    def describe(self) -> list[str]:
        """Returns what an attack's repr says of it."""
        return []

    def noise(self, x: tf.Tensor, seed: tf.Tensor) -> Any:
        """Draws what the estimate of one step needs: here nothing."""
        del x, seed
        return ()

    @abc.abstractmethod
    def estimate(
        self, climbed: Callable[..., Any], params: Any, noise: Any
    ) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Returns the gradients in the parameters, and what was seen there.

        Args:
            climbed: A function of (params, offset) that returns (values
                [batch, k], x_adv, logits); it moves the images by `offset`
                [1 or batch, k, ...] first, where that is not None.
            params: Where the gradient is taken.
            noise: What `noise` has drawn.

        Returns:
            The gradients of the sum of the values, and the images and logits
            at the parameters themselves.
        """


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


@dataclasses.dataclass(frozen=True)
class _Backpropagation(GradientEstimator):
    sample_chunk: int | None = None
    precision: str = "float32"

    is_exact = True

    def __post_init__(self):
        arguments.one_of(PRECISIONS, precision=self.precision)

    def describe(self):
        return [] if self.precision == "float32" else [self.precision]

    def estimate(self, climbed, params, noise):
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


def backpropagation(
    sample_chunk: int | None = None, precision: str = "float32"
) -> GradientEstimator:
    """Returns the gradient of the classifier.

    Args:
        sample_chunk: Number of Monte-Carlo samples that the classifier sees at
            once, a divisor of the attack's `num_samples`; by default all.
            Fewer take less memory, for the same result.
        precision: "float32" for the classifier as it is; "bfloat16" for its
            form in that format (`adt_tf.kernels.half`), which is faster on
            CPUs that have it. Images and parameters stay in float32.
    """
    return _Backpropagation(sample_chunk, precision)


@dataclasses.dataclass(frozen=True)
class _SPSA(GradientEstimator):
    num_samples: int
    radius: float

    def __post_init__(self):
        count = self.num_samples
        if not isinstance(count, int) or count < 2 or count % 2:
            raise ValueError(
                "Argument `num_samples` must be an even number of queries, "
                "such as 256, since they are made in pairs. Received: "
                f"num_samples={count}"
            )

    @property
    def images_per_example(self) -> int:
        return self.num_samples

    @property
    def passes(self) -> int:
        return self.num_samples + 1  # The image itself is looked at as well.

    def describe(self):
        return [f"spsa({self.num_samples}, {self.radius:g})"]

    def noise(self, x, seed):
        num_pairs = self.num_samples // 2
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

    def estimate(self, climbed, params, noise):
        num_pairs, radius = self.num_samples // 2, self.radius
        _, x_adv, logits = climbed(params, None)
        offset = radius * tf.concat([noise, -noise], axis=1)
        plus, minus = tf.split(climbed(params, offset)[0], 2, axis=1)
        slope = (plus - minus) / (2 * radius)
        flat = tf.reshape(noise, [num_pairs, -1])
        gradient = tf.matmul(slope, flat) / num_pairs
        gradient = finite(tf.reshape(gradient, tf.shape(params)))
        return gradient, x_adv, logits


def spsa(num_samples: int = 256, radius: float = 0.001) -> GradientEstimator:
    """Returns simultaneous perturbation: a gradient from values alone.

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
    return _SPSA(num_samples, radius)
