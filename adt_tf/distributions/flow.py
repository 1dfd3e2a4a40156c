"""A normalising flow: networks output a density of any shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd

from adt_tf.distributions import reductions
from adt_tf.distributions.reductions import Reduction
from adt_tf.distributions.squashed import Squashed
from adt_tf.kernels import twins
from adt_tf.threat_models import ThreatModel


class Flow(Squashed):
    """A generated Gaussian, transformed by coupling layers and squashed.

        u_0 = mu + sigma r,   (mu, rho) = generator([x, g1, g2])
        u_i = coupling_i(u_{i - 1}; x, g1, g2),   delta = squash(u_n)

    A coupling layer keeps one half of the values, the fields of one colour on
    a chessboard, and maps each other value a to a exp(s) + t, where a network
    computes s and t from the first half and the conditioning; the next layer
    moves the other colour. So the inverse is as cheap as the layer itself, and
    the log-determinant is the sum of s. tanh keeps s in [-1, 1]. The last
    convolution of a coupling network starts at 0, so that s = t = 0 and the
    flow starts as the `Generated` Gaussian of ADT-EXP-AM.

    Args:
        threat_model: Ball that the distribution fills.
        generator: Keras model from [x, g1, g2] to mu and rho, such as
            `networks.explicit_generator`.
        couplings: Keras models of the coupling layers, such as
            `networks.coupling`.
        entropy_reduction: "mean" or "sum" over the dimensions.

    Reference: Dinh et al., Density Estimation Using Real NVP, 2017.
    """

    def __init__(
        self,
        threat_model: ThreatModel,
        generator: keras.Model,
        couplings: Sequence[keras.Model],
        *,
        entropy_reduction: str | Reduction = "mean",
    ) -> None:
        super().__init__(threat_model)
        self.generator = generator
        self.couplings = list(couplings)
        self.networks = (generator, *couplings)
        self.entropy_reduction = reductions.get(entropy_reduction)

    def describe(self) -> list[str]:
        """Returns the number of coupling layers, and the reduction."""
        return [f"{len(self.couplings)} couplings", *super().describe()]

    def sample(
        self,
        x: tf.Tensor,
        conditioning: tf.Tensor,
        noise: tf.Tensor,
        *,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns images [batch, k, ...] and their entropy [batch, k]."""
        rank, size = len(x.shape) - 1, math.prod(x.shape[1:])
        mu, sigma = self._gaussian(conditioning, training=training)
        flow = self._bijector(x, conditioning, training=training)
        # The bijector expects the samples in the first axis.
        swap = [1, 0, *range(2, rank + 2)]
        start = mu + sigma * tf.transpose(noise, swap)
        u = tf.transpose(flow.forward(start), swap)
        log_det = flow.forward_log_det_jacobian(start, event_ndims=rank)
        surprise = 0.5 * tf.reduce_sum(
            tf.square(noise), axis=list(range(2, rank + 2))
        )
        surprise += tf.transpose(log_det)
        log_sigma = tf.reduce_sum(
            tf.math.log(sigma), axis=list(range(1, rank + 1))
        )
        surprise += log_sigma[:, tf.newaxis]
        surprise += 0.5 * size * math.log(2 * math.pi)
        return self._squashed(x, u, surprise)

    def as_tfp(self, x: tf.Tensor, conditioning: tf.Tensor) -> tfd.Distribution:
        """Returns the distribution of the perturbation."""
        mu, sigma = self._gaussian(conditioning)
        return tfd.TransformedDistribution(
            tfd.Independent(
                tfd.Normal(mu, sigma),
                reinterpreted_batch_ndims=len(x.shape) - 1,
            ),
            tfb.Chain(
                [
                    self.threat_model.bijector(x.shape[1:]),
                    self._bijector(x, conditioning),
                ]
            ),
        )

    def _gaussian(
        self, conditioning: tf.Tensor, *, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mean and the deviation of u_0."""
        outputs = twins.fast(self.generator)(conditioning, training=training)
        mu, rho = tf.split(tf.cast(outputs, tf.float32), 2, axis=-1)
        return mu, tf.nn.softplus(rho)

    def _bijector(
        self, x: tf.Tensor, conditioning: tf.Tensor, *, training: bool = False
    ) -> tfb.Bijector:
        """Chains the coupling layers, on vectors sorted by colour.

        Args:
            x: Images [batch, ...].
            conditioning: Inputs of the networks.
            training: Mode of the networks.

        Returns:
            A bijector of samples [..., batch, height, width, channels].
        """
        shape, size = x.shape[1:], math.prod(x.shape[1:])
        colors = np.indices(shape).sum(axis=0).ravel() % 2
        order = np.argsort(colors, kind="stable")
        back = np.argsort(order)

        def layer(network: keras.Model, first: int) -> tfb.Bijector:
            """Moves the values from index `first`, or before a negative one."""

            def shift_and_log_scale(
                half: tf.Tensor, num_moved: int
            ) -> tuple[tf.Tensor, tf.Tensor]:
                rows = tf.reshape(half, [-1, size - num_moved])
                zeros = tf.zeros([tf.shape(rows)[0], num_moved])
                parts = [rows, zeros] if first > 0 else [zeros, rows]
                images = tf.gather(tf.concat(parts, axis=1), back, axis=1)
                images = tf.reshape(images, [-1, *shape])
                copies = tf.shape(images)[0] // tf.shape(conditioning)[0]
                context = tf.tile(conditioning, [copies, 1, 1, 1])
                outputs = twins.fast(network)(
                    tf.concat([images, context], axis=-1), training=training
                )
                shift, log_scale = (
                    tf.gather(tf.reshape(maps, [-1, size]), order, axis=1)
                    for maps in tf.split(tf.cast(outputs, tf.float32), 2, -1)
                )
                moved = slice(first, None) if first > 0 else slice(first)
                like = tf.concat([tf.shape(half)[:-1], [num_moved]], axis=0)
                return (
                    tf.reshape(shift[:, moved], like),
                    tf.reshape(tf.tanh(log_scale[:, moved]), like),
                )

            return tfb.RealNVP(
                num_masked=first, shift_and_log_scale_fn=shift_and_log_scale
            )

        middle = size // 2
        layers = [
            layer(network, middle if i % 2 == 0 else middle - size)
            for i, network in enumerate(self.couplings)
        ]
        return tfb.Chain(
            [
                tfb.Reshape(shape, [size]),
                tfb.Permute(back),
                *reversed(layers),
                tfb.Permute(order),
                tfb.Reshape([size], shape),
            ]
        )
