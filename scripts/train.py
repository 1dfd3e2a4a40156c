"""Trains a classifier.

python scripts/train.py --flagfile=flags/digits/adt_exp.flags --workdir=DIR

The same command goes on where it stopped; SIGTERM saves and exits with code
143. DIR then holds flags.txt (the resolved flags), provenance.json,
metrics.csv, tensorboard/, checkpoints/ and classifier.keras.
"""

import common
from absl import flags

common.define_experiment_flags()
common.define_workdir()
flags.adopt_module_key_flags(common)


def main() -> None:
    """Builds the experiment from the flags and runs it."""
    from adt_tf.runs import experiment

    run = experiment.Experiment.from_config(common.experiment_config())
    if run.is_chief:
        common.claim_workdir(flags.FLAGS.workdir)
    run.train(flags.FLAGS.workdir)


if __name__ == "__main__":
    common.run(main)
