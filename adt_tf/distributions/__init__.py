"""Adversarial distributions: the inner problem optimises their parameters.

    distribution = TanhGaussian(Linf(8 / 255))
    params = distribution.init(x, seed)                  # phi_0, per example
    noise = distribution.noise(x, num_samples, seed)
    x_adv, entropy = distribution.sample(x, params, noise)
    params = distribution.project(x, params)

Interfaces: `Family`, `NetworkFamily` and `AmortizedFamily`. Parts: `Dirac` (a
point, for PGD and its relatives) and `Empirical` (several points);
`TanhGaussian` (ADT-EXP), `TanhMixture` and `TanhLowRank`, which `named` builds
by name. For the amortised attacks: `Generated`, which takes the parameters of
any of these from a network (ADT-EXP-AM, L2L), `Flow`, `Implicit` (ADT-IMP-AM),
and `ImplicitStein`, which estimates its entropy from samples (`stein`).
`entropies` has the entropies of a `TanhGaussian`. Samples have the shape
[batch, num_samples, ...].
"""

from adt_tf.distributions.base import (
    AmortizedFamily,
    Family,
    NetworkFamily,
)
from adt_tf.distributions.dirac import Dirac
from adt_tf.distributions.empirical import Empirical
from adt_tf.distributions.flow import Flow
from adt_tf.distributions.generated import Generated
from adt_tf.distributions.implicit import Implicit
from adt_tf.distributions.implicit_stein import ImplicitStein
from adt_tf.distributions.tanh_gaussian import TanhGaussian
from adt_tf.distributions.tanh_low_rank import TanhLowRank
from adt_tf.distributions.tanh_mixture import TanhMixture

__all__ = [
    "AmortizedFamily",
    "Dirac",
    "Empirical",
    "Family",
    "Flow",
    "Generated",
    "Implicit",
    "ImplicitStein",
    "NetworkFamily",
    "TanhGaussian",
    "TanhLowRank",
    "TanhMixture",
]
