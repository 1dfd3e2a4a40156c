"""Checks a classifier for faults that make its robust accuracy misleading.

    adt-lint --workdir=DIR
    adt-lint --model=model.keras --dataset=mine.npz --epsilon=0.03
    adt-lint --model=weights.pt --architecture=wrn-28-10 --dataset=cifar10

The command writes DIR/lint.json, and exits with code 1 if a check fails.
"""

import sys

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import (
    OF_EVALUATION,
    classifier_fingerprint,
    config_to_measure,
    default_output,
    define_classifier,
    define_config,
    load_classifier,
)
from adt_tf.cli.quiet_import import import_tensorflow
from adt_tf.runs import file_names

FLAGS = flags.FlagValues()
define_classifier(FLAGS)
flags.DEFINE_integer(
    "test_examples", 128, "Number of test examples.", flag_values=FLAGS
)
flags.DEFINE_string(
    "output", None, "File to write instead of lint.json.", flag_values=FLAGS
)
define_config(FLAGS, shown=(*OF_EVALUATION, "architecture"))


def lint() -> None:
    """Runs all checks on the classifier of a workdir or a file."""
    config = config_to_measure(FLAGS)
    import_tensorflow(streams=config.may_stream)
    from adt_tf import linting
    from adt_tf.runs import inputs, lint_job

    path = lint_job.checked_output(
        FLAGS.output or default_output(FLAGS, file_names.LINT)
    )
    test = inputs.load_test_data(config)
    report = linting.lint(
        load_classifier(FLAGS, test, probabilities=FLAGS.probabilities),
        test,
        epsilon=inputs.threat_model(config),
        num_examples=FLAGS.test_examples,
        seed=config.seed,
    )
    print(report)
    lint_job.write(
        report,
        path,
        classifier=classifier_fingerprint(FLAGS),
    )
    print(f"Written to {path}")
    if not report.ok:
        sys.exit(1)


def main() -> None:
    """Runs adt-lint."""
    command.run("adt-lint", __doc__, FLAGS, lint)
