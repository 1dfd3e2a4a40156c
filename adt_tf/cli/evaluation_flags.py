"""The flags of adt-evaluate."""

from absl import flags

from adt_tf.cli.flags import OF_EVALUATION, define_classifier, define_config

FLAGS = flags.FlagValues()
define_classifier(FLAGS)
flags.DEFINE_string(
    "protocol",
    None,
    "Named list of attacks: paper, released, spsa, transfer, distributional, "
    "probabilistic, rice, autoattack, generalisation, budget (with --minutes) "
    "or quick (default: quick, unless --attacks is given).",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "attacks",
    None,
    "Names of attacks, optionally with a number of steps, such as fgsm,pgd-20.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "distributions",
    None,
    "Names of attacks to sample from, optionally with an entropy weight, such "
    "as exp@0.01. Measures the probability that a sample is misclassified.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_samples",
    8192,
    "Largest number of samples for each image and distribution; a multiple "
    "of 32.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "minutes",
    None,
    "Minutes that all attacks may take together. Then A_rob is an upper bound; "
    "the same command with more minutes continues.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "independent",
    False,
    "Run each attack on all correctly classified examples, not only on those "
    "that resisted the attacks before it.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "source",
    None,
    "Workdir or model to compute the adversarial images on (transfer attack).",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "artifact",
    None,
    "Exported file to measure: .tflite, .onnx, .xml (OpenVINO), or a "
    "SavedModel. Needs --source, or the --workdir that it was exported from.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "attack_epochs",
    10,
    "Number of epochs to train the generators of attacks (exp-am, imp-am).",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "attack_width_factor",
    1.0,
    "Factor of the number of channels of these generators.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "test_examples",
    None,
    "Number of test examples to use, from the start of the test set, or of "
    "all classes of a folder of images (default: all).",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "eval_batch_size",
    128,
    "Number of images in a batch.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "keep_examples",
    False,
    "Also write the adversarial images, as .npz.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output",
    None,
    "File to write instead of evaluation.json.",
    flag_values=FLAGS,
)
flags.DEFINE_boolean(
    "replay",
    False,
    "Test a preset on its stored perturbations instead of running attacks.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "compare",
    None,
    "Two evaluated workdirs or .json files to compare.",
    flag_values=FLAGS,
)
define_config(
    FLAGS,
    shown=(*OF_EVALUATION, "architecture", "train_examples", "distribute"),
)
