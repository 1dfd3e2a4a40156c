"""Writes a trained classifier as a SavedModel and loads it back.

python scripts/export.py --workdir=DIR

The SavedModel goes to DIR/saved_model unless --output says otherwise. It is
loaded in a process of its own, without adt_tf, and must give the same logits.
"""

import common
from absl import flags

common.define_experiment_flags()
common.define_workdir()
flags.adopt_module_key_flags(common)
flags.DEFINE_string("output", None, "Default: saved_model in the workdir.")


def main() -> None:
    """Exports the classifier of a workdir."""
    values = flags.FLAGS
    common.read_workdir(values.workdir)
    from adt_tf.runs import workdir

    workdir.export(
        values.workdir, common.experiment_config(), output=values.output
    )


if __name__ == "__main__":
    common.run(main)
