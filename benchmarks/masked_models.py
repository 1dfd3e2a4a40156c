"""What attacks say of a classifier whose gradients are hidden.

    python benchmarks/masked_models.py --workdir=build/digits/standard

Masks a trained classifier in two ways that leave its decisions nearly as they
are: logits times 1e4, which makes the cross-entropy underflow, and an input
rounded to multiples of 1/16, which has no gradient. Prints the accuracy under
PGD-20 on the cross-entropy and under each part of AutoAttack on its own, with
the published budgets, and what `lint` finds.
"""

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import OF_EVALUATION, config_of_run, define_config
from adt_tf.cli.quiet_import import import_tensorflow

FLAGS = flags.FlagValues()
flags.DEFINE_string("workdir", None, "A trained run.", flag_values=FLAGS)
flags.DEFINE_integer(
    "examples", 200, "Examples of the test set.", flag_values=FLAGS
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
        "as it is": classifier,
        "logits times 1e4": keras.Model(images, 1e4 * classifier(images)),
        "rounded input": keras.Model(images, classifier(rounded)),
    }
    chosen = [
        adt_tf.attacks.pgd(epsilon),
        *adt_tf.attacks.autoattack(epsilon),
    ]
    names = ["natural", *(attack.name for attack in chosen), "A_rob"]
    print("| classifier | " + " | ".join(names) + " | lint |")
    print("| --- |" + " ---: |" * len(names) + " --- |")
    for name, model in models.items():
        report = adt_tf.evaluate(
            model, test, chosen, independent=True, verbose=False
        )
        accuracy = [*report.accuracy.values(), report.robust_accuracy]
        cells = " | ".join(f"{100 * value:.1f}" for value in accuracy)
        findings = adt_tf.lint(model, test, epsilon=epsilon, verbose=False)
        failed = [f.check for f in findings.findings if f.status == "fail"]
        told = ", ".join(f"`{check}`" for check in failed) or "passes"
        print(f"| {name} | {cells} | {told} |", flush=True)


if __name__ == "__main__":
    command.run("masked_models.py", __doc__, FLAGS, main)
