"""The interfaces of a distribution family, as attacks use them.

`Family` is what `GradientAscent` climbs in: every image has parameters of its
own. `NetworkFamily` is such a family that also takes its parameters from a
network's outputs. `AmortizedFamily` is what `Amortized` trains: networks of
its own give a distribution for every image.

Samples are laid out [batch, num_samples, ...]. Noise is drawn apart from the
samples, so that a sample is a differentiable function of what is given.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from adt_tf.threat_models import ThreatModel

tfd = tfp.distributions

#: A nest of tensors whose first axis is the batch.
Params = Any


@runtime_checkable
class Family(Protocol):
    """Distributions of adversarial images, one for each set of parameters."""

    threat_model: ThreatModel

    def init(self, x: tf.Tensor, seed: tf.Tensor) -> Params:
        """Returns the parameters from which an ascent starts."""

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
            seed: The same seed gives an image the same noise in any batch.
            piece: (first, size) for these of the k samples only; the noise is
                what they have when all k are drawn.
        """

    def sample(
        self, x: tf.Tensor, params: Params, noise: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and entropies [batch, k].

        The images obey the threat model. The mean of the entropies over the
        samples estimates the entropy of the distribution.
        """

    def project(self, x: tf.Tensor, params: Params) -> Params:
        """Returns the nearest parameters that are allowed."""

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

    Those that `named` gives also say by `num_maps` how many channels of
    outputs they take for each channel of an image.
    """

    def from_network(self, x: tf.Tensor, outputs: tf.Tensor) -> Params:
        """Returns the parameters that the outputs of a network stand for."""


@runtime_checkable
class AmortizedFamily(Protocol):
    """Distributions that networks give for what they see of an image."""

    threat_model: ThreatModel

    #: What a trainer trains along with the classifier.
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
            conditioning: What the networks see: [x, g1, g2], by channels.
            noise: What `noise` gave.
            training: The mode of the networks.
        """

    def as_tfp(self, x: tf.Tensor, conditioning: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation, or raises.

        `ValueError` where the distribution has no density.
        """

    def scaled(self, share: float | tf.Tensor) -> AmortizedFamily:
        """Returns the family, same networks, in a ball of share * epsilon."""

    def describe(self) -> list[str]:
        """Returns the settings that are not the defaults, for reports."""
