"""Reads runs that were evaluated with the same settings.

runs = read_runs(["build/standard", "model-evaluation.json"])
runs[0].name, runs[0].report.robust_accuracy, runs[0].metrics["loss"]
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from adt_tf import checks, data, evaluation, threat_models
from adt_tf.report import run_files
from adt_tf.runs import file_names, inputs, lint_job, provenance
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import loading, preset_files, preset_models
from adt_tf.threat_models import ThreatModel


@dataclasses.dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """An evaluated model, as read from its workdir or its evaluation.

    Attributes:
        name: Name of the method, or else of the folder or file; of both if
            several runs have the same method.
        workdir: Workdir; None for a model file or a preset.
        evaluated: File of the evaluation.
        result: Contents of that file.
        flags: Lines of flags.txt, the flags of training.
        metrics: Values of each epoch (or NaN), for each column of metrics.csv.
        lint: Contents of lint.json, or None.
        provenance: One entry for each start of training.
    """

    name: str
    workdir: Workdir | None
    evaluated: pathlib.Path
    result: dict[str, Any]
    flags: tuple[str, ...] = ()
    metrics: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    lint: dict[str, Any] | None = None
    provenance: list[dict[str, Any]] = dataclasses.field(default_factory=list)

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
    def classifier(self) -> pathlib.Path | None:
        """File or directory of the evaluated classifier; None for a preset."""
        if self.workdir is not None:
            return self.workdir.chosen_classifier
        place = self.result.get("classifier_path")
        if place is None:
            return None
        return pathlib.Path(os.path.normpath(self.evaluated.parent / place))

    @property
    def fingerprint(self) -> str | None:
        """Hash of the classifier's files, or None if there are none."""
        if self.classifier is not None:
            return loading.fingerprint(self.classifier)
        return loading.fingerprint(preset_files.locate(self.result["preset"]))

    def load_classifier(self, like: data.ImageData | None = None) -> Any:
        """Loads the classifier.

        Args:
            like: Examples with the image shape and classes of the classifier.
        """
        if self.workdir is not None:
            return self.workdir.load_classifier()
        if self.classifier is None:
            return preset_models.from_preset(self.result["preset"])
        return inputs.load_classifier(
            self.classifier,
            self.result.get("architecture"),
            like=like,
            probabilities=bool(self.result.get("probabilities")),
        )

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
        workdirs: Workdirs of runs on one data set, each with its evaluation,
            or .json files of adt-evaluate.
        protocol: Name in evaluation-PROTOCOL.json of the workdirs;
            evaluation.json by default.

    Raises:
        ValueError: If the runs were evaluated with different settings.
    """
    paths = [pathlib.Path(path) for path in workdirs]
    if not paths or len({path.resolve() for path in paths}) < len(paths):
        raise ValueError(
            "A report needs one or more workdirs or .json files of "
            "adt-evaluate, each once. Received: "
            f"{[str(path) for path in paths]}"
        )
    results = [_evaluation(path, protocol) for path in paths]
    _check_alike(results)
    methods = [
        result.get("method") or path.name
        for path, (_, result) in zip(paths, results, strict=True)
    ]
    names = _distinct(methods, paths)
    return [
        _run(name, *result) for name, result in zip(names, results, strict=True)
    ]


def _run(
    name: str, evaluated: pathlib.Path, result: dict[str, Any]
) -> EvaluatedRun:
    """Returns the run of an evaluation, with the other files of its workdir."""
    run = EvaluatedRun(name, _workdir(evaluated, result), evaluated, result)
    _check_classifier(run, evaluated, result, "evaluate")
    workdir = run.workdir
    if workdir is not None:
        lint = workdir.lint
        run = dataclasses.replace(
            run,
            flags=run_files.flags(workdir.flags),
            metrics=run_files.metrics(workdir.metrics),
            provenance=provenance.read(workdir.provenance),
        )
    elif run.classifier is not None:
        lint = file_names.beside(run.classifier, file_names.LINT)
    else:
        return run
    findings = lint_job.read(lint)
    if findings is not None:
        _check_classifier(run, lint, findings, "lint")
    return dataclasses.replace(run, lint=findings)


def _workdir(evaluated: pathlib.Path, result: dict[str, Any]) -> Workdir | None:
    """Returns the workdir of the evaluated run; None for a model or preset."""
    place = result.get("classifier_path")
    workdir = Workdir(os.path.normpath(evaluated.parent / (place or ".")))
    is_model = place is not None and not workdir.is_run
    return None if is_model or result.get("preset") else workdir


def load_examples(run: EvaluatedRun, num_examples: int) -> data.ImageData:
    """Loads the first examples of the run's evaluation.

    Raises `ValueError` if the examples in memory have changed since.
    """
    count, digest = run.report.num_examples, run.report.digest
    evaluated = _load_test(run, count)
    is_known = digest is not None and not evaluated.is_streamed
    if is_known and checks.digest(*data.as_examples(evaluated)) != digest:
        raise ValueError(
            f"The images or labels of {run.result['dataset']} are not those "
            f"of the evaluation {run.evaluated}. Restore them, or run "
            "adt-evaluate again."
        )
    return evaluated if num_examples >= count else _load_test(run, num_examples)


def _load_test(run: EvaluatedRun, num_examples: int) -> data.ImageData:
    return data.load(
        run.result["dataset"],
        split="test",
        data_dir=run.result.get("data_dir"),
        num_examples=num_examples,
        image_size=tuple(run.result.get("image_size") or ()) or None,
    )


def _evaluation(
    path: pathlib.Path, protocol: str | None
) -> tuple[pathlib.Path, dict[str, Any]]:
    """Returns the file of an evaluation, and its contents."""
    if protocol and not re.fullmatch(r"\w[\w-]*", protocol):
        raise ValueError(
            "Argument `protocol` must be a name, not a path. Received: "
            f"protocol={protocol!r}"
        )
    if path.is_file() and path.suffix != ".json":
        raise ValueError(
            f"A report reads evaluations, and {path} is not one. If it is a "
            f"model, measure it: adt-evaluate --model={path} --dataset=..., "
            "and pass the .json file that this writes."
        )
    evaluated = path
    if path.suffix != ".json" or path.is_dir():
        evaluated = Workdir(path).evaluation(protocol)
    if not evaluated.is_file():
        raise ValueError(
            f"{evaluated} does not exist. {_remedy(evaluated, protocol)}"
        )
    return evaluated, run_files.evaluation(evaluated)


def _remedy(evaluated: pathlib.Path, protocol: str | None) -> str:
    """Returns what to do where an evaluation is missing."""
    workdir = Workdir(evaluated.parent)
    flag = f" --protocol={protocol}" if protocol else ""
    text = (
        f"Evaluate the run first: adt-evaluate --workdir={workdir.path}{flag}"
    )
    if not workdir.is_run:
        text = (
            f"{workdir.path} is not the workdir of a run either. Measure a run "
            "by adt-evaluate --workdir=DIR, or a model file by adt-evaluate "
            "--model=FILE --dataset=..., and pass that workdir, or the .json "
            "file that the command writes"
        )
    others = [f"--protocol={name}" for name in workdir.protocols()]
    found = sorted(workdir.path.glob("*-evaluation*.json"))
    others += [f"--workdirs={path}" for path in found]
    if others:
        text += f"; or report on an existing evaluation: {', '.join(others)}"
    return text


def _check_classifier(
    run: EvaluatedRun,
    path: pathlib.Path,
    values: dict[str, Any],
    script: str,
) -> None:
    """Raises an error if a file is about a replaced classifier."""
    fingerprint = values.get("classifier")
    if not fingerprint or fingerprint == run.fingerprint:
        return
    flag, place = "--model", run.classifier or run.result.get("preset")
    if run.workdir is not None:
        flag, place = "--workdir", run.workdir.path
    elif run.classifier is None:
        flag = "--preset"
    raise ValueError(
        f"{path} is about a classifier that is no longer in {place}. Run this "
        f"command again: adt-{script} {flag}={place}"
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
    """Returns the methods' names, with paths where names are not unique.

    A path is that of a workdir or of an evaluation.
    """
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
