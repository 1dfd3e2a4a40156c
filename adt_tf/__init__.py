"""Robust classifiers for Keras, by adversarial distributional training.

    threat model -> adversarial distribution -> attack -> loss -> trainer

    method = adt_tf.methods.adt_exp(epsilon=8 / 255)
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=0)
    trainer.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    trainer.fit(train, validation_data=validation, epochs=3)

    report = adt_tf.evaluate(
        classifier, test, attacks=[adt_tf.attacks.pgd(8 / 255, num_steps=20)])
    adt_tf.export(classifier, "saved_model")

The parts, in the order in which they build on each other: `threat_models`,
`distributions`, `objectives`, `step_rules`, `attacks`, `losses`, `trainer`,
`methods`; beside them `networks`, `data`, `optimizers`, `callbacks`,
`evaluation`, `linting`, `analysis`, `serving`, `runs`, `report` and
`reproduction`.
"""

import importlib.metadata

from adt_tf import (
    attacks,
    callbacks,
    data,
    distributions,
    losses,
    methods,
    networks,
    objectives,
    optimizers,
    step_rules,
    threat_models,
)
from adt_tf.evaluation import evaluate
from adt_tf.linting import lint
from adt_tf.serving.saved_model import export
from adt_tf.trainer import AdversarialTrainer

__version__ = importlib.metadata.version("adt_tf")

__all__ = [
    "AdversarialTrainer",
    "attacks",
    "callbacks",
    "data",
    "distributions",
    "evaluate",
    "export",
    "lint",
    "losses",
    "methods",
    "networks",
    "objectives",
    "optimizers",
    "step_rules",
    "threat_models",
]
