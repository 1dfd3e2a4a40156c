"""Looks for what makes a robustness figure worthless, before it is believed.

python scripts/lint.py --workdir=DIR
python scripts/lint.py --model=model.keras --dataset=mine.npz --epsilon=0.03

Exits with 1 if a check fails. Writes DIR/lint.json.
"""

import json
import pathlib
import sys

import common
from absl import flags

common.define_experiment_flags()
flags.adopt_module_key_flags(common)
flags.DEFINE_string("workdir", None, "Directory of the run.")
flags.DEFINE_string("model", None, "A .keras file or SavedModel in its place.")
flags.DEFINE_boolean(
    "probabilities", False, "The model gives probabilities, not logits."
)
flags.DEFINE_integer("test_examples", 128, "How many test examples to use.")
flags.DEFINE_string("output", None, "Another name for lint.json.")


def main() -> None:
    """Runs all checks on the classifier of a workdir or a file."""
    values = flags.FLAGS
    if (values.workdir is None) == (values.model is None):
        raise ValueError("Give either --workdir or --model.")
    if values.workdir:
        common.read_workdir(values.workdir)
    else:
        common.check_model_flags()
    config = common.experiment_config()
    chosen = pathlib.Path(values.workdir or values.model)
    default = chosen / "lint.json"
    if values.model:
        default = chosen.with_name(f"{common.model_name(chosen)}-lint.json")

    import adt_tf
    from adt_tf.files import write_text
    from adt_tf.runs import workdir

    report = adt_tf.lint(
        workdir.load_any(chosen, probabilities=values.probabilities),
        workdir.load_test_data(config),
        epsilon=config["epsilon"],
        num_examples=values.test_examples,
        seed=config["seed"],
    )
    print(report)
    path = pathlib.Path(values.output or default)
    found = report.to_dict()
    if values.workdir:
        found["classifier"] = workdir.fingerprint(values.workdir)
    write_text(path, json.dumps(found, indent=2) + "\n")
    print(f"Written to {path}")
    if not report.ok:
        sys.exit(1)


if __name__ == "__main__":
    common.run(main)
