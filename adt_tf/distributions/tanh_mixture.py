"""A mixture of squashed Gaussians: several modes for each image."""

from __future__ import annotations

import math

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.checks import arguments
from adt_tf.distributions import reductions
from adt_tf.distributions.reductions import Reduction
from adt_tf.distributions.squashed import Fused
from adt_tf.threat_models import ThreatModel


class TanhMixture(Fused):
    """A mixture of C diagonal Gaussians squashed into the ball.

        p(u) = 1 / C sum_c N(u; mu_c, sigma_c^2),  delta = squash(u)

    The components have equal weights: a sample is a differentiable function of
    its component's mu and sigma, but not of the weights, so an ascent could not
    change them. The entropy of a sample is minus its log-density under the
    whole mixture, which is lower where components overlap. They start at

        mu_c = spread (r_c - mean of r over the components),  r ~ N(0, I),

    so that a single component starts at 0 and is a `TanhGaussian`.

    Args:
        threat_model: Ball that the distribution fills.
        num_components: Number of Gaussians, C.
        spread: Standard deviation of the initial means.
        entropy_reduction: "mean" or "sum" over the dimensions.

    Reference: Ruan et al., Towards Viewpoint-Invariant Visual Recognition via
    Adversarial Training, 2023, for a mixture in the place of one Gaussian.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> family = TanhMixture(Linf(0.1), num_components=3)
    >>> params = family.init(tf.zeros([2, 8, 8, 1]), tf.constant([0, 0]))
    >>> params["mu"].shape
    TensorShape([2, 3, 8, 8, 1])
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        num_components: int = 3,
        spread: float = 0.5,
        entropy_reduction: str | Reduction = "mean",
    ) -> None:
        arguments.integer_at_least(1, num_components=num_components)
        arguments.number_at_least(0, spread=spread)
        super().__init__(threat_model)
        self.num_components = num_components
        self.spread = spread
        self.entropy_reduction = reductions.get(entropy_reduction)

    @property
    def num_maps(self) -> int:
        """Number of parameters for each pixel value."""
        return 2 * self.num_components

    def describe(self) -> list[str]:
        """Returns the number of components, and the entropy's reduction."""
        return [f"num_components={self.num_components}", *super().describe()]

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns separate means, and rho = 0, which is sigma = 0.693."""
        shape = [self.num_components, *x.shape[1:]]
        start = seeds.per_example(
            lambda s: tf.random.stateless_normal(shape, s), x, seed
        )
        start = tf.ensure_shape(start, [None, *shape])
        start -= tf.reduce_mean(start, axis=1, keepdims=True)
        return {"mu": self.spread * start, "rho": tf.zeros_like(start)}

    def from_network(
        self, x: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Splits the channels into the components' means and their rho."""
        maps = tf.stack(tf.split(outputs, self.num_maps, axis=-1), axis=1)
        mu, rho = tf.split(maps, 2, axis=1)
        return {"mu": mu, "rho": rho}

    def _noise_size(self, x: tf.Tensor) -> int:
        """Returns d + 1, for r and a number that selects the component."""
        return math.prod(x.shape[1:]) + 1

    def _sample(
        self, x: tf.Tensor, mu: tf.Tensor, rho: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        sigma = tf.nn.softplus(rho)
        num_samples = noise.shape[1]
        r = tf.reshape(noise[..., :-1], [-1, num_samples, *x.shape[1:]])
        # The normal distribution function makes the last number uniform.
        uniform = 0.5 + 0.5 * tf.math.erf(noise[..., -1] / math.sqrt(2.0))
        component = tf.minimum(
            tf.cast(uniform * self.num_components, tf.int32),
            self.num_components - 1,
        )
        mean, deviation = (
            tf.gather(t, component, axis=1, batch_dims=1) for t in (mu, sigma)
        )
        u = mean + deviation * r
        # [batch, k, component, ...]
        distance = (u[:, :, tf.newaxis] - mu[:, tf.newaxis]) / sigma[
            :, tf.newaxis
        ]
        terms = -0.5 * tf.square(distance) - tf.math.log(sigma)[:, tf.newaxis]
        axes = list(range(3, len(terms.shape)))
        log_density = tf.reduce_logsumexp(tf.reduce_sum(terms, axes), axis=-1)
        size = math.prod(x.shape[1:])
        constant = math.log(self.num_components) + 0.5 * size * math.log(
            2 * math.pi
        )
        return self._squashed(x, u, constant - log_density)

    def as_tfp(
        self, x: tf.Tensor, params: dict[str, tf.Tensor]
    ) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        components = tfd.Independent(
            tfd.Normal(params["mu"], tf.nn.softplus(params["rho"])),
            reinterpreted_batch_ndims=len(x.shape) - 1,
        )
        weights = tf.zeros(tf.shape(params["mu"])[:2])
        return tfd.TransformedDistribution(
            tfd.MixtureSameFamily(tfd.Categorical(logits=weights), components),
            self.threat_model.bijector(x.shape[1:]),
        )
