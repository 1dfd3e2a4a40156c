"""The flags of a training run on a command line.

    define_config(FLAGS)                      # all fields of Config
    config = Config(**given_config(FLAGS))

absl takes the command line apart; what a value means is for `Config` to say,
so that a flag is read alike on a command line and in a file.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Container
from typing import Any

from absl import flags

from adt_tf import files
from adt_tf.cli import command
from adt_tf.runs import flag_fields
from adt_tf.runs.config import Config
from adt_tf.serving import preset_files

#: What may differ between a run and its evaluation.
OF_EVALUATION = (
    "dataset",
    "data_dir",
    "download",
    "image_size",
    "stream",
    "norm",
    "epsilon",
    "seed",
)


# What a preset says of its measurements.
_OF_A_PRESET = ("dataset", "norm", "epsilon")


def define_config(
    values: flags.FlagValues, *, shown: Container[str] | None = None
) -> None:
    """Defines a flag for each field of `Config`.

    Args:
        values: Flags of the command.
        shown: Fields that --help shows, of a command that reads the others
            from a workdir; None for a command that takes all.
    """
    for field in dataclasses.fields(Config):
        if shown is None:
            group, text = "Flags of the run", _help(field)
        elif field.name in shown:
            group, text = "In the place of the run's", field.metadata["help"]
        else:
            group, text = command.HIDDEN, ""
        if flag_fields.is_switch(field):
            flag = flags.BooleanFlag(field.name, None, text)
        else:
            flag = flags.Flag(
                flags.ArgumentParser(),
                flags.ArgumentSerializer(),
                field.name,
                None,
                text,
            )
        flags.DEFINE_flag(flag, values, module_name=group)


def given_config(
    values: flags.FlagValues, *, allowed: Container[str] | None = None
) -> dict[str, Any]:
    """Returns the fields of `Config` that the command line gives.

    Args:
        values: Flags of the command.
        allowed: Fields that may be given; None for all.
    """
    names = [field.name for field in dataclasses.fields(Config)]
    present = [name for name in names if values[name].present]
    if allowed is not None:
        refused = sorted(name for name in present if name not in allowed)
        if refused:
            raise ValueError(
                f"--{refused[0]} belongs to training and would be ignored "
                "here; of a run's flags only "
                f"{', '.join(n for n in names if n in allowed)} may be given."
            )
    if "norm" in present and "epsilon" not in present:
        raise ValueError(
            f"--norm={values['norm'].value} needs --epsilon: a radius means "
            "another thing in each norm (8/255 is usual in linf, 0.5 in l2)."
        )
    texts = [values[name].serialize() for name in present]
    return flag_fields.parse_flags(Config, texts)


def config_of_run(values: flags.FlagValues, workdir: str) -> Config:
    """Returns a run's configuration, with what the command line gives.

    Args:
        values: Flags of the command.
        workdir: Directory of the run.
    """
    changes = given_config(values, allowed=OF_EVALUATION)
    return Config.from_workdir(workdir, **changes)


def define_model(values: flags.FlagValues) -> None:
    """Defines the flags that name a classifier."""
    flags.DEFINE_string(
        "workdir", None, "Directory of the run.", flag_values=values
    )
    flags.DEFINE_string(
        "model",
        None,
        "In its place a SavedModel or a file: .keras, .pt, .pth, "
        ".safetensors, .npz, .onnx, .h5.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "preset",
        None,
        "Preset in its place: a name of adt_tf.presets(), a directory, or "
        "hf://user/repository.",
        flag_values=values,
    )


def define_classifier(values: flags.FlagValues) -> None:
    """Defines the flags that name a classifier to measure."""
    define_model(values)
    flags.DEFINE_boolean(
        "probabilities",
        False,
        "The model gives probabilities, not logits.",
        flag_values=values,
    )


def default_output(
    values: flags.FlagValues, name: str, *, model: str = "model"
) -> pathlib.Path:
    """Returns the file of a result: in the workdir, or beside the model.

    That of a preset is in the current directory.

    Args:
        values: Flags of the command, those of `define_model` among them.
        name: Name of the file in a workdir.
        model: Flag that names a model.
    """
    if values.workdir:
        return pathlib.Path(values.workdir) / name
    if values.preset:
        return pathlib.Path(f"{pathlib.PurePath(values.preset).name}-{name}")
    path = pathlib.Path(values[model].value)
    # v1.0 of the SavedModel v1.0/ and of v1.0.keras.
    stem = path.name if path.is_dir() else path.stem
    return path.with_name(f"{stem}-{name}")


def classifier_fingerprint(values: flags.FlagValues) -> str | None:
    """Tells the classifier's file from another one; None of a directory.

    Args:
        values: Flags of the command, those of `define_model` among them.
    """
    from adt_tf.runs.workdir import Workdir

    if values.workdir:
        return Workdir(values.workdir).fingerprint()
    if values.model and pathlib.Path(values.model).is_file():
        return files.sha256(values.model)[:16]
    return None


def config_to_measure(
    values: flags.FlagValues, *allowed: str, model: str = "model"
) -> Config:
    """Returns the configuration that a classifier is measured with.

    It is that of --workdir, or of what a --preset was measured with, with what
    the command line gives in its place. For --model it is made of the command
    line alone.

    Args:
        values: Flags of the command, those of `define_model` among them.
        *allowed: Fields that may be given for a model, beside the data set,
            the norm, epsilon and the seed.
        model: Flag that names a model.
    """
    names = (values.workdir, values[model].value, values.preset)
    if sum(name is not None for name in names) != 1:
        raise ValueError("Give either --workdir or --model or --preset.")
    if values.workdir is not None:
        return config_of_run(values, values.workdir)
    given = given_config(
        values, allowed=(*OF_EVALUATION, "architecture", *allowed)
    )
    # That of the model, which is no run's network.
    architecture = given.pop("architecture", None)
    measured = None
    if values.preset is not None:
        if architecture is not None:
            raise ValueError(
                "A preset has its architecture inside: leave --architecture "
                f"out. Received: --architecture={architecture}"
            )
        folder = preset_files.locate(values.preset)
        measured = preset_files.read_metadata(folder)
    if measured is not None:
        return Config(**{k: measured[k] for k in _OF_A_PRESET} | given)
    config = Config(**given)
    if not values["dataset"].present:
        name = model if values.preset is None else "preset"
        raise ValueError(
            f"--{name} needs --dataset, the images to measure it on: mine.npz, "
            "or a name such as cifar10. --epsilon is "
            f"{config.epsilon:.4g} unless given."
        )
    return config


def load_classifier(
    values: flags.FlagValues, like: Any, *, probabilities: bool = False
) -> Any:
    """Loads the classifier that the command line names.

    Args:
        values: Flags of the command, those of `define_model` among them.
        like: Examples whose shape and classes are the classifier's.
        probabilities: Whether the model gives probabilities, not logits.
    """
    from adt_tf.runs import inputs
    from adt_tf.serving import preset_models

    if values.preset is not None:
        return preset_models.from_preset(values.preset)
    return inputs.load_classifier(
        values.workdir or values.model,
        values.architecture,
        like=like,
        probabilities=probabilities,
    )


def set_unless_given(values: flags.FlagValues, arguments: list[str]) -> None:
    """Sets flags, but for those of the command line.

    Args:
        values: Flags of the command.
        arguments: Flags of the form --name=value, --name or --noname.
    """
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not equals:  # a switch
            value = "true" if name in values else "false"
            name = name if name in values else name.removeprefix("no")
        if name not in values:
            raise ValueError(f"There is no such flag: {argument}")
        if not values[name].present:
            values[name].parse(value)


def _help(field: dataclasses.Field) -> str:
    text = field.metadata["help"]
    if field.metadata["choices"]:
        text += f" One of {', '.join(field.metadata['choices'])}."
    if field.default in (None, False, ()):
        return text
    return f"{text} (default: {flag_fields.format_value(field.default)})"
