"""The interfaces of a distribution family.

`GradientAscent` climbs in a `Family`: every image has its own parameters. A
`NetworkFamily` can also take its parameters from a network's outputs.
`Amortized` trains an `AmortizedFamily`, whose own networks output a
distribution for every image.

Samples have the shape [batch, num_samples, ...]. Noise is drawn separately, so
that a sample is a differentiable function of parameters and noise.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from adt_tf.configs import Configured
from adt_tf.threat_models import ThreatModel

#: A nest of tensors whose first axis is the batch.
Params = Any


@runtime_checkable
class Family(Protocol):
    """Distributions of adversarial images, one for each set of parameters."""

    threat_model: ThreatModel

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> Params:
        """Returns the initial parameters of an ascent."""

    def noise(
        self,
        x: tf.Tensor,
        num_samples: int,
        seed: tf.Tensor,
        *,
        piece: tuple[tf.Tensor, int] | None = None,
    ) -> tf.Tensor:
        """Draws the noise of `num_samples` samples of each image.

        Args:
            x: Images [batch, ...].
            num_samples: Number of samples, k.
            seed: Seed; it gives an image the same noise in any batch.
            piece: (first, size) to return only these of the k samples, with
                the same noise as when all k are drawn.
        """

    def sample(
        self, x: tf.Tensor, params: Params, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and entropies [batch, k].

        The images satisfy the threat model. The mean of the entropies over the
        samples estimates the entropy of the distribution.
        """

    def project(self, x: tf.Tensor, params: Params) -> Params:
        """Returns the nearest valid parameters."""

    def as_tfp(self, x: tf.Tensor, params: Params) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""

    def scaled(self, share: float | tf.Tensor) -> Family:
        """Returns the family in a ball of radius share * epsilon."""

    def describe(self) -> list[str]:
        """Returns the settings that are not the defaults, for reports."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""


@runtime_checkable
class NetworkFamily(Family, Protocol):
    """A family whose parameters may be the outputs of a network.

    The families of `named` also have `num_maps`, the number of output channels
    that they take for each channel of an image.
    """

    def scaled(self, share: float | tf.Tensor) -> NetworkFamily:
        """Returns the family in a ball of radius share * epsilon."""

    def from_network(self, x: tf.Tensor, outputs: tf.Tensor) -> Params:
        """Returns the parameters that a network's outputs encode."""


@runtime_checkable
class AmortizedFamily(Protocol):
    """Distributions that networks output for each image."""

    threat_model: ThreatModel

    #: Models that a trainer trains along with the classifier.
    networks: tuple[keras.Model, ...]

    def noise(
        self, x: tf.Tensor, num_samples: int, seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws the noise of `num_samples` samples of each image."""

    def sample(
        self,
        x: tf.Tensor,
        conditioning: tf.Tensor,
        noise: tf.Tensor,
        *,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and entropies [batch, k].

        Args:
            x: Images [batch, ...].
            conditioning: Inputs of the networks: [x, g1, g2], by channels.
            noise: Result of `noise`.
            training: Mode of the networks.
        """

    def as_tfp(self, x: tf.Tensor, conditioning: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation.

        Raises `ValueError` if the distribution has no density.
        """

    def scaled(self, share: float | tf.Tensor) -> AmortizedFamily:
        """Returns the family with the same networks and share * epsilon."""

    def describe(self) -> list[str]:
        """Returns the settings that are not the defaults, for reports."""


class Scalable(Configured):
    """Rebuilds a family from its configuration in a ball of another radius."""

    threat_model: ThreatModel

    def scaled(self, share: float | tf.Tensor) -> Any:
        """Returns the family in a ball of radius share * epsilon."""
        threat_model = self.threat_model.scaled(share)
        return type(self)(**{**self.get_config(), "threat_model": threat_model})
