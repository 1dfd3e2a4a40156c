"""Writes a classifier as a SavedModel and loads it back.

    adt-export --workdir=DIR
    adt-export --model=weights.pt --architecture=wrn-28-10 --dataset=cifar10

The SavedModel goes to DIR/saved_model, or beside the model, unless --output
says otherwise. It is loaded in a process of its own, without adt_tf, and must
give the same logits for the test images.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import (
    OF_EVALUATION,
    config_to_measure,
    default_output,
    define_config,
    define_model,
    load_classifier,
)
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
define_model(FLAGS)
flags.DEFINE_string(
    "output",
    None,
    "Directory of the SavedModel, in the place of saved_model.",
    flag_values=FLAGS,
)
define_config(FLAGS, shown=(*OF_EVALUATION, "architecture"))


def export() -> None:
    """Exports the classifier of a workdir or a file."""
    config = config_to_measure(FLAGS)
    output = FLAGS.output or default_output(FLAGS, "saved_model")
    import_tensorflow()
    from adt_tf.runs import export_job, inputs

    test = inputs.load_data(config, "test")
    export_job.export(load_classifier(FLAGS, test), test, output)


def main() -> None:
    """Runs adt-export."""
    command.run("adt-export", __doc__, FLAGS, export)
