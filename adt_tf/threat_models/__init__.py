"""Threat models: what an adversary may do to an image.

    threat_model = Linf(8 / 255)
    x_adv = threat_model.perturb(x, delta)     # in the ball and the pixel box
    threat_model.check(x, x_adv)               # raises if it is in neither

`ThreatModel` is the interface; `Linf` and `L2` are the balls of the maximum
and of the Euclidean norm. No other module knows a norm: another ball is one
more class.
"""

from __future__ import annotations

import numbers

from adt_tf.threat_models.base import ThreatModel
from adt_tf.threat_models.l2 import L2
from adt_tf.threat_models.linf import Linf

__all__ = ["L2", "Linf", "ThreatModel", "get"]


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
