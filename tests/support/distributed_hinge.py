"""The hinge of an amortised attack on one and on two replicas; prints JSON.

    python tests/support/distributed_hinge.py

An entropy of w times the image's first pixel, without any network. For each
threshold: the slope in w of the regulariser's mean, on one device and, added
up as optimisers do, over two replicas that hold one and three of the images.
"""

import json
import types

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

from adt_tf import replication, seeds  # noqa: E402
from adt_tf.attacks import Amortized  # noqa: E402
from adt_tf.runs import strategies  # noqa: E402
from adt_tf.threat_models import Linf  # noqa: E402

PIXELS = [-0.9, -0.1, -0.3, -0.3]  # mean -0.4; of the replicas -0.9, -0.233
THRESHOLDS = [0.0, 0.3, 0.5, 1.0]


def make_attack(weight, threshold):
    def sample(x, solution, noise, *, training):
        del solution, noise, training
        return x[:, tf.newaxis], weight * tf.reshape(x, [-1, 1])

    family = types.SimpleNamespace(
        threat_model=Linf(1.0, bounds=(-1.0, 1.0)),
        networks=(),
        noise=lambda x, num_samples, seed: x,
        sample=sample,
    )
    return Amortized(family, entropy_weight=2.0, entropy_threshold=threshold)


def slope(threshold, x):
    """Returns this replica's share of the slope at w = 1."""
    weight = tf.constant(1.0)
    share, _ = replication.share_of_batch(x)
    with tf.GradientTape() as tape:
        tape.watch(weight)
        batch = make_attack(weight, threshold).sample(
            x, None, num_samples=1, seed=seeds.make(0)
        )
        total = share * tf.reduce_mean(batch.regularizer)
    return tape.gradient(total, weight)


def main() -> None:
    strategy = strategies.get("mirrored")
    x = tf.reshape(tf.constant(PIXELS), [-1, 1, 1, 1])
    found = {"one": [], "two": []}
    for threshold in THRESHOLDS:

        @tf.function
        def both(threshold=threshold):
            def replica():
                context = tf.distribute.get_replica_context()
                first = context.replica_id_in_sync_group == 0
                return slope(
                    threshold, tf.cond(first, lambda: x[:1], lambda: x[1:])
                )

            parts = strategy.run(replica)
            return strategy.reduce("SUM", parts, axis=None)

        found["one"].append(float(slope(threshold, x)))
        found["two"].append(float(both()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
