"""Which entropy of a squashed Gaussian is climbed.

    TanhGaussian(threat_model)                        # Perturbation()
    TanhGaussian(threat_model, entropy="gaussian")    # Gaussian()

An entropy is an object with a `name` and a method `terms`. Parts:
`Perturbation`, that of the perturbation itself (Eq. 11 of the paper), and
`Gaussian`, that of the Gaussian before it is squashed.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import tensorflow as tf

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Entropy(abc.ABC):
    """An entropy of delta = squash(u), u = mu + sigma * r, r ~ N(0, I)."""

    #: The name in reports and flags.
    name: str

    @abc.abstractmethod
    def terms(
        self,
        sigma: tf.Tensor,
        noise: tf.Tensor,
        log_det: tf.Tensor,
        log_scale: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the terms of each dimension, to be reduced over them.

        Args:
            sigma: Standard deviations [batch, ...].
            noise: r [batch, k, ...].
            log_det: The logarithm of the squashing's derivative at u, in a
                ball of radius 1 [batch, k, ...].
            log_scale: The logarithm of the radius.

        Returns:
            The terms of an image [batch, ...], and those of its samples
            [batch, k, ...], which are added after the reduction.
        """

    def describe(self) -> list[str]:
        """Returns what reports say of it: nothing of the default."""
        return [f"entropy={self.name}"]

    def get_config(self) -> dict[str, Any]:
        """Returns nothing: the class says it all."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Entropy:
        """Returns the entropy."""
        return cls(**config)


class Perturbation(Entropy):
    """Minus the log-density of the perturbation, in each dimension

        r^2 / 2 + log(2 pi) / 2 + log sigma + log_det + log_scale,

    an estimate, from one sample, of the entropy in Eq. 11. Wide Gaussians have
    little of it: squashed, their mass lies at the border of the ball.
    """

    name = "perturbation"

    def describe(self):
        """Returns nothing: it is the default."""
        return []

    def terms(self, sigma, noise, log_det, log_scale):
        """Returns log sigma with the constants; r^2 / 2 + log_det."""
        return (
            tf.math.log(sigma) + (_HALF_LOG_2PI + log_scale),
            0.5 * tf.square(noise) + log_det,
        )


class Gaussian(Entropy):
    """The entropy of the Gaussian before the squashing, in each dimension

        log sigma + log(2 pi e) / 2,

    in closed form: it does not depend on the samples, nor on mu, and grows
    with sigma without end. With `entropy_reduction="sum"` it gives the order
    of distances in the paper's Figure 1, which Eq. 11 does not
    (docs/results.md).
    """

    name = "gaussian"

    def terms(self, sigma, noise, log_det, log_scale):
        """Returns log sigma with its constants."""
        del log_det, log_scale
        terms = tf.math.log(sigma) + (_HALF_LOG_2PI + 0.5)
        return terms, tf.zeros_like(noise)


_ENTROPIES = {entropy.name: entropy for entropy in (Perturbation, Gaussian)}


def get(entropy: str | Entropy) -> Entropy:
    """Returns the entropy of that name, or the object itself.

    Example:

    >>> get("gaussian").name
    'gaussian'
    """
    if isinstance(entropy, Entropy):
        return entropy
    if entropy not in _ENTROPIES:
        raise ValueError(
            f"Argument `entropy` must be one of {sorted(_ENTROPIES)} or an "
            f"`Entropy`. Received: entropy={entropy!r}"
        )
    return _ENTROPIES[entropy]()
