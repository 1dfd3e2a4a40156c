"""Threat models: what an adversary may do to an image.

    threat_model = Linf(8 / 255)
    x_adv = threat_model.perturb(x, delta)     # in the ball and the pixel box
    threat_model.check(x, x_adv)               # raises if it is in neither

`ThreatModel` is the interface; `Linf` and `L2` are the balls of the maximum
and of the Euclidean norm. No other module knows a norm: another ball is one
more class. `from_norm` and `norm_of` are for what is written down by name, such
as a flag.
"""

from __future__ import annotations

import numbers

from adt_tf.threat_models.base import ThreatModel
from adt_tf.threat_models.l2 import L2
from adt_tf.threat_models.linf import Linf

__all__ = ["L2", "NORMS", "Linf", "ThreatModel", "from_norm", "get", "norm_of"]

#: The names of norms in flags and files.
NORMS = {"linf": Linf, "l2": L2}


def from_norm(norm: str, epsilon: float) -> ThreatModel:
    """Returns the ball of a norm that is known by name.

    Args:
        norm: "linf" or "l2".
        epsilon: The radius.

    Example:

    >>> from_norm("l2", 0.5)
    L2(epsilon=0.5, bounds=(0.0, 1.0))
    """
    if norm not in NORMS:
        raise ValueError(
            f"Argument `norm` must be one of {', '.join(NORMS)}; a norm of "
            f"your own is a `ThreatModel`. Received: norm={norm!r}"
        )
    return NORMS[norm](epsilon)


def norm_of(threat_model: ThreatModel) -> str:
    """Returns the name of a norm as files have it.

    >>> norm_of(Linf(0.1))
    'linf'
    """
    for norm, known in NORMS.items():
        if type(threat_model) is known:
            return norm
    return threat_model.name


def get(threat_model: float | ThreatModel) -> ThreatModel:
    """Returns a threat model as is, or `Linf(epsilon)` for a number."""
    if isinstance(threat_model, numbers.Real):
        return Linf(threat_model)
    if not isinstance(threat_model, ThreatModel):
        raise ValueError(
            "Argument `epsilon` must be a number or a threat model such as "
            f"`Linf(8 / 255)`. Received: epsilon={threat_model!r}"
        )
    return threat_model
