"""Writes a trained classifier as a SavedModel and loads it back.

    adt-export --workdir=DIR

The SavedModel goes to DIR/saved_model unless --output says otherwise. It is
loaded in a process of its own, without adt_tf, and must give the same logits.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import OF_EVALUATION, config_of_run, define_config
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
flags.DEFINE_string("workdir", None, "Directory of the run.", flag_values=FLAGS)
flags.DEFINE_string(
    "output",
    None,
    "Directory of the SavedModel, unless it is saved_model in the workdir.",
    flag_values=FLAGS,
)
define_config(FLAGS, shown=OF_EVALUATION)


def export() -> None:
    """Exports the classifier of a workdir."""
    workdir = command.required(FLAGS, "workdir")
    config = config_of_run(FLAGS, workdir)
    import_tensorflow()
    from adt_tf.runs import export_job

    export_job.export(workdir, config, output=FLAGS.output)


def main() -> None:
    """Runs adt-export."""
    command.run("adt-export", __doc__, FLAGS, export)
