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

from adt_tf.cli import command
from adt_tf.runs import flag_fields
from adt_tf.runs.config import Config

#: What may differ between a run and its evaluation.
OF_EVALUATION = ("dataset", "data_dir", "download", "epsilon", "seed")


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


def define_classifier(values: flags.FlagValues) -> None:
    """Defines the flags that name a classifier to measure."""
    flags.DEFINE_string(
        "workdir", None, "Directory of the run.", flag_values=values
    )
    flags.DEFINE_string(
        "model",
        None,
        "A .keras file or SavedModel in its place.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "probabilities",
        False,
        "The model gives probabilities, not logits.",
        flag_values=values,
    )


def default_output(values: flags.FlagValues, name: str) -> pathlib.Path:
    """Returns the file of a result: in the workdir, or beside the model.

    Args:
        values: Flags of the command, --workdir and --model among them.
        name: Name of the file in a workdir.
    """
    if values.workdir:
        return pathlib.Path(values.workdir) / name
    model = pathlib.Path(values.model)
    # v1.0 of the SavedModel v1.0/ and of v1.0.keras.
    stem = model.name if model.is_dir() else model.stem
    return model.with_name(f"{stem}-{name}")


def config_to_measure(values: flags.FlagValues, *allowed: str) -> Config:
    """Returns the configuration that a classifier is measured with.

    It is that of --workdir, with what the command line gives in its place. For
    --model it is made of the command line alone.

    Args:
        values: Flags of the command, --workdir and --model among them.
        *allowed: Fields that may be given for a model, beside the data set,
            epsilon and the seed.
    """
    if (values.workdir is None) == (values.model is None):
        raise ValueError("Give either --workdir or --model.")
    if values.workdir is not None:
        return config_of_run(values, values.workdir)
    config = Config(**given_config(values, allowed=(*OF_EVALUATION, *allowed)))
    if not values["dataset"].present:
        raise ValueError(
            "--model needs --dataset, the images to measure it on: mine.npz, "
            "or a name such as cifar10. --epsilon is "
            f"{config.epsilon:.4g} unless given."
        )
    return config


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
