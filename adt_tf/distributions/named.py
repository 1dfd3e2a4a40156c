"""The explicit families by name, as recipes and flags give them.

named("gaussian", Linf(0.1))
named("mixture-5", Linf(0.1))      # five components
named("low-rank-8", Linf(0.1))     # eight directions
"""

from __future__ import annotations

import inspect
from typing import Any

from adt_tf.checks import arguments
from adt_tf.distributions.base import NetworkFamily
from adt_tf.distributions.tanh_gaussian import TanhGaussian
from adt_tf.distributions.tanh_low_rank import TanhLowRank
from adt_tf.distributions.tanh_mixture import TanhMixture
from adt_tf.threat_models import ThreatModel

# What each name stands for, and the argument that a number after it sets.
_FAMILIES: dict[str, tuple[Any, str | None]] = {
    "gaussian": (TanhGaussian, None),
    "mixture": (TanhMixture, "num_components"),
    "low-rank": (TanhLowRank, "rank"),
}


def split(family: str) -> tuple[str, int | None]:
    """Splits a name from the number after it.

    Example:

    >>> split("mixture-5"), split("low-rank")
    (('mixture', 5), ('low-rank', None))
    """
    name, dash, number = str(family).rpartition("-")
    if dash and number.isdecimal():
        return name, int(number)
    return str(family), None


def named(
    family: str, threat_model: ThreatModel, **settings: Any
) -> NetworkFamily:
    """Returns the explicit family of a name.

    Args:
        family: "gaussian", "mixture" or "low-rank"; the last two with a
            number of components or directions if you like.
        threat_model: The ball that is filled.
        **settings: `entropy_reduction`; and `entropy`, which only "gaussian"
            can have in another form than "perturbation".

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> named("mixture-5", Linf(0.1)).num_components
    5
    """
    name, number = split(family)
    kind, counted = _FAMILIES.get(name, (None, None))
    if kind is None or (number is not None and counted is None):
        raise arguments.error(
            f"be one of {', '.join(map(repr, _FAMILIES))}, the last two with "
            "a number if you like, as in 'mixture-5'",
            family=family,
        )
    if number is not None:
        settings[counted] = number
    if "entropy" not in inspect.signature(kind).parameters:
        entropy = settings.pop("entropy", "perturbation")
        if entropy != "perturbation":
            raise arguments.error(
                f"be 'perturbation' where the family is {family!r}",
                entropy=entropy,
            )
    return kind(threat_model, **settings)
