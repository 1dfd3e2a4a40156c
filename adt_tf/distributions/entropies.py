"""The entropies of a squashed Gaussian.

    TanhGaussian(threat_model)                        # Perturbation()
    TanhGaussian(threat_model, entropy="gaussian")    # Gaussian()

An entropy is an object with a `name` and a method `terms`: `Perturbation` for
the perturbation itself (Eq. 11 of the paper), and `Gaussian` for the Gaussian
before it is squashed.
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
        """Returns the terms of each dimension, for a mean or a sum over them.

        Args:
            sigma: Standard deviations [batch, ...].
            noise: Noise r [batch, k, ...].
            log_det: Logarithm of the squashing's derivative at u, in a ball of
                radius 1 [batch, k, ...].
            log_scale: Logarithm of the radius.

        Returns:
            The terms of an image [batch, ...], and the terms of its samples
            [batch, k, ...]; callers add them after the reduction.
        """

    def describe(self) -> list[str]:
        """Returns the words for reports; the default has none."""
        return [f"entropy={self.name}"]

    def get_config(self) -> dict[str, Any]:
        """Returns an empty dictionary: an entropy has no settings."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Entropy:
        """Returns the entropy."""
        return cls(**config)


class Perturbation(Entropy):
    """Minus the log-density of the perturbation. In each dimension it is

        r^2 / 2 + log(2 pi) / 2 + log sigma + log_det + log_scale,

    an estimate, from one sample, of the entropy in Eq. 11. It is small for a
    wide Gaussian, whose mass is squashed to the border of the ball.
    """

    name = "perturbation"

    def describe(self) -> list[str]:
        """Returns nothing: it is the default."""
        return []

    def terms(
        self,
        sigma: tf.Tensor,
        noise: tf.Tensor,
        log_det: tf.Tensor,
        log_scale: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log sigma with the constants, and r^2 / 2 + log_det."""
        return (
            tf.math.log(sigma) + (_HALF_LOG_2PI + log_scale),
            0.5 * tf.square(noise) + log_det,
        )


class Gaussian(Entropy):
    """The entropy of the Gaussian before the squashing. In each dimension it is

        log sigma + log(2 pi e) / 2,

    in closed form: it does not depend on the samples or on mu, and grows with
    sigma without bound. With `entropy_reduction="sum"` it gives the order
    of distances in the paper's Figure 1, which Eq. 11 does not
    (docs/results.md).
    """

    name = "gaussian"

    def terms(
        self,
        sigma: tf.Tensor,
        noise: tf.Tensor,
        log_det: tf.Tensor,
        log_scale: Any,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log sigma with its constants, and zeros."""
        del log_det, log_scale
        terms = tf.math.log(sigma) + (_HALF_LOG_2PI + 0.5)
        return terms, tf.zeros_like(noise)


_ENTROPIES = {entropy.name: entropy for entropy in (Perturbation, Gaussian)}


def get(entropy: str | Entropy) -> Entropy:
    """Returns the entropy of a name, or the object itself.

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
