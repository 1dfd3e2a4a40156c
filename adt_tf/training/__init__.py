"""Training: one `train_step` for every method, in a model that Keras can fit.

    trainer = AdversarialTrainer(classifier, method.attack, method.loss, seed=0)
    trainer.compile(optimizer)
    trainer.fit(train, epochs=3)

Parts: `trainer` is the model; `outer_steps` says where the gradient of the
weights is taken, `averaging` averages them; `fitting`, `saving`,
`step_metrics` and `accuracy` are what Keras expects of a model.
"""

from adt_tf.training.averaging import WeightAverage
from adt_tf.training.outer_steps import AWP, Descent
from adt_tf.training.trainer import AdversarialTrainer

__all__ = ["AWP", "AdversarialTrainer", "Descent", "WeightAverage"]
