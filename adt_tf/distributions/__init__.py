"""Adversarial distributions: what the inner problem optimises.

    distribution = TanhGaussian(Linf(8 / 255))
    params = distribution.init(x, seed)                  # phi_0, per example
    noise = distribution.noise(x, num_samples, seed)     # drawn apart
    x_adv, entropy = distribution.sample(x, params, noise)
    params = distribution.project(x, params)

Interfaces: `Family`, `NetworkFamily` and `AmortizedFamily`. Parts: `Dirac` (a
point: PGD and its kin), `TanhGaussian` (ADT-EXP); for the amortised attacks
`Generated`, which takes the parameters of either from a network (ADT-EXP-AM,
L2L), and `Implicit` (ADT-IMP-AM). `entropies` has the entropies of a
`TanhGaussian`. Samples are laid out [batch, num_samples, ...].
"""

from adt_tf.distributions.base import (
    AmortizedFamily,
    Family,
    NetworkFamily,
)
from adt_tf.distributions.dirac import Dirac
from adt_tf.distributions.generated import Generated
from adt_tf.distributions.implicit import Implicit
from adt_tf.distributions.tanh_gaussian import TanhGaussian

__all__ = [
    "AmortizedFamily",
    "Dirac",
    "Family",
    "Generated",
    "Implicit",
    "NetworkFamily",
    "TanhGaussian",
]
