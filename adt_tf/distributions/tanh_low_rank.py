"""A squashed Gaussian whose pixels vary together along a few directions."""

from __future__ import annotations

import math

import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from adt_tf import seeds
from adt_tf.checks import arguments
from adt_tf.distributions import reductions
from adt_tf.distributions.reductions import Reduction
from adt_tf.distributions.squashed import Squashed
from adt_tf.threat_models import ThreatModel


class TanhLowRank(Squashed):
    """A Gaussian of diagonal plus low-rank covariance, squashed.

        u = mu + sigma r + sum_j f_j z_j,   r ~ N(0, I_d),  z ~ N(0, I_R)
        covariance = diag(sigma^2) + F F^T,  F = [f_1 ... f_R]

    Samples of an independent Gaussian for each pixel differ by white noise.
    Here they also differ along R directions of the image. By the matrix
    determinant lemma,

        log det covariance = 2 sum log sigma
                             + log det(I_R + F^T diag(sigma^-2) F),

    which needs a determinant of R rows only. The entropy of a sample is

        |r|^2 / 2 + d log(2 pi) / 2 + log det covariance / 2 + log det squash.

    Here |r|^2 stands for the squared Mahalanobis distance of u. It has the same
    mean, d, and no gradient; the gradient of that distance has mean zero and
    would only add noise. With F = 0 it is a `TanhGaussian`. Directions start at
    N(0, 0.1^2), since F = 0 is a saddle point.

    Args:
        threat_model: Ball that the distribution fills.
        rank: Number of directions, R.
        entropy_reduction: "mean" or "sum" over the dimensions.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> family = TanhLowRank(Linf(0.1), rank=4)
    >>> params = family.init(tf.zeros([2, 8, 8, 1]), tf.constant([0, 0]))
    >>> params["factors"].shape
    TensorShape([2, 4, 8, 8, 1])
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        rank: int = 4,
        entropy_reduction: str | Reduction = "mean",
    ) -> None:
        arguments.integer_at_least(1, rank=rank)
        super().__init__(threat_model)
        self.rank = rank
        self.entropy_reduction = reductions.get(entropy_reduction)

    @property
    def num_maps(self) -> int:
        """Number of parameters for each pixel value."""
        return 2 + self.rank

    def describe(self) -> list[str]:
        """Returns the rank, and the reduction of the entropy."""
        return [f"rank={self.rank}", *super().describe()]

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns mu = 0, rho = 0 and small random directions."""
        shape = [self.rank, *x.shape[1:]]
        factors = seeds.per_example(
            lambda s: 0.1 * tf.random.stateless_normal(shape, s), x, seed
        )
        return {
            "mu": tf.zeros_like(x),
            "rho": tf.zeros_like(x),
            "factors": tf.ensure_shape(factors, [None, *shape]),
        }

    def from_network(
        self, x: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Splits the channels into mu, rho and the directions."""
        mu, rho, *factors = tf.split(outputs, self.num_maps, axis=-1)
        return {"mu": mu, "rho": rho, "factors": tf.stack(factors, axis=1)}

    def _noise_size(self, x: tf.Tensor) -> int:
        """Returns d + R, for r and then z."""
        return math.prod(x.shape[1:]) + self.rank

    def sample(
        self, x: tf.Tensor, params: dict[str, tf.Tensor], noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and their entropy [batch, k]."""
        shape, size = x.shape[1:], math.prod(x.shape[1:])
        mu, sigma, factors = self._vectors(x, params)
        r, z = noise[..., :size], noise[..., size:]
        u = mu[:, tf.newaxis] + sigma[:, tf.newaxis] * r + tf.matmul(z, factors)
        scaled = factors / sigma[:, tf.newaxis]
        inner = tf.matmul(scaled, scaled, transpose_b=True)
        inner += tf.eye(self.rank)
        diagonal = tf.linalg.diag_part(tf.linalg.cholesky(inner))
        half_log_det = tf.reduce_sum(tf.math.log(sigma), axis=-1)
        half_log_det += tf.reduce_sum(tf.math.log(diagonal), axis=-1)
        surprise = 0.5 * tf.reduce_sum(tf.square(r), axis=-1)
        surprise += half_log_det[:, tf.newaxis]
        surprise += 0.5 * size * math.log(2 * math.pi)
        u = tf.reshape(u, [-1, noise.shape[1], *shape])
        return self._squashed(x, u, surprise)

    def as_tfp(
        self, x: tf.Tensor, params: dict[str, tf.Tensor]
    ) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        shape = x.shape[1:]
        mu, sigma, factors = self._vectors(x, params)
        gaussian = tfd.MultivariateNormalDiagPlusLowRankCovariance(
            mu, tf.square(sigma), tf.linalg.matrix_transpose(factors)
        )
        return tfd.TransformedDistribution(
            gaussian,
            tfb.Chain(
                [
                    self.threat_model.bijector(shape),
                    tfb.Reshape(shape, [math.prod(shape)]),
                ]
            ),
        )

    def _vectors(
        self, x: tf.Tensor, params: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns mean and deviation [batch, d], directions [batch, R, d]."""
        size = math.prod(x.shape[1:])
        mu, rho = (
            tf.reshape(params[name], [-1, size]) for name in ("mu", "rho")
        )
        factors = tf.reshape(params["factors"], [-1, self.rank, size])
        return mu, tf.nn.softplus(rho), factors
