"""The explicit adversarial distribution of ADT-EXP: a squashed Gaussian."""

from __future__ import annotations

import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf.distributions import entropies, reductions
from adt_tf.distributions.entropies import Entropy
from adt_tf.distributions.reductions import Reduction
from adt_tf.distributions.squashed import Fused
from adt_tf.threat_models import ThreatModel


class TanhGaussian(Fused):
    """A diagonal Gaussian squashed into the ball, phi = (mu, rho).

        delta = epsilon * tanh(u),  u = mu + sigma * r,  r ~ N(0, I),
        sigma = softplus(rho),      mu and rho start at 0

    with tanh or another bijector from R^d onto the threat model's ball. The
    entropy of each sample is minus its log-density, for tanh

        sum_j [r_j^2 / 2 + log(2 pi) / 2 + log sigma_j
               + log(1 - tanh(u_j)^2) + log epsilon],

    with log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u)), the form of TFP's
    Tanh bijector, which stays finite where tanh(u) rounds to 1. Another
    entropy is one more object of `adt_tf.distributions.entropies`.

    Args:
        threat_model: Ball that the distribution fills.
        entropy_reduction: "mean" over the dimensions, which matches the
            paper's entropy weight 0.01, or "sum", as in Eq. 11.
        entropy: "perturbation", the entropy above; "gaussian", the entropy of
            u before the squashing; or an `Entropy`.

    Reference: Dong et al., Adversarial Distributional Training, Sec. 3.1.

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> distribution = TanhGaussian(Linf(0.1))
    >>> x = tf.fill([2, 8, 8, 1], 0.5)
    >>> p = distribution.as_tfp(x, distribution.init(x, seed=None))
    >>> p.event_shape, p.batch_shape
    (TensorShape([8, 8, 1]), TensorShape([2]))
    """

    #: Number of parameters for each pixel value.
    num_maps = 2

    def __init__(
        self,
        threat_model: ThreatModel,
        *,
        entropy_reduction: str | Reduction = "mean",
        entropy: str | Entropy = "perturbation",
    ) -> None:
        super().__init__(threat_model)
        self.entropy = entropies.get(entropy)
        self.entropy_reduction = reductions.get(entropy_reduction)

    def describe(self) -> list[str]:
        """Returns the entropy and its reduction, unless they are defaults."""
        return super().describe() + self.entropy.describe()

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns mu = 0 and rho = 0, which is sigma = 0.693."""
        del seed
        return {"mu": tf.zeros_like(x), "rho": tf.zeros_like(x)}

    def from_network(
        self, x: tf.Tensor, outputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Takes the first half of the channels as mu, the second as rho."""
        del x
        mu, rho = tf.split(outputs, 2, axis=-1)
        return {"mu": mu, "rho": rho}

    def _sample(
        self, x: tf.Tensor, mu: tf.Tensor, rho: tf.Tensor, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        sigma = tf.nn.softplus(rho)
        u = mu[:, tf.newaxis] + sigma[:, tf.newaxis] * noise
        delta, log_det, log_scale = self.threat_model.squash(u)
        of_image, of_sample = self.entropy.terms(
            sigma, noise, log_det, log_scale
        )
        axes = list(range(1, len(x.shape)))
        # Terms of an image are reduced once, not for each sample.
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
