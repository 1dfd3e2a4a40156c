"""The configuration of a training run.

    config = Config(method="at_pgd", epsilon=0.15)
    config = Config.parse(["--flagfile=digits/at_pgd", "--epochs=1"])
    config = Config.from_workdir("build/run")
    config.to_flags()                   # the text of a flagfile: flags.txt

The fields are those of `flag_table.FlagTable`. Creating a `Config` checks its
values. This module does not import TensorFlow, so that commands start fast.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from adt_tf.runs import file_names, flag_fields, flag_rules, flagfiles
from adt_tf.runs.flag_table import FlagTable
from adt_tf.runs.method_flags import METHOD_FLAGS

#: Values of flags that earlier versions did not write to flags.txt, where the
#: default has changed since.
OF_EARLIER_RUNS: dict[str, Any] = {"search_precision": "float32"}


@dataclasses.dataclass(frozen=True)
class Config(FlagTable):
    """The checked values of all flags of a run.

    Example:

    >>> config = Config.parse(["--flagfile=digits/adt_exp", "--epochs=1"])
    >>> config.method, config.epochs, config.drop_after
    ('adt_exp', 1, (25,))
    >>> Config(epochs=0)
    Traceback (most recent call last):
    ValueError: --epochs must be at least 1. Received: 0
    """

    def __post_init__(self) -> None:
        flag_fields.check_fields(self)
        flag_rules.check(self)

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Config:
        """Parses the flags of a command line, including flagfiles.

        Args:
            arguments: Flags of the form --name=value, --name or --noname.
        """
        flags = flagfiles.expand(arguments)
        return cls(**flag_fields.parse_flags(cls, flags))

    @classmethod
    def from_flagfile(cls, path: str | pathlib.Path) -> Config:
        """Reads a flagfile; `flagfiles.find` says where it is searched."""
        return cls.parse([f"--flagfile={path}"])

    @classmethod
    def from_workdir(cls, workdir: str | os.PathLike, **changes: Any) -> Config:
        """Reads the flags of a run, and replaces some of them.

        A workdir may come from an untrusted source. Its flags therefore cannot
        name flagfiles, start a download or access another machine.

        Args:
            workdir: Directory of the run.
            **changes: Values that replace those of the run.
        """
        path = pathlib.Path(workdir) / file_names.FLAGS
        if not path.is_file():
            raise ValueError(
                f"{workdir} holds no {path.name}, so it is not the workdir of "
                "a run. Train one first: adt-train --workdir=..., or give "
                "adt-evaluate, adt-lint or adt-export a file: --model=FILE"
            )
        try:
            flags = flagfiles.read_lines(path)
            values = flag_fields.parse_flags(cls, flags)
            config = cls(**{**OF_EARLIER_RUNS, **values, "download": False})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if "://" in (config.data_dir or "") and "data_dir" not in changes:
            raise ValueError(
                f"{path} sets --data_dir to another machine, which is allowed "
                "on the command line only. If you trust it, add "
                f"--data_dir={config.data_dir} there."
            )
        return dataclasses.replace(config, **changes)

    @property
    def may_stream(self) -> bool:
        """Whether images may be read from disk when they are needed.

        Without --stream or --nostream, a folder and a data set in array_record
        files count: their size is known only after TensorFlow is imported.
        """
        if self.stream is not None:
            return self.stream
        return os.path.isdir(self.dataset) or _has_records(
            self.data_dir
            or os.environ.get("TFDS_DATA_DIR")
            or "~/tensorflow_datasets",
            self.dataset,
        )

    @property
    def network_function(self) -> str | None:
        """The package.module:function that --network names, or None."""
        is_code = flagfiles.names_code(self.network)
        return self.network if is_code else None

    @property
    def network_file(self) -> str | None:
        """The file that --network names, or None for any other network."""
        is_file = "." in self.network or "/" in self.network
        is_file = is_file and self.network_function is None
        return self.network if is_file else None

    def network_arguments(self) -> dict[str, Any]:
        """Returns the arguments that only some networks accept."""
        if not self.network.startswith("keras:"):
            if self.activation is None:
                return {}
            return {"activation": self.activation}
        return {"weights": self.weights, "frozen_layers": self.frozen_layers}

    def to_flags(self) -> str:
        """Returns a flagfile of all values that are not None, as text."""
        return "\n".join(flag_fields.format_flags(self)) + "\n"

    def deciding_flags(self) -> set[str]:
        """Returns the flags that decide what a run computes.

        Two configurations belong to the same run if these flags are equal.
        """
        fields = dataclasses.fields(self)
        names = [field.name for field in fields if field.metadata["decides"]]
        return set(flag_fields.format_flags(self, names))

    def method_arguments(self) -> dict[str, Any]:
        """Returns the method arguments that are set."""
        values = {name: getattr(self, name) for name in METHOD_FLAGS}
        if self.search_precision != "bfloat16":
            # Methods without this argument search in float32 as well.
            del values["search_precision"]
        return {
            name: value for name, value in values.items() if value is not None
        }


def _has_records(data_dir: str, name: str) -> bool:
    """Whether a data set of TensorFlow Datasets is in array_record files."""
    folder = glob.escape(os.path.join(os.path.expanduser(data_dir), name))
    return any(glob.iglob(f"{folder}/*/*.array_record*"))
