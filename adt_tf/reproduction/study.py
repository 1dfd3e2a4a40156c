"""A reproduction: a scale, a directory, seeds and flags.

    study = Study(scales.get("tiny"), "build/tiny")
    study.workdir("at_pgd", seed=0)       # build/tiny/runs/at_pgd
    study.config("at_pgd", seed=0)        # the configuration of that run

Targets share runs and their workdirs: Table 1 and Figure 2 have one AT-PGD.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from adt_tf import data
from adt_tf.reproduction import registry
from adt_tf.reproduction.scales import Scale
from adt_tf.runs import inputs
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import ThreatModel

#: Mapping from a row's label to its run.
Rows = Mapping[str, str | None]
#: The same for rows that all have a run, as those of a figure.
Runs = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Study:
    """A reproduction in a directory.

    Args:
        scale: Scale of all runs and attacks.
        output: Directory of runs/, measurements/ and the targets' files.
        seeds: Seeds of the runs. A table has a run for each seed, a figure
            uses the first seed.
        flags: Flags that every run has after all others, such as
            `--data_dir=DIR`.
        rows: Runs of each table to make; None for all, () for none.
        released: Directory of models released by others, or None.
    """

    scale: Scale
    output: pathlib.Path
    seeds: tuple[int, ...] = (0,)
    flags: tuple[str, ...] = ()
    rows: tuple[str, ...] | None = None
    released: pathlib.Path | None = None

    def __post_init__(self) -> None:
        unknown = [run for run in self.rows or () if run not in registry.RUNS]
        if unknown:
            raise ValueError(
                f"--rows must be some of {', '.join(registry.RUNS)}. Received: "
                f"{', '.join(unknown)}"
            )

    def file(self, name: str) -> pathlib.Path:
        """Returns the path of a target's file; its name holds the seeds."""
        path = self.output / name
        if self.seeds == (0,):
            return path
        seeds = "_".join(map(str, self.seeds))
        return path.with_stem(f"{path.stem}-seeds{seeds}")

    def workdir(self, run: str, seed: int) -> pathlib.Path:
        """Returns the directory of a run."""
        suffix = f"-seed{seed}" if seed else ""
        return self.output / "runs" / f"{run}{suffix}"

    def arguments(self, run: str, seed: int) -> list[str]:
        """Returns the flags of adt-train for a run except its workdir."""
        return [
            *registry.RUNS[run].arguments(self.scale),
            *([f"--seed={seed}"] if seed else []),
            *self.flags,
        ]

    def config(self, run: str, seed: int) -> Config:
        """Returns the configuration of a run."""
        return Config.parse(self.arguments(run, seed))

    def classifier(self, run: str, seed: int) -> Any:
        """Loads the classifier of a finished run."""
        return Workdir(self.workdir(run, seed)).load_classifier()

    def classifiers(self, rows: Runs) -> dict[str, Any]:
        """Loads the classifiers of a figure's rows, by their labels."""
        return {
            k: self.classifier(run, self.seeds[0]) for k, run in rows.items()
        }

    def threat_model(self, run: str) -> ThreatModel:
        """Returns the threat model that a run is trained for."""
        return inputs.threat_model(self.config(run, self.seeds[0]))

    def images(self, figure: str, run: str) -> data.ImageData:
        """Returns the test examples of a figure."""
        return self.test_data(run, self.seeds[0], self.scale.images[figure])

    def test_data(
        self, run: str, seed: int, num_examples: int | None
    ) -> data.ImageData:
        """Returns the first test examples of a run's data set, or all."""
        config = self.config(run, seed)
        test = inputs.load_data(config, "test")
        if num_examples is None or num_examples >= len(test):
            return test
        return inputs.load_data(config, "test", num_examples)

    def rows_to_make(self, rows: Rows) -> dict[str, str | None]:
        """Returns the rows that `--rows` selects."""
        if self.rows is None:
            return dict(rows)
        return {k: run for k, run in rows.items() if run in self.rows}
