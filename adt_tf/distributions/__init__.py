"""Adversarial distributions: what the inner problem optimises.

    distribution = TanhGaussian(Linf(8 / 255))
    params = distribution.init(x, seed)                  # phi_0, per example
    noise = distribution.noise(x, num_samples, seed)     # drawn apart
    x_adv, entropy = distribution.sample(x, params, noise)
    params = distribution.project(x, params)

Parts: `Dirac` (a point: PGD and its kin), `TanhGaussian` (ADT-EXP).
Samples are laid out [batch, num_samples, ...].
"""

from adt_tf.distributions.dirac import Dirac
from adt_tf.distributions.tanh_gaussian import TanhGaussian

__all__ = ["Dirac", "TanhGaussian"]
