"""Trains as adt-train does, and writes the weights of all networks.

    python tests/support/distributed_run.py OUTPUT.npz WORKDIR FLAGS...

LOGICAL_DEVICES=n makes n devices of the CPU; ATTACK_RATE=r trains the attack's
networks by plain SGD. Of several workers the chief writes. With "-" for OUTPUT
it is adt-train itself that runs, and writes no weights.
"""

import os
import sys

import numpy as np
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
        heartbeat_timeout_in_ms=120_000,
        shutdown_barrier_timeout_in_ms=120_000,
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=2)
        ],
    )

import keras  # noqa: E402

from adt_tf.cli import train  # noqa: E402
from adt_tf.runs import experiment  # noqa: E402
from adt_tf.runs.config import Config  # noqa: E402


def main(output: str, workdir: str, *flags: str) -> None:
    if output == "-":
        sys.argv = ["adt-train", *flags, f"--workdir={workdir}"]
        train.main()
        return
    config = Config.parse(flags)
    run = experiment.Experiment.from_config(config)
    trainer = run.trainer
    if "ATTACK_RATE" in os.environ:
        rate = float(os.environ["ATTACK_RATE"])
        with trainer.distribute_strategy.scope():
            trainer.attack_optimizer = keras.optimizers.SGD(rate)
    run.train(workdir, flags=config.to_flags())
    models = [trainer.classifier, *trainer.attack_networks]
    weights = [w for model in models for w in model.get_weights()]
    if run.is_chief:
        np.savez(
            output, *weights, steps=int(trainer.optimizer.iterations.numpy())
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
