"""One and two devices in one process, step by step; prints JSON.

    python tests/support/distributed_steps.py METHOD STEPS NETWORK

For each step: the largest difference, from one device, of the classifier's
weights and statistics, of the attack networks' ones, and of the attack
optimiser's first moments, which add up gradients. First of two devices; then of
one device whose classifier has started 1e-7 of its weights away.
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


def main(method: str, steps: str, network: str) -> None:
    batches = data.train_pipeline(
        data.load("digits", num_examples=640), batch_size=64, seed=0
    )
    strategy = strategies.get("mirrored")
    one, near = (
        make(tf.distribute.get_strategy(), method, network) for _ in range(2)
    )
    two = make(strategy, method, network)
    generator = np.random.default_rng(0)
    near.classifier.set_weights(
        [
            w * (1 + 1e-7 * generator.standard_normal(w.shape))
            for w in near.classifier.get_weights()
        ]
    )
    halves = iter(strategies.split(strategy, batches))
    step = tf.function(lambda x: strategy.run(two.train_step, (x,)))
    found = {"two devices": [], "1e-7 away": []}
    for batch in batches.take(int(steps)):
        one.train_on_batch(*batch)
        near.train_on_batch(*batch)
        step(next(halves))
        found["two devices"].append(differences(one, two))
        found["1e-7 away"].append(differences(one, near))
    found["moment"] = float(
        max((np.abs(v).max() for v in state(one)[2]), default=0.0)
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
