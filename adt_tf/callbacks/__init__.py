"""Callbacks for `AdversarialTrainer.fit`.

    held_out = data.load("cifar10", split="validation",
                         validation_examples=1000)
    trainer.fit(
        train,
        epochs=200,
        callbacks=[
            RobustCheckpoint(held_out, pgd(8 / 255, num_steps=10),
                             "best.keras"),
            CatastrophicOverfitting(probe, pgd(8 / 255, num_steps=10)),
            keras.callbacks.CSVLogger("metrics.csv"),
        ],
    )

Put `RobustCheckpoint` before every callback that reads its metrics. With
averaged weights, `AdversarialTrainer(..., average=WeightAverage(0.999))`, put
it after `AveragedWeights`, so that it measures and saves the average. Keras'
own averaging, `SGD(use_ema=True)` with `keras.callbacks.SwapEMAWeights(
swap_on_epoch=True)`, works too, but has no warm-up and does not average
batch-norm statistics; if `fit` stops early, the classifier keeps the weights
before averaging, so load the saved file.

`warn_if_test_set` warns if held-out images are also in the test set.
"""

from adt_tf.callbacks.averaged_weights import AveragedWeights
from adt_tf.callbacks.catastrophic_overfitting import CatastrophicOverfitting
from adt_tf.callbacks.epsilon_warmup import EpsilonWarmup
from adt_tf.callbacks.robust_checkpoint import (
    RobustCheckpoint,
    warn_if_test_set,
)

__all__ = [
    "AveragedWeights",
    "CatastrophicOverfitting",
    "EpsilonWarmup",
    "RobustCheckpoint",
    "warn_if_test_set",
]
