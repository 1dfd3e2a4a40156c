"""Trains a classifier.

    adt-train --flagfile=digits/adt_exp --workdir=DIR

If training is interrupted, the same command continues where it stopped.
SIGTERM saves a checkpoint and exits with code 143. DIR holds flags.txt (the
resolved flags), provenance.json, metrics.csv, tensorboard/, checkpoints/ and,
at the end, classifier.keras.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import define_config, given_config
from adt_tf.cli.quiet_import import import_tensorflow
from adt_tf.runs.config import Config

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "workdir", None, "Directory of the run. Required.", flag_values=FLAGS
)
define_config(FLAGS)


def train() -> None:
    """Builds the experiment from the flags and runs it."""
    workdir = command.required(FLAGS, "workdir")
    config = Config(**given_config(FLAGS))
    # Connecting to other machines must come before the devices are created.
    import_tensorflow(
        devices=config.distribute != "multiworker", streams=config.may_stream
    )
    from adt_tf.networks import own_functions
    from adt_tf.runs.experiment import Experiment
    from adt_tf.runs.workdir import Workdir

    name = config.network_function
    experiment = Experiment.from_config(
        Workdir(workdir).settled(config),
        build_network=own_functions.find_function(name) if name else None,
    )
    experiment.train(workdir, flags=experiment.flags)


def main() -> None:
    """Runs adt-train."""
    command.run("adt-train", __doc__, FLAGS, train)
