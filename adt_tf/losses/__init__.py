"""Outer losses: the functions that the classifier's weights descend.

A loss is a function (classifier, x, x_adv, y, training) -> RobustLoss, where
x_adv [batch, samples, ...] comes from the attack. A loss with parameters is
the result of a function call:

    AdversarialTrainer(classifier, attack, losses.cross_entropy)
    AdversarialTrainer(classifier, attack, losses.trades(beta=6.0))

Parts: `cross_entropy`, `smoothed_cross_entropy(label_smoothing)`,
`trades(beta)`, `mart(beta)`, `alp(weight)`. `get` converts a loss of Keras.
Wrappers of any loss: `smoothed(loss, label_smoothing)` and
`weighted(loss, temperature)`.
"""

from adt_tf.losses.base import (
    Loss,
    RobustLoss,
    as_robust_loss,
    get,
    of_keras,
)
from adt_tf.losses.named import (
    alp,
    cross_entropy,
    mart,
    smoothed_cross_entropy,
    trades,
)
from adt_tf.losses.wrappers import smoothed, weighted

__all__ = [
    "Loss",
    "RobustLoss",
    "alp",
    "as_robust_loss",
    "cross_entropy",
    "get",
    "mart",
    "of_keras",
    "smoothed",
    "smoothed_cross_entropy",
    "trades",
    "weighted",
]
