"""Exports a classifier as a SavedModel, together with its measurements.

    adt-export --workdir=DIR
    adt-export --workdir=DIR --output=models/digits --licence=Apache-2.0
    adt-export --workdir=DIR --runtimes=onnx,litert,litert-int8,openvino
    adt-export --model=weights.pt --architecture=wrn-28-10 --dataset=cifar10

The command writes the next version, 1/, 2/ and so on, to DIR/saved_model (or
beside the model, or to --output), which is a base path for TensorFlow Serving.
It then loads the SavedModel in a new process without adt_tf and compares its
logits on the test images. robustness.json, README.md (a model card) and
robustbench.json contain the results of adt-evaluate.
"""

import pathlib

from absl import flags

from adt_tf.cli import command
from adt_tf.cli.flags import (
    OF_EVALUATION,
    classifier_fingerprint,
    config_to_measure,
    default_output,
    define_config,
    define_model,
    load_classifier,
)
from adt_tf.cli.quiet_import import import_tensorflow
from adt_tf.runs import file_names

FLAGS = flags.FlagValues()
define_model(FLAGS)
flags.DEFINE_string(
    "output",
    None,
    "Directory for the versions, instead of saved_model. Its name becomes the "
    "name of the model.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "runtimes",
    [],
    "Other runtimes to export to: onnx, litert, litert-float16, litert-int8, "
    "openvino.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "resize",
    None,
    "Let the served model resize image files of other sizes (default: only if "
    "the images of the run were resized, by --image_size).",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "licence",
    "unknown",
    "SPDX identifier of the licence of the weights, such as Apache-2.0.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "evaluations",
    None,
    "Result files of adt-evaluate (default: those in the workdir, or beside "
    "the model).",
    flag_values=FLAGS,
)
define_config(FLAGS, shown=(*OF_EVALUATION, "architecture"))


def export() -> None:
    """Exports the classifier of a workdir or a file."""
    config = config_to_measure(FLAGS)
    output = FLAGS.output or default_output(FLAGS, file_names.SAVED_MODEL)
    import_tensorflow()
    from adt_tf.runs import export_job, inputs
    from adt_tf.serving import runtimes

    runtimes.check_names(FLAGS.runtimes)
    test = inputs.load_data(config, "test")
    classifier = load_classifier(FLAGS, test)
    export_job.export(
        classifier,
        test,
        output,
        origin=export_job.origin_of(
            config, FLAGS.workdir, FLAGS.licence, preset=FLAGS.preset
        ),
        evaluations=export_job.evaluations_of(
            _evaluations(), classifier_fingerprint(FLAGS)
        ),
        resize=bool(config.image_size)
        if FLAGS.resize is None
        else FLAGS.resize,
        formats=FLAGS.runtimes,
        load_train=lambda: inputs.load_data(config, "train"),
    )


def _evaluations() -> list[pathlib.Path]:
    """Returns the result files of the classifier's evaluations."""
    if FLAGS.evaluations is not None:
        return [pathlib.Path(path) for path in FLAGS.evaluations]
    path = default_output(FLAGS, file_names.evaluation())
    protocol_files = path.parent.glob(f"{path.stem}-*.json")
    return [path] * path.is_file() + sorted(protocol_files)


def main() -> None:
    """Runs adt-export."""
    command.run("adt-export", __doc__, FLAGS, export)
