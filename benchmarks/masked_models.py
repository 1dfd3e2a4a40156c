"""Attacks classifiers whose gradients are masked.

    python benchmarks/masked_models.py --workdir=build/digits/standard

Masks a trained classifier in two ways that hardly change its predictions:
logits times 1e4, which make the cross-entropy underflow, and an input rounded
to multiples of 1/16, which has no gradient. Prints the accuracy under PGD-20 on
the cross-entropy and under each attack of AutoAttack alone, with the published
budgets, and the failed checks of `lint`.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import OF_EVALUATION, config_of_run, define_config
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
flags.DEFINE_string("workdir", None, "A trained run.", flag_values=FLAGS)
flags.DEFINE_integer(
    "examples", 200, "Number of test examples.", flag_values=FLAGS
)
define_config(FLAGS, shown=OF_EVALUATION)


def main() -> None:
    """Prints a table and the failed checks."""
    path = command.required(FLAGS, "workdir")
    config = config_of_run(FLAGS, path)
    import_tensorflow()
    import keras
    import tensorflow as tf

    import adt_tf
    from adt_tf.runs import inputs
    from adt_tf.runs.workdir import Workdir

    classifier = Workdir(path).load_classifier()
    test = inputs.load_data(config, "test", FLAGS.examples)
    epsilon = config.epsilon
    images = keras.Input(classifier.input_shape[1:])
    rounded = keras.layers.Lambda(lambda x: tf.round(16 * x) / 16)(images)
    models = {
        "unchanged": classifier,
        "logits times 1e4": keras.Model(images, 1e4 * classifier(images)),
        "rounded input": keras.Model(images, classifier(rounded)),
    }
    attacks = [
        adt_tf.attacks.pgd(epsilon),
        *adt_tf.attacks.autoattack(epsilon),
    ]
    names = ["natural", *(attack.name for attack in attacks), "A_rob"]
    print("| classifier | " + " | ".join(names) + " | lint |")
    print("| --- |" + " ---: |" * len(names) + " --- |")
    for name, model in models.items():
        report = adt_tf.evaluate(
            model, test, attacks, independent=True, verbose=False
        )
        accuracy = [*report.accuracy.values(), report.robust_accuracy]
        cells = " | ".join(f"{100 * value:.1f}" for value in accuracy)
        findings = adt_tf.lint(model, test, epsilon=epsilon, verbose=False)
        checks = [f.check for f in findings.findings if f.status == "fail"]
        text = ", ".join(f"`{check}`" for check in checks) or "passes"
        print(f"| {name} | {cells} | {text} |", flush=True)


if __name__ == "__main__":
    command.run("masked_models.py", __doc__, FLAGS, main)
