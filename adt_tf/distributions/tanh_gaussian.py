"""The explicit adversarial distribution of ADT-EXP: a squashed Gaussian."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf.distributions import entropies, reductions
from adt_tf.distributions.entropies import Entropy
from adt_tf.distributions.reductions import Reduction
from adt_tf.distributions.squashed import Squashed, normal_noise
from adt_tf.threat_models import ThreatModel

tfd = tfp.distributions


class TanhGaussian(Squashed):
    """A diagonal Gaussian squashed into the ball, phi = (mu, rho).

        delta = epsilon * tanh(u),  u = mu + sigma * r,  r ~ N(0, I),
        sigma = softplus(rho),      mu and rho start at 0

    with tanh or what else the threat model squashes R^d into its ball with.
    The entropy of each sample is minus its log-density, for tanh

        sum_j [r_j^2 / 2 + log(2 pi) / 2 + log sigma_j
               + log(1 - tanh(u_j)^2) + log epsilon],

    with log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), the form of TFP's
    Tanh bijector, which stays finite where tanh(u) rounds to 1. Another
    entropy is one more object of `adt_tf.distributions.entropies`.

    Args:
        threat_model: The ball that is filled.
        entropy_reduction: "mean" over the dimensions, to which the paper's
            entropy weight 0.01 belongs, or "sum", as Eq. 11 is written.
        entropy: "perturbation", the entropy above; "gaussian", that of u,
            before the squashing; or an `Entropy`.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 3.1.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> distribution = TanhGaussian(Linf(0.1))
    >>> x = tf.fill([2, 8, 8, 1], 0.5)
    >>> p = distribution.as_tfp(x, distribution.init(x, seed=None))
    >>> p.event_shape, p.batch_shape
    (TensorShape([8, 8, 1]), TensorShape([2]))
    """

    #: The number of maps like an image that the parameters hold.
    num_maps = 2

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        entropy_reduction: str | Reduction = "mean",
        entropy: str | Entropy = "perturbation",
    ):
        self.threat_model = threat_model
        self.entropy = entropies.get(entropy)
        self.entropy_reduction = reductions.get(entropy_reduction)
        # Some thirty elementwise operations on k images for each, forward and
        # backward: fused by XLA they take a quarter of the time, on a CPU too.
        self._fused = tf.function(
            self._sample, jit_compile=True, autograph=False
        )

    def describe(self) -> list[str]:
        """Returns the entropy and its reduction, unless they are usual."""
        return super().describe() + self.entropy.describe()

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns mu = 0 and rho = 0, that is sigma = 0.693."""
        del seed
        return {"mu": tf.zeros_like(x), "rho": tf.zeros_like(x)}

    def from_network(
        self, x: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Takes the first half of the channels as mu, the second as rho."""
        del x
        mu, rho = tf.split(outputs, 2, axis=-1)
        return {"mu": mu, "rho": rho}

    def noise(
        self,
        x: tf.Tensor,
        num_samples: int,
        seed: tf.Tensor,
        *,
        piece: tuple[tf.Tensor, int] | None = None,
    ) -> tf.Tensor:
        """Draws r [batch, k, ...] for each image."""
        return normal_noise(x, num_samples, seed, piece=piece)

    def sample(
        self, x: tf.Tensor, params: dict[str, tf.Tensor], noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and their entropy [batch, k]."""
        return self._fused(x, params["mu"], params["rho"], noise)

    def _sample(self, x, mu, rho, noise):
        sigma = tf.nn.softplus(rho)
        u = mu[:, tf.newaxis] + sigma[:, tf.newaxis] * noise
        delta, log_det, log_scale = self.threat_model.squash(u)
        of_image, of_sample = self.entropy.terms(
            sigma, noise, log_det, log_scale
        )
        axes = list(range(1, len(x.shape)))
        # Terms of an image are reduced before they meet the samples.
        entropy = self.entropy_reduction(of_image, axis=axes)[:, tf.newaxis]
        entropy += self.entropy_reduction(of_sample, axis=[a + 1 for a in axes])
        return self.threat_model.perturb(x[:, tf.newaxis], delta), entropy

    def as_tfp(
        self, x: tf.Tensor, params: dict[str, tf.Tensor]
    ) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        return tfd.TransformedDistribution(
            tfd.Independent(
                tfd.Normal(params["mu"], tf.nn.softplus(params["rho"])),
                reinterpreted_batch_ndims=len(x.shape) - 1,
            ),
            self.threat_model.bijector(x.shape[1:]),
        )
