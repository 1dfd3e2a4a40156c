"""Measurements that are kept, so that an interrupted figure can continue.

measurement = Measurement("figure2-hessian-at_pgd", measure, runs=("at_pgd",))
measurement.load(study)      # reads measurements/NAME.npz, or measures
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adt_tf import array_files
from adt_tf.reproduction.study import Runs, Study
from adt_tf.runs.workdir import Workdir

Arrays = Mapping[str, Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Named arrays that a figure is drawn from.

    Attributes:
        name: Name of the file, without its ending.
        measure: Function that returns named arrays.
        runs: Runs whose classifiers are measured. A run that has been trained
            again is measured again.
        settings: Other values that decide the result.
        gradients: Number of gradients of one image of the first run's network,
            to estimate the time.
        steps: Number of training steps of each run, to estimate the time.
    """

    name: str
    measure: Callable[[], Mapping[str, Any]]
    runs: tuple[str, ...]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gradients: float = 0.0
    steps: int = 0

    @classmethod
    def of_each_run(
        cls,
        prefix: str,
        rows: Runs,
        measure: Callable[[str], Mapping[str, Any]],
        settings: Mapping[str, Any],
        gradients: float,
    ) -> list[Measurement]:
        """Returns one measurement for each run of the rows.

        Args:
            prefix: Start of the names, followed by the name of the run.
            rows: Mapping from a label to a run.
            measure: Function from a run to named arrays.
            settings: Other values that decide the results.
            gradients: Number of gradients of one image for each measurement.
        """
        return [
            cls(
                f"{prefix}-{run}",
                functools.partial(measure, run),
                (run,),
                settings,
                gradients,
            )
            for run in rows.values()
        ]

    def is_there(self, study: Study) -> bool:
        """Tells whether the file holds these settings and runs."""
        return self._read(study) is not None

    def load(self, study: Study) -> dict[str, np.ndarray]:
        """Returns the arrays; measures them if they are missing."""
        arrays = self._read(study)
        if arrays is None:
            print(f"Measuring {self.name} ...", flush=True)
            values = {"settings": self._settings(study), **self.measure()}
            array_files.write_arrays(self._path(study), values)
            arrays = self._read(study)
        if arrays is None:
            raise ValueError(
                f"Cannot read {self._path(study)} after writing it"
            )
        return arrays

    def _read(self, study: Study) -> dict[str, np.ndarray] | None:
        arrays = array_files.read_arrays(self._path(study)) or {}
        settings = str(arrays.pop("settings", ""))
        return arrays if settings == self._settings(study) else None

    def _path(self, study: Study) -> pathlib.Path:
        seed = study.seeds[0]
        suffix = f"-seed{seed}" if seed else ""
        return study.output / "measurements" / f"{self.name}{suffix}.npz"

    def _settings(self, study: Study) -> str:
        seed = study.seeds[0]
        models = [
            Workdir(study.workdir(run, seed)).fingerprint() for run in self.runs
        ]
        return json.dumps([dict(self.settings), seed, models], sort_keys=True)


def fields_of(result: Any) -> dict[str, Any]:
    """Returns the fields of an analysis' result except its seed."""
    return {k: v for k, v in vars(result).items() if k != "seed"}
