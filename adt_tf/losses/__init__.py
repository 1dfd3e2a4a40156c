"""What the classifier's weights descend: outer losses.

A loss is a function (classifier, x, x_adv, y, training) -> RobustLoss, where
x_adv [batch, samples, ...] comes from the attack. A loss with parameters is
the result of a function of them:

    AdversarialTrainer(classifier, attack, losses.cross_entropy)
    AdversarialTrainer(classifier, attack, losses.trades(beta=6.0))

Parts: `cross_entropy`, `smoothed_cross_entropy(label_smoothing)`,
`trades(beta)`, `mart(beta)`, `alp(weight)`. `get` makes such a loss of one of
Keras. Around any of them: `smoothed(loss, label_smoothing)` and
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
