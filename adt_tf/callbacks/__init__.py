"""Callbacks for `AdversarialTrainer.fit` that watch true robustness.

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

`RobustCheckpoint` comes before every callback that reads its numbers. With
averaged weights, `AdversarialTrainer(..., average=WeightAverage(0.999))`, it
comes after `AveragedWeights`, and so measures and keeps the average. Keras' own
form, `SGD(use_ema=True)` with `keras.callbacks.SwapEMAWeights(
swap_on_epoch=True)`, works too, but has no warm-up and leaves out batch-norm
statistics. A `fit` that is stopped early leaves the classifier with the weights
that are trained, so use the file.

`warn_if_test_set` tells whether the held-out images are test images.
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
