"""Estimators of the gradient of an ascent: backpropagation, or queries.

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

#: The format of the classifier itself.
FLOAT32 = "float32"
#: Formats of a search.
PRECISIONS = (FLOAT32, "bfloat16")


class GradientEstimator(Configured, abc.ABC):
    """Estimates the gradient of the function that an ascent climbs.

    Attributes:
        images_per_example: Number of images that the classifier sees at once
            in one estimate, for each sample.
        sample_chunk: Number of Monte-Carlo samples of a step that the
            classifier sees at once; None for all.
        precision: Format in which the classifier computes during the search,
            one of `PRECISIONS`.
        search: "gradient" if it differentiates the classifier, "queries" if it
            sees the outputs alone.
    """

    images_per_example: int = 1
    sample_chunk: int | None = None
    precision: str = FLOAT32
    search: str = "gradient"
    #: Whether repeated estimates at the same point are equal.
    is_exact: bool = False

    @property
    def passes(self) -> int:
        """Number of images that the classifier sees in one estimate."""
        return self.images_per_example

    def describe(self) -> list[str]:
        """Returns the words for an attack's repr."""
        return []

    def noise(self, x: tf.Tensor, seed: tf.Tensor) -> Any:
        """Draws the noise of one estimate; by default there is none."""
        del x, seed
        return ()

    @abc.abstractmethod
    def estimate(
        self, climbed: Callable[..., Any], params: Any, noise: Any
    ) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Returns the gradients, and the images and logits at `params`.

        Args:
            climbed: Function of (params, offset) that returns (values
                [batch, k], x_adv, logits); it first moves the images by
                `offset` [1 or batch, k, ...] if that is not None.
            params: Parameters at which the gradient is estimated.
            noise: Result of `noise`.

        Returns:
            The gradients of the sum of the values, and the images and logits
            at the parameters themselves.
        """


# The sum of the squares of many such slopes is still finite in float32.
_STEEPEST = 1e18


def finite(slopes: Any) -> Any:
    """Replaces NaN by zero and clips slopes to [-1e18, 1e18].

    One NaN would turn the whole image into NaN, which every classifier gets
    wrong; and Adam's square of 1e20 is infinite. On a classifier without
    gradients an attack makes no progress, but does not fail; `adt_tf.lint`
    reports such a classifier.
    """

    def bounded(slope: tf.Tensor) -> tf.Tensor:
        slope = tf.clip_by_value(slope, -_STEEPEST, _STEEPEST)
        return tf.where(tf.math.is_nan(slope), tf.zeros_like(slope), slope)

    return tf.nest.map_structure(bounded, slopes)


@dataclasses.dataclass(frozen=True)
class _Backpropagation(GradientEstimator):
    sample_chunk: int | None = None
    precision: str = FLOAT32

    is_exact = True

    def __post_init__(self) -> None:
        arguments.one_of(PRECISIONS, precision=self.precision)

    def describe(self) -> list[str]:
        return [] if self.precision == FLOAT32 else [self.precision]

    def estimate(
        self, climbed: Callable[..., Any], params: Any, noise: Any
    ) -> tuple[Any, tf.Tensor, tf.Tensor]:
        del noise
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            values, x_adv, logits = climbed(params, None)
            # Examples do not interact, so the gradient of the sum over the
            # batch is each example's own.
            total = tf.reduce_sum(tf.reduce_mean(values, axis=1))
        # A classifier without gradients counts as one with zero gradients.
        slopes = tape.gradient(
            total, params, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return finite(slopes), x_adv, logits


def backpropagation(
    sample_chunk: int | None = None, precision: str = FLOAT32
) -> GradientEstimator:
    """Returns an estimator that differentiates the classifier.

    Args:
        sample_chunk: Number of Monte-Carlo samples that the classifier sees at
            once, a divisor of the attack's `num_samples`; by default all.
            Fewer need less memory and give the same result.
        precision: "float32" for the classifier as it is; "bfloat16" for its
            form in that format (`adt_tf.kernels.half`), which is faster on
            CPUs that support it. Images and parameters stay in float32.
    """
    return _Backpropagation(sample_chunk, precision)


@dataclasses.dataclass(frozen=True)
class _SPSA(GradientEstimator):
    num_samples: int
    radius: float

    search = "queries"

    def __post_init__(self) -> None:
        count = self.num_samples
        if not isinstance(count, int) or count < 2 or count % 2:
            raise ValueError(
                "Argument `num_samples` must be an even number of queries, "
                "such as 256, since queries come in pairs. Received: "
                f"num_samples={count}"
            )

    # It is never assigned.
    @property
    def images_per_example(self) -> int:  # type: ignore[override]
        return self.num_samples

    @property
    def passes(self) -> int:
        # The classifier also sees the image itself.
        return self.num_samples + 1

    def describe(self) -> list[str]:
        return [f"spsa({self.num_samples}, {self.radius:g})"]

    def noise(self, x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
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

    def estimate(
        self, climbed: Callable[..., Any], params: Any, noise: Any
    ) -> tuple[Any, tf.Tensor, tf.Tensor]:
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
    """Returns an estimator that uses the values of the objective alone.

        g = 2/n sum_{i <= n/2} v_i (f(x + r v_i) - f(x - r v_i)) / (2 r),
        v_i uniform on {-1, 1}^d

    A step makes n queries, in n / 2 pairs, as the paper's released code counts
    them. It works only for a point (a Dirac family), whose parameter is the
    image itself. All images of a batch share the directions v_i, so the
    estimate for one does not depend on the others.

    Args:
        num_samples: Number of queries in a step, n; even.
        radius: Length r of a perturbation in each pixel.

    Reference: Uesato et al., Adversarial Risk and the Dangers of Evaluating
    Against Weak Attacks, 2018.
    """
    return _SPSA(num_samples, radius)
