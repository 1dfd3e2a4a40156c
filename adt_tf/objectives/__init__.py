"""Objectives: the functions of adversarial images that attacks climb.

    value = cross_entropy(classifier, x, y, seed=seed)
    values, logits = value(x_adv)        # [batch, k], [batch, k, classes]

`Objective` is the interface, the same for every ascent; `get` turns a function
into an objective, and `of_logits` a function of logits. Parts:
`cross_entropy`, `targeted_cross_entropy`, `margin(confidence)`, `dlr`,
`targeted_dlr`, `kl_from_clean`, `transport_distance`,
`feature_similarity(targets)`, `pooled_feature_similarity(targets)`. The names
of functions of logits end in `_of`.
"""

from adt_tf.objectives.base import (
    Objective,
    Value,
    couples_examples,
    get,
    logits_of,
    of_logits,
)
from adt_tf.objectives.features import (
    feature_similarity,
    pooled_feature_similarity,
)
from adt_tf.objectives.logits import (
    cross_entropy_of,
    dlr_of,
    kl_divergence_of,
    margin_of,
    targeted_dlr_of,
)
from adt_tf.objectives.named import (
    cross_entropy,
    dlr,
    kl_from_clean,
    margin,
    targeted_cross_entropy,
    targeted_dlr,
    transport_distance,
)

__all__ = [
    "Objective",
    "Value",
    "couples_examples",
    "cross_entropy",
    "cross_entropy_of",
    "dlr",
    "dlr_of",
    "feature_similarity",
    "get",
    "kl_divergence_of",
    "kl_from_clean",
    "logits_of",
    "margin",
    "margin_of",
    "of_logits",
    "pooled_feature_similarity",
    "targeted_cross_entropy",
    "targeted_dlr",
    "targeted_dlr_of",
    "transport_distance",
]
