"""Runs adt-evaluate as one of several workers, or on several devices.

    python tests/support/distributed_evaluation.py FLAGS...

LOGICAL_DEVICES=n makes n devices of the CPU. SLOWLY=1 saves after every piece
and takes its time, so that the process can be killed in the middle.
"""

import os
import sys
import time

import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
devices = int(os.environ.get("LOGICAL_DEVICES", "1"))
if devices > 1:
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * devices
    )

if "TF_CONFIG" in os.environ:
    # On a busy machine a process may get no turn for longer than the 10 s
    # after which TensorFlow takes a worker that says nothing for dead.
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=600_000,
        shutdown_barrier_timeout_in_ms=120_000,
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=2)
        ],
    )

from adt_tf.attacks.resumable import Pieces  # noqa: E402
from adt_tf.cli import evaluate  # noqa: E402
from adt_tf.evaluation import state  # noqa: E402

if "SLOWLY" in os.environ:
    state._SAVE_EVERY = 0.0
    advance = Pieces.advance

    def slowly(self, num_steps):
        advance(self, num_steps)
        time.sleep(float(os.environ["SLOWLY"]))

    Pieces.advance = slowly

sys.argv = ["adt-evaluate", *sys.argv[1:]]
evaluate.main()
