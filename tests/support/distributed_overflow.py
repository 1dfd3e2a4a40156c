"""Two replicas take two steps with loss scaling; prints JSON.

    python tests/support/distributed_overflow.py

In the second step the gradient of one replica overflows. For each step: the
weight as each replica has it, and the loss scale.
"""

import json

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

from adt_tf import optimizers  # noqa: E402
from adt_tf.runs import strategies  # noqa: E402


def main() -> None:
    strategy = strategies.get("mirrored")
    with strategy.scope():
        weight = keras.Variable([1.0])
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1)
        )
        optimizer.build([weight])

    @tf.function
    def step(overflows):
        def replica():
            context = tf.distribute.get_replica_context()
            first = context.replica_id_in_sync_group == 0
            scale = optimizers.common_scale([optimizer])
            bad = tf.where(overflows & ~first, float("inf"), 1.0)
            gradient = tf.constant([0.5]) * scale * bad
            optimizers.apply(optimizer, [gradient], [weight], scale)

        strategy.run(replica)

    found = []
    for overflows in (False, True):
        step(tf.constant(overflows))
        values = strategy.experimental_local_results(weight.value)
        found.append(
            {
                "weights": [float(v.numpy()[0]) for v in values],
                "scale": float(optimizer.dynamic_scale.numpy()),
            }
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
