"""Threat models: how an adversary may change an image.

    threat_model = Linf(8 / 255)
    x_adv = threat_model.perturb(x, delta)     # in the ball and the pixel box
    threat_model.check(x, x_adv)               # raises if it is outside

`ThreatModel` is the interface; `Linf` and `L2` are the balls of the maximum
and of the Euclidean norm. No other module depends on a norm: another ball is
one more class, which `check` tries. `from_norm` and `norm_of` convert between
threat models and names, as flags and files have them.
"""

from __future__ import annotations

import numbers

from adt_tf.threat_models.base import ThreatModel
from adt_tf.threat_models.conformance import check
from adt_tf.threat_models.l2 import L2
from adt_tf.threat_models.linf import Linf

__all__ = [
    "L2",
    "NORMS",
    "Linf",
    "ThreatModel",
    "check",
    "from_norm",
    "get",
    "norm_of",
]

#: The names of norms in flags and files.
NORMS = {"linf": Linf, "l2": L2}


def from_norm(norm: str, epsilon: float) -> ThreatModel:
    """Returns the ball of a norm's name.

    Args:
        norm: "linf" or "l2".
        epsilon: Radius.

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
    """Returns the name of a threat model's norm in files.

    >>> norm_of(Linf(0.1))
    'linf'
    """
    for norm, kind in NORMS.items():
        if type(threat_model) is kind:
            return norm
    return threat_model.name


def get(threat_model: float | ThreatModel) -> ThreatModel:
    """Returns a threat model unchanged, or `Linf(epsilon)` for a number."""
    if isinstance(threat_model, numbers.Real):
        return Linf(threat_model)
    if not isinstance(threat_model, ThreatModel):
        raise ValueError(
            "Argument `epsilon` must be a number or a threat model such as "
            f"`Linf(8 / 255)`. Received: epsilon={threat_model!r}"
        )
    return threat_model
