"""Defines the flags of a training run for a command, and reads them.

    define_config(FLAGS)                      # all fields of Config
    config = Config(**given_config(FLAGS))

absl splits the command line; `Config` parses the values, so that a flag has
the same meaning on a command line and in a flagfile.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Container
from typing import Any

from absl import flags

from adt_tf.cli import command
from adt_tf.runs import file_names, flag_fields
from adt_tf.runs.config import Config
from adt_tf.serving import preset_files

#: Flags that may differ between a run and its evaluation.
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
# Flags that have a default value when a model file is measured.
_WITH_A_DEFAULT = ("norm", "epsilon", "seed")
# Settings that a preset stores with its measurements.
_OF_A_PRESET = ("dataset", "norm", "epsilon")


def define_config(
    values: flags.FlagValues, *, shown: Container[str] | None = None
) -> None:
    """Defines a flag for each field of `Config`.

    Args:
        values: Flags of the command.
        shown: Fields that --help lists, for a command that reads the other
            fields from a workdir; None for a command that accepts all.
    """
    for field in dataclasses.fields(Config):
        if shown is None:
            group, text = "Flags of the run", _help(field)
        elif field.name in shown:
            group = "Flags that replace those of the run"
            text = field.metadata["help"]
            if field.name in _WITH_A_DEFAULT:
                text = _help(field, "that of the run or preset; of a model ")
        else:
            group, text = command.HIDDEN, ""
        if flag_fields.is_switch(field):
            flag: flags.Flag = flags.BooleanFlag(field.name, None, text)
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
    """Returns the fields of `Config` that are set on the command line.

    Args:
        values: Flags of the command.
        allowed: Fields that may be set; None for all.
    """
    names = [field.name for field in dataclasses.fields(Config)]
    present = [name for name in names if values[name].present]
    if allowed is not None:
        refused = sorted(name for name in present if name not in allowed)
        if refused:
            raise ValueError(
                f"--{refused[0]} is a flag of training and has no effect here. "
                "Flags of a run that may be given here: "
                f"{', '.join(n for n in names if n in allowed)}."
            )
    if "norm" in present and "epsilon" not in present:
        raise ValueError(
            f"--norm={values['norm'].value} needs --epsilon, since a radius "
            "depends on the norm (8/255 is usual in linf, 0.5 in l2)."
        )
    texts = [values[name].serialize() for name in present]
    return flag_fields.parse_flags(Config, texts)


def config_of_run(values: flags.FlagValues, workdir: str) -> Config:
    """Returns the configuration of a run, changed by the command line.

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
        "SavedModel or file to use instead of a run: .keras, .pt, .pth, "
        ".safetensors, .npz, .onnx, .h5, .index.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "preset",
        None,
        "Preset to use instead of a run: a name that adt_tf.presets() returns, "
        "a directory, or hf://user/repository.",
        flag_values=values,
    )


def define_classifier(values: flags.FlagValues) -> None:
    """Defines the flags that name a classifier to measure."""
    define_model(values)
    flags.DEFINE_boolean(
        "probabilities",
        False,
        "The model returns probabilities, not logits.",
        flag_values=values,
    )


def default_output(
    values: flags.FlagValues, name: str, *, model: str = "model"
) -> pathlib.Path:
    """Returns the path of a result file, in the workdir or beside the model.

    The results of a preset go to the current directory.

    Args:
        values: Flags of the command, including those of `define_model`.
        name: Name of the file in a workdir.
        model: Name of the flag that holds the path of a model.
    """
    if values.workdir:
        return pathlib.Path(values.workdir) / name
    if values.preset:
        preset = pathlib.PurePath(os.path.abspath(values.preset)).name
        return pathlib.Path(f"{preset}-{name}")
    return file_names.beside(pathlib.Path(getattr(values, model)), name)


def classifier_fingerprint(values: flags.FlagValues) -> str | None:
    """Returns a hash of the classifier's files.

    Args:
        values: Flags of the command, including those of `define_model`.
    """
    from adt_tf.runs.workdir import Workdir
    from adt_tf.serving import loading

    if values.workdir:
        return Workdir(values.workdir).fingerprint()
    if values.preset:
        return loading.fingerprint(preset_files.locate(values.preset))
    return loading.fingerprint(values.model)


def describe_classifier(
    values: flags.FlagValues, output: pathlib.Path
) -> dict[str, Any]:
    """Returns the fields of a result file from which the classifier is loaded.

    Args:
        values: Flags of the command, including those of `define_classifier`.
        output: Path of the file. The path of the classifier is relative to it,
            so that both can be moved together.
    """
    path = values.workdir or values.model
    return {
        "classifier_path": path and os.path.relpath(path, output.parent),
        "preset": values.preset,
        "architecture": values.architecture,
        "probabilities": values.probabilities,
    }


def config_to_measure(
    values: flags.FlagValues, *allowed: str, model: str = "model"
) -> Config:
    """Returns the configuration for measuring a classifier.

    It is the configuration of --workdir, or the settings stored in --preset,
    changed by the command line. With --model, the command line alone sets it.

    Args:
        values: Flags of the command, including those of `define_model`.
        *allowed: Further fields that may be set for a model, beside the data
            set, the norm, epsilon and the seed.
        model: Name of the flag that holds the path of a model.
    """
    names = (values.workdir, values[model].value, values.preset)
    if sum(name is not None for name in names) != 1:
        raise ValueError("Give exactly one of --workdir, --model and --preset.")
    given = values.flag_values_dict()
    if given[model] is None and given.get("probabilities"):
        raise ValueError(
            f"--probabilities needs --{model}: a run and a preset hold a "
            "classifier that returns logits. Remove --probabilities."
        )
    if values.workdir is not None:
        return config_of_run(values, values.workdir)
    fields = given_config(
        values, allowed=(*OF_EVALUATION, "architecture", *allowed)
    )
    # In a Config this flag would require --network to be a file.
    architecture = fields.pop("architecture", None)
    measured = None
    if values.preset is not None:
        if architecture is not None:
            raise ValueError(
                "A preset contains its architecture: remove --architecture. "
                f"Received: --architecture={architecture}"
            )
        folder = preset_files.locate(values.preset)
        measured = preset_files.read_metadata(folder)
    if measured is not None:
        return Config(**{k: measured[k] for k in _OF_A_PRESET} | fields)
    config = Config(**fields)
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
        values: Flags of the command, including those of `define_model`.
        like: Examples with the image shape and classes of the classifier.
        probabilities: Whether the model returns probabilities, not logits.
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
    """Sets flags, except those that are set on the command line.

    Args:
        values: Flags of the command.
        arguments: Flags of the form --name=value, --name or --noname.
    """
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not equals:  # Form --name or --noname.
            value = "true" if name in values else "false"
            name = name if name in values else name.removeprefix("no")
        if name not in values:
            raise ValueError(f"Unknown flag: {argument}")
        if not values[name].present:
            values[name].parse(value)


def _help(field: dataclasses.Field, origin: str = "") -> str:
    text = field.metadata["help"]
    if field.metadata["choices"]:
        text += f" One of {', '.join(field.metadata['choices'])}."
    if field.default in (None, False, ()):
        return text
    default = flag_fields.format_value(field.default)
    return f"{text} (default: {origin}{default})"
