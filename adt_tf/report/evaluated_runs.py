"""Reads runs that were evaluated with the same settings.

runs = read_runs(["build/standard", "build/adt_exp"])
runs[0].name, runs[0].report.robust_accuracy, runs[0].metrics["loss"]
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from adt_tf import data, evaluation, threat_models
from adt_tf.report import run_files
from adt_tf.runs import lint_job, provenance
from adt_tf.runs.workdir import Workdir
from adt_tf.threat_models import ThreatModel


@dataclasses.dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """A trained and evaluated model, as read from its workdir.

    Attributes:
        name: Name of the method, or else of the folder; of both if several
            runs have the same method.
        folder: Workdir.
        evaluated: File of the evaluation.
        result: Contents of that file.
        flags: Lines of flags.txt, the flags of training.
        metrics: Values of each epoch (or NaN), for each column of metrics.csv.
        lint: Contents of lint.json, or None.
        provenance: One entry for each start of training.
    """

    name: str
    folder: pathlib.Path
    evaluated: pathlib.Path
    result: dict[str, Any]
    flags: tuple[str, ...]
    metrics: dict[str, list[float]]
    lint: dict[str, Any] | None
    provenance: list[dict[str, Any]]

    @property
    def report(self) -> evaluation.Report:
        """The report of the evaluation."""
        return self.result["report"]

    @property
    def accuracy(self) -> dict[str, float]:
        """Natural accuracy, accuracy under each attack, and A_rob."""
        return {
            **self.report.accuracy,
            evaluation.ROBUST: self.report.robust_accuracy,
        }

    @property
    def threat_model(self) -> ThreatModel:
        """The threat model of the evaluation."""
        norm = self.result.get("norm", "linf")
        return threat_models.from_norm(norm, self.result["epsilon"])

    @property
    def trained_with(self) -> tuple[str, str] | None:
        """Norm and epsilon of training; None if they are not known."""
        epsilon = self.flag("epsilon")
        return (self.flag("norm") or "linf", epsilon) if epsilon else None

    @property
    def classifier(self) -> pathlib.Path:
        """File of the evaluated classifier."""
        return Workdir(self.folder).chosen_classifier

    def flag(self, name: str) -> str | None:
        """Returns the value of a flag of training, or None."""
        for line in self.flags:
            if line.startswith(f"--{name}="):
                return line.partition("=")[2]
        return None


def read_runs(
    workdirs: Sequence[str | pathlib.Path], protocol: str | None = None
) -> list[EvaluatedRun]:
    """Reads runs that were evaluated with the same settings.

    Args:
        workdirs: Workdirs of runs on one data set, each with its evaluation.
        protocol: Name in evaluation-PROTOCOL.json; evaluation.json by default.

    Raises:
        ValueError: If the runs were evaluated with different settings.
    """
    folders = [pathlib.Path(path) for path in workdirs]
    if not folders or len({path.resolve() for path in folders}) < len(folders):
        raise ValueError(
            "A report needs one or more workdirs, each once. Received: "
            f"{[str(path) for path in folders]}"
        )
    results = [_evaluation(path, protocol) for path in folders]
    _check_alike(results)
    methods = [
        result.get("method") or folder.name
        for folder, (_, result) in zip(folders, results, strict=True)
    ]
    names = _distinct(methods, folders)
    return [
        EvaluatedRun(
            name,
            folder,
            path,
            result,
            run_files.flags(Workdir(folder).flags),
            run_files.metrics(Workdir(folder).metrics),
            _lint(folder),
            provenance.read(Workdir(folder).provenance),
        )
        for name, folder, (path, result) in zip(
            names, folders, results, strict=True
        )
    ]


def load_examples(run: EvaluatedRun, num_examples: int) -> data.ImageData:
    """Loads the first examples of the run's evaluation."""
    return data.load(
        run.result["dataset"],
        split="test",
        data_dir=run.result.get("data_dir"),
        num_examples=min(num_examples, run.report.num_examples),
        image_size=tuple(run.result.get("image_size") or ()) or None,
    )


def _evaluation(
    folder: pathlib.Path, protocol: str | None
) -> tuple[pathlib.Path, dict[str, Any]]:
    if protocol and not re.fullmatch(r"\w[\w-]*", protocol):
        raise ValueError(
            "Argument `protocol` must be a name, not a path. Received: "
            f"protocol={protocol!r}"
        )
    path = Workdir(folder).evaluation(protocol)
    if not path.is_file():
        others = [f"--protocol={name}" for name in Workdir(folder).protocols()]
        flag = f" --protocol={protocol}" if protocol else ""
        raise ValueError(
            f"{path} does not exist. Evaluate the run first: "
            f"adt-evaluate --workdir={folder}{flag}"
            + (
                f"; or report on an existing evaluation: {', '.join(others)}"
                if others
                else ""
            )
        )
    result = run_files.evaluation(path)
    _check_classifier(folder, path, result, "evaluate")
    return path, result


def _check_classifier(
    folder: pathlib.Path,
    path: pathlib.Path,
    values: dict[str, Any],
    script: str,
) -> None:
    """Raises an error if a file is about a replaced classifier."""
    fingerprint = values.get("classifier")
    if fingerprint and fingerprint != Workdir(folder).fingerprint():
        raise ValueError(
            f"{path} is about a classifier that is no longer in {folder}. Run "
            f"this command again: adt-{script} --workdir={folder}"
        )


def _check_alike(results: list[tuple[pathlib.Path, dict[str, Any]]]) -> None:
    settings = {
        (
            *(r["dataset"], r.get("norm", "linf"), r["epsilon"]),
            *(r["num_examples"], r["seed"]),
        )
        for _, r in results
    }
    columns = {tuple(r["report"].outcomes) for _, r in results}
    ways = {r["report"].independent for _, r in results}
    if len(settings) > 1 or len(columns) > 1 or len(ways) > 1:
        raise ValueError(
            "A report compares runs on the same examples under the same "
            "attacks. Received: (data set, norm, epsilon, examples, seed of "
            f"the attacks) {sorted(settings)}; attacks {sorted(columns)}; "
            f"independent {sorted(ways)}. Evaluate the runs with the same "
            "flags (without --seed the seed of training is used), or write "
            "two reports."
        )


def _distinct(methods: list[str], folders: Sequence[pathlib.Path]) -> list[str]:
    """Returns the methods' names, with paths where names are not unique."""
    counts = collections.Counter(methods)
    names = [
        method if counts[method] == 1 else f"{method} ({folder.name})"
        for method, folder in zip(methods, folders, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [
            f"{method} ({folder})"
            for method, folder in zip(methods, folders, strict=True)
        ]
    return names


def _lint(folder: pathlib.Path) -> dict[str, Any] | None:
    path = Workdir(folder).lint
    values = lint_job.read(path)
    if values is not None:
        _check_classifier(folder, path, values, "lint")
    return values
