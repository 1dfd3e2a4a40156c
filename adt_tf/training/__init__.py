"""Training: one `train_step` for every method, in a Keras model.

    trainer = AdversarialTrainer(classifier, method.attack, method.loss, seed=0)
    trainer.compile(optimizer)
    trainer.fit(train, epochs=3)

`trainer` has the model. `outer_steps` computes the gradients of the weights,
`averaging` averages the weights; `compiling`, `fitting`, `saving`,
`step_metrics` and `accuracy` implement what Keras expects of a model.
"""

from adt_tf.training.averaging import WeightAverage
from adt_tf.training.outer_steps import AWP, Descent
from adt_tf.training.trainer import AdversarialTrainer

__all__ = ["AWP", "AdversarialTrainer", "Descent", "WeightAverage"]
