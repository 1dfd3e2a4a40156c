"""The explicit families by name, as recipes and flags give them.

named("gaussian", Linf(0.1))
named("mixture-5", Linf(0.1))      # five components
named("low-rank-8", Linf(0.1))     # eight directions
"""

from __future__ import annotations

import inspect
from typing import Any

from adt_tf.checks import arguments
from adt_tf.distributions import entropies
from adt_tf.distributions.entropies import Entropy, Perturbation
from adt_tf.distributions.tanh_gaussian import TanhGaussian
from adt_tf.distributions.tanh_low_rank import TanhLowRank
from adt_tf.distributions.tanh_mixture import TanhMixture
from adt_tf.threat_models import ThreatModel

#: The family of ADT-EXP.
DEFAULT = "gaussian"
#: The entropy of Eq. 11, which every family has.
DEFAULT_ENTROPY = Perturbation.name

# The class of each name, and the argument that a number after it sets.
_FAMILIES: dict[str, tuple[Any, str | None]] = {
    DEFAULT: (TanhGaussian, None),
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


def suffix(family: str) -> str:
    """Returns the end of an attack's name: its family, if not the default.

    Example:

    >>> suffix("mixture-5"), suffix("gaussian")
    (' (mixture-5)', '')
    """
    return "" if family == DEFAULT else f" ({family})"


def named(
    family: str, threat_model: ThreatModel, **settings: Any
) -> TanhGaussian | TanhLowRank | TanhMixture:
    """Returns the explicit family of a name.

    Args:
        family: "gaussian", "mixture" or "low-rank"; the last two optionally
            with a number of components or directions.
        threat_model: Ball that the distribution fills.
        **settings: `entropy_reduction`, "mean" or "sum"; and `entropy`, which
            only "gaussian" has in another form than "perturbation".

    Example:

    >>> from adt_tf.threat_models import Linf
    >>> named("mixture-5", Linf(0.1)).num_components
    5
    """
    name, number = split(family)
    kind, counted = _FAMILIES.get(name, (None, None))
    if kind is None or (number is not None and counted is None):
        raise arguments.error(
            f"be one of {', '.join(map(repr, _FAMILIES))}, the last two "
            "optionally with a number, as in 'mixture-5'",
            family=family,
        )
    if number is not None and counted is not None:
        settings[counted] = number
    if "entropy" not in inspect.signature(kind).parameters:
        require_default_entropy(family, settings.pop("entropy", None))
    return kind(threat_model, **settings)


def require_default_entropy(family: str, entropy: str | Entropy | None) -> None:
    """Raises `ValueError` if a family does not have this entropy."""
    if entropy is None or isinstance(entropies.get(entropy), Perturbation):
        return
    raise arguments.error(
        f"be {DEFAULT_ENTROPY!r} where the family is {family!r}",
        entropy=entropy,
    )
