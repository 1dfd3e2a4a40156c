"""The flags of an experiment, and how scripts run: no TensorFlow in here.

`--help` answers at once because TensorFlow is imported only inside `main`.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
import zipfile
from collections.abc import Callable, Container, Sequence
from typing import Any

from absl import app, flags, logging

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Off by default on many CPUs, and faster on all that have it.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

FLAGS_FILE = "flags.txt"
# Where data lies and when a run is saved do not change what it computes.
_NOT_COMPARED = (
    "data_dir",
    "download",
    "checkpoint_steps",
    "checkpoint_minutes",
    "keep_checkpoints",
    "on_nonfinite",
)


def define_experiment_flags(
    values: flags.FlagValues = flags.FLAGS,
) -> None:
    """What to train on what, and how: the configuration of a workdir."""

    def defined_in_values(function):
        return functools.partial(function, flag_values=values)

    text = defined_in_values(flags.DEFINE_string)
    number = defined_in_values(flags.DEFINE_float)
    count = defined_in_values(flags.DEFINE_integer)
    boolean = defined_in_values(flags.DEFINE_boolean)
    names = defined_in_values(flags.DEFINE_list)
    choice = defined_in_values(flags.DEFINE_enum)
    text("dataset", "digits", "digits, a TFDS name (cifar10) or a .npz file.")
    text("data_dir", None, "Where TFDS keeps prepared data sets.")
    boolean("download", False, "Let TFDS download the data set.")
    count("train_examples", None, "Train on the first n examples only.")
    count("validation_examples", 0, "Hold n examples out of the training set.")
    boolean(
        "augment", None, "Random crops and flips (default: for CIFAR only)."
    )
    text("network", "small_cnn", "small_cnn, preact_resnet18 or wrn-D-K.")
    text("method", "adt_exp", "A name of adt_tf.methods.list().")
    number("epsilon", 8 / 255, "Radius of the l-infinity ball, pixels [0,1].")
    count("num_steps", None, "Steps of the inner problem.")
    number("step_size", None, "Of the inner problem's steps.")
    count("num_samples", None, "Monte-Carlo samples a step (ADT-EXP).")
    count("sample_chunk", None, "Samples at once, to save memory (ADT-EXP).")
    number("entropy_weight", None, "lambda (ADT).")
    choice("entropy_reduction", None, ["mean", "sum"], "Over dimensions (ADT).")
    number("entropy_threshold", None, "Hinge of the entropy (ADT-IMP-AM).")
    number("gradient_decay", None, "Of the gradients over steps (ADT-EXP).")
    number("beta", None, "Weight of TRADES' term (TRADES, any ADT method).")
    number("pairing_weight", None, "Of the squared logit difference (ALP).")
    number("label_smoothing", None, "Of the outer loss (FeaScatter).")
    number("width_factor", None, "Of the generator's and q's widths.")
    count("outer_samples", 1, "Samples of the distribution in the outer step.")
    count("epochs", 30, "Passes over the training set.")
    count("batch_size", 64, "Training batch.")
    number("learning_rate", 0.1, "At the start.")
    names("drop_after", [], "Epochs after which the rate is divided by 10.")
    number("momentum", 0.9, "Of SGD.")
    number("weight_decay", 2e-4, "L2 term in the gradient, on all weights.")
    boolean(
        "keep_best", False, "Keep the best epoch by robust accuracy (PGD-10)."
    )
    number("ema_momentum", None, "Average the weights, such as 0.999.")
    count("epsilon_warmup", 0, "Epochs over which epsilon grows to its value.")
    count("seed", 0, "Of weights, order, augmentation and noise.")
    choice(
        "jit_compile",
        "auto",
        ["auto", "true", "false"],
        "XLA for the inner step; auto: on accelerators.",
    )
    count("checkpoint_steps", 0, "Save the state every n steps too (0: not).")
    number("checkpoint_minutes", 10.0, "And every so many minutes (0: not).")
    count("keep_checkpoints", 2, "How many checkpoints stay on the disk.")
    choice(
        "on_nonfinite",
        "stop",
        ["stop", "rollback"],
        "A loss that is not finite: stop, or go back to the last epoch's end, "
        "with other noise, at most 3 times.",
    )
    choice(
        "precision",
        "float32",
        ["float32", "mixed_float16", "mixed_bfloat16"],
        "Of what lies between a network's first and last layer.",
    )
    choice(
        "distribute",
        "none",
        ["none", "mirrored", "multiworker"],
        "All GPUs of this machine, or all machines of TF_CONFIG.",
    )


def define_workdir() -> None:
    """Where a run keeps everything."""
    flags.DEFINE_string("workdir", None, "Directory of the run.")
    flags.mark_flag_as_required("workdir")


def parse_experiment(arguments: Sequence[str]) -> flags.FlagValues:
    """Parses an experiment's flags apart from those of the command line."""
    values = flags.FlagValues()
    define_experiment_flags(values)
    try:
        values(["", *arguments])
    except flags.Error as error:
        raise ValueError(str(error)) from error
    return values


def experiment_config(
    values: flags.FlagValues = flags.FLAGS,
) -> dict[str, Any]:
    """Returns the values of the flags that this module defines."""
    module = sys.modules[__name__].__name__
    return {
        flag.name: flag.value
        for flag in values.flags_by_module_dict()[module]
        if flag.name != "workdir"
    }


def resolved_flags(values: flags.FlagValues = flags.FLAGS) -> str:
    """Returns the configuration in the form of a flagfile."""
    lines = []
    for name, value in sorted(experiment_config(values).items()):
        if value is not None:
            lines.append(values[name].serialize())
    return "\n".join(lines) + "\n"


def claim_workdir(workdir: str, values: flags.FlagValues = flags.FLAGS) -> None:
    """Makes the workdir and writes its flags; refuses another run's."""
    from adt_tf.files import is_leftover, read_text, write_text

    path = pathlib.Path(workdir) / FLAGS_FILE
    text = resolved_flags(values)
    if path.exists():
        ours, theirs = _compared(text), _compared(read_text(path))
        if ours != theirs:
            raise ValueError(
                f"{path} holds another configuration, so nothing was changed. "
                f"There, not here: {sorted(theirs - ours)}; here, not there: "
                f"{sorted(ours - theirs)}. Choose another --workdir."
            )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A process that was killed here has left its own part of a file.
    if not all(is_leftover(p) for p in path.parent.iterdir()):
        raise ValueError(
            f"{path.parent} is not empty and is no run's workdir, so nothing "
            "was changed. Choose another --workdir."
        )
    write_text(path, text)


# What may differ between a run and its evaluation.
_OF_EVALUATION = ("dataset", "data_dir", "download", "epsilon", "seed")


def refuse_training_flags(*allowed: str) -> list[str]:
    """Refuses what an evaluation would ignore; returns the others given.

    Args:
        *allowed: What may be given beside the data set, epsilon and seed.
    """
    allowed = (*_OF_EVALUATION, *allowed)
    present = [n for n in experiment_config() if flags.FLAGS[n].present]
    refused = sorted(set(present) - set(allowed))
    if refused:
        raise ValueError(
            f"--{refused[0]} belongs to training and would be ignored here; "
            f"of a run's flags only {', '.join(allowed)} may be given."
        )
    return present


def check_model_flags(*allowed: str) -> None:
    """Refuses what a model in place of a workdir cannot be measured with.

    Args:
        *allowed: As in `refuse_training_flags`.
    """
    refuse_training_flags(*allowed)
    if not flags.FLAGS["dataset"].present:
        raise ValueError(
            "--model needs --dataset, the images to measure it on: mine.npz, "
            "or a name such as cifar10. --epsilon is "
            f"{flags.FLAGS.epsilon:.4g} unless given."
        )


def read_workdir(workdir: str) -> list[str]:
    """Sets the flags as the run in `workdir` had them, unless given here.

    Returns those given here, of the data set, epsilon and seed. The others
    belong to training and are refused.
    """
    present = refuse_training_flags()
    given = [flags.FLAGS[name].serialize() for name in present]
    path = pathlib.Path(workdir) / FLAGS_FILE
    if not path.is_file():
        raise ValueError(
            f"{workdir} holds no {FLAGS_FILE}, so it is no run's workdir. "
            "Train one first: scripts/train.py --workdir=..."
        )
    set_unless_given(path, experiment_config())
    return given


def model_name(path: pathlib.Path) -> str:
    """What results are named after: v1.0 of v1.0/ and of v1.0.keras."""
    return path.name if path.is_dir() else path.stem


def set_unless_given(path: pathlib.Path, known: Container[str]) -> None:
    """Sets the flags of a file, but for those on the command line.

    Args:
        path: A flagfile.
        known: The flags it may set. What a workdir holds may have come from
            anywhere, and must not say where a script writes.
    """
    from adt_tf.files import read_text

    for line in read_text(path).splitlines():
        if not line.startswith("--"):
            continue
        if line.startswith("--data_dir=") and "://" in line:
            if not flags.FLAGS["data_dir"].present:
                raise ValueError(
                    f"{path} says that the data lie on another machine, which "
                    "only the command line may say. If you trust it, give the "
                    f"same there: {line}"
                )
            continue
        name, equals, value = line.removeprefix("--").partition("=")
        if not equals:  # a boolean, written --name or --noname
            value = "true" if name in known else "false"
            name = name if value == "true" else name.removeprefix("no")
        if name not in known:
            raise ValueError(
                f"{path} has a flag that this version does not know there: "
                f"{line}"
            )
        # What is downloaded is for the command line alone to say.
        if name != "download" and not flags.FLAGS[name].present:
            try:
                flags.FLAGS[name].parse(value)
            except flags.Error as error:
                raise ValueError(f"{path}: {error}") from error


def _compared(text: str) -> set[str]:
    return {
        line
        for line in text.splitlines()
        if line.lstrip("-").split("=")[0].removeprefix("no")
        not in _NOT_COMPARED
    }


def run(main: Callable[..., None], *, takes_arguments: bool = False) -> None:
    """Runs `main`; an expected error becomes one line and exit code 1."""

    def parsed(argv):
        try:
            return flags.FLAGS(argv)
        except flags.Error as error:
            sys.exit(f"error: {_one_line(error)} (--help lists the flags)")

    def guarded(argv):
        if len(argv) > 1 and not takes_arguments:
            sys.exit(f"error: Too many arguments: {argv[1:]}")
        logging.set_verbosity(logging.ERROR)
        _import_tensorflow_quietly()
        try:
            main(*argv[1:])
        except (ValueError, OSError, MemoryError, zipfile.BadZipFile) as error:
            sys.exit(f"error: {_one_line(error)}")

    app.run(guarded, flags_parser=parsed)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or repr(error)


def _import_tensorflow_quietly() -> None:
    """Imports it and looks for devices, without the log lines of its C++.

    They are written before any setting of log levels is read. A failure is
    still told: as the exception that it raises.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow as tf
        import tensorflow_probability as tfp

        # It warns of repeated tracing wherever several attacks are run.
        tf.get_logger().setLevel("ERROR")
        # Other machines can be met only before there are devices.
        if flags.FLAGS.flag_values_dict().get("distribute") != "multiworker":
            tf.config.list_logical_devices()
            tfp.distributions.Normal(0.0, 1.0)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
