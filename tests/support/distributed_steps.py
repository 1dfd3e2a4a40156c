"""One and two devices in one process, step by step; prints JSON.

    python tests/support/distributed_steps.py METHOD STEPS NETWORK

Both begin each step in the state of the one device, so that rounding errors do
not grow over the steps. For each step: the largest difference of the
classifier's weights and statistics, of those of the attack networks, and of the
first moments of the attack's optimiser, which add up gradients.
"""

import json
import sys

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

import adt_tf  # noqa: E402
from adt_tf import data, methods, networks  # noqa: E402
from adt_tf.optimizers import SGD  # noqa: E402
from adt_tf.runs import strategies  # noqa: E402

SHAPE = (8, 8, 1)
AMORTIZED = {"input_shape": SHAPE, "width_factor": 0.125}


def make(strategy, method, network):
    with strategy.scope():
        taken = methods.arguments(method)
        arguments = AMORTIZED if "width_factor" in taken else {}
        found = methods.get(method, epsilon=0.15, **arguments)
        trainer = adt_tf.AdversarialTrainer(
            networks.get(network, input_shape=SHAPE),
            found.attack,
            found.loss,
        )
        trainer.compile(SGD(0.1, momentum=0.9, l2=2e-4))
        strategy.run(
            trainer.compute_metrics,
            (None, tf.zeros([1], tf.int32), tf.zeros([1, 10])),
        )
    trainer.checkpoint()
    return trainer


def state(trainer):
    attack = [w for n in trainer.attack_networks for w in n.get_weights()]
    moments = [
        v.numpy()
        for v in trainer.attack_optimizer.variables
        if "momentum" in v.path
    ]
    return trainer.classifier.get_weights(), attack, moments


def differences(trainer, other):
    return [
        float(
            max(
                (np.abs(a - b).max() for a, b in zip(*parts, strict=True)),
                default=0.0,
            )
        )
        for parts in zip(state(trainer), state(other), strict=True)
    ]


def variables(trainer):
    return [
        *trainer.classifier.variables,
        *(v for network in trainer.attack_networks for v in network.variables),
        *trainer.optimizer.variables,
        *trainer.attack_optimizer.variables,
    ]


def main(method: str, steps: str, network: str) -> None:
    batches = data.train_pipeline(
        data.load("digits", num_examples=640), batch_size=64, seed=0
    )
    strategy = strategies.get("mirrored")
    one = make(tf.distribute.get_strategy(), method, network)
    two = make(strategy, method, network)
    halves = iter(strategies.split(strategy, batches))
    step = tf.function(lambda x: strategy.run(two.train_step, (x,)))
    result = {"differences": []}
    for batch in batches.take(int(steps)):
        with strategy.scope():
            for copy, value in zip(variables(two), variables(one), strict=True):
                copy.assign(value.numpy())
        one.train_on_batch(*batch)
        step(next(halves))
        result["differences"].append(differences(one, two))
    result["moment"] = float(
        max((np.abs(v).max() for v in state(one)[2]), default=0.0)
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
