"""What a report reads from disk: runs that were evaluated alike.

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
    """A trained and evaluated model, as its workdir tells it.

    Attributes:
        name: The method, or else the folder's name; both where two runs share
            it.
        folder: The workdir.
        evaluated: The file that the verdicts come from.
        result: Its contents.
        flags: The lines of flags.txt, of training.
        metrics: For each column of metrics.csv, a number an epoch (or NaN).
        lint: The contents of lint.json, or None.
        provenance: An entry each time that training was started.
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
        """The verdicts."""
        return self.result["report"]

    @property
    def accuracy(self) -> dict[str, float]:
        """Natural, under each attack, and A_rob."""
        return {
            **self.report.accuracy,
            evaluation.ROBUST: self.report.robust_accuracy,
        }

    @property
    def threat_model(self) -> ThreatModel:
        """The ball that the attacks of the evaluation stayed in."""
        norm = self.result.get("norm", "linf")
        return threat_models.from_norm(norm, self.result["epsilon"])

    @property
    def trained_with(self) -> tuple[str, str] | None:
        """Norm and epsilon of training; None where they are not known."""
        epsilon = self.flag("epsilon")
        return epsilon and (self.flag("norm") or "linf", epsilon)

    @property
    def classifier(self) -> pathlib.Path:
        """The file of the classifier that is evaluated."""
        return Workdir(self.folder).chosen_classifier

    def flag(self, name: str) -> str | None:
        """The value of a flag of training, or None."""
        for line in self.flags:
            if line.startswith(f"--{name}="):
                return line.partition("=")[2]
        return None


def read_runs(
    workdirs: Sequence[str | pathlib.Path], protocol: str | None = None
) -> list[EvaluatedRun]:
    """Reads runs that were evaluated alike, and refuses others.

    Args:
        workdirs: Runs of one data set, each with its evaluation.
        protocol: Chooses evaluation-PROTOCOL.json; by default evaluation.json.
    """
    folders = [pathlib.Path(path) for path in workdirs]
    if not folders or len({path.resolve() for path in folders}) < len(folders):
        raise ValueError(
            "A report needs one or several workdirs, each once. Received: "
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
    """Loads the first examples of those that the run was evaluated on."""
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
        known = [f"--protocol={name}" for name in Workdir(folder).protocols()]
        flag = f" --protocol={protocol}" if protocol else ""
        raise ValueError(
            f"{path} does not exist. Measure the run first: "
            f"adt-evaluate --workdir={folder}{flag}"
            + (
                f"; or report on what is there: {', '.join(known)}"
                if known
                else ""
            )
        )
    result = run_files.evaluation(path)
    _check_classifier(folder, path, result, "evaluate")
    return path, result


def _check_classifier(folder, path, values, script) -> None:
    """Refuses what was found about a classifier that is no longer there."""
    measured = values.get("classifier")
    if measured and measured != Workdir(folder).fingerprint():
        raise ValueError(
            f"{path} is about another classifier than the one that is in "
            f"{folder} now. Measure it again: "
            f"adt-{script} --workdir={folder}"
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
            "attacks. Received (data set, norm, epsilon, examples, seed of the "
            f"attacks): {sorted(settings)} under {sorted(columns)}, "
            f"independent: {sorted(ways)}; evaluate them alike (the attacks' "
            "seed is that of training unless --seed is given), or write two "
            "reports."
        )


def _distinct(methods: list[str], folders: Sequence[pathlib.Path]) -> list[str]:
    """Methods' names, with as much of the path as tells them apart."""
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
