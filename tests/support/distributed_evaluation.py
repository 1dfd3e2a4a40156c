"""Runs adt-evaluate as one of several workers, or on several devices.

    python tests/support/distributed_evaluation.py FLAGS...

LOGICAL_DEVICES=n makes n devices of the CPU. SLOWLY=s saves after every piece
and then sleeps for s seconds, so that the process can be killed in the middle.
"""

import os
import sys
import time

import tensorflow as tf


def main(*arguments: str) -> None:
    """Configures TensorFlow's devices, then runs the command."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = int(os.environ.get("LOGICAL_DEVICES", "1"))
    if devices > 1:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * devices
        )
    if "TF_CONFIG" in os.environ:
        wait_long_for_workers()

    from adt_tf.cli import evaluate

    if "SLOWLY" in os.environ:
        slow_down(float(os.environ["SLOWLY"]))
    sys.argv = ["adt-evaluate", *arguments]
    evaluate.main()


def wait_long_for_workers() -> None:
    """Raises the time after which a silent worker counts as dead.

    On a busy machine a process may get no turn for longer than the default of
    10 seconds.
    """
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


def slow_down(seconds: float) -> None:
    """Saves after every piece of an attack, and sleeps."""
    from adt_tf.attacks.resumable import Pieces
    from adt_tf.evaluation import state

    state._SAVE_EVERY = 0.0
    advance = Pieces.advance

    def slowly(self, num_steps):
        advance(self, num_steps)
        time.sleep(seconds)

    Pieces.advance = slowly


if __name__ == "__main__":
    main(*sys.argv[1:])
