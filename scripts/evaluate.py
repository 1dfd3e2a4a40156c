"""Measures a trained classifier under attacks.

python scripts/evaluate.py --workdir=DIR

Data set and epsilon are those of the run, unless given. Writes
DIR/evaluation.json.
"""

import common
from absl import flags

common.define_experiment_flags()
common.define_workdir()
flags.adopt_module_key_flags(common)
flags.DEFINE_list(
    "attacks",
    ["fgsm", "pgd-20", "pgd-100", "mim-20", "cw-30", "exp"],
    "Names, each with a number of steps if you like.",
)
flags.DEFINE_integer("test_examples", None, "The first n test examples only.")
flags.DEFINE_integer("eval_batch_size", 128, "Images at once.")
flags.DEFINE_string("output", None, "Default: evaluation.json in the workdir.")


def main() -> None:
    """Attacks the classifier of a workdir."""
    values = flags.FLAGS
    given = common.read_workdir(values.workdir)
    from adt_tf import workdir

    workdir.evaluate(
        values.workdir,
        common.experiment_config(),
        attacks=values.attacks,
        test_examples=values.test_examples,
        batch_size=values.eval_batch_size,
        output=values.output,
        given=given,
    )


if __name__ == "__main__":
    common.run(main)
