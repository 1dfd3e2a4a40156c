"""Reads and writes the files of an evaluation: JSON, CSV and Markdown.

output = checked_output("build/run/evaluation.json")
write(output, report, test, {"command": "..."})
read("build/run")["report"]
"""

from __future__ import annotations

import os
import pathlib
import zipfile
from typing import Any

from adt_tf import checks, data, evaluation, files
from adt_tf.array_files import DAMAGED, write_arrays
from adt_tf.json_files import Each, Maybe, read_json, write_json
from adt_tf.markdown import code, escape
from adt_tf.runs import lock, provenance
from adt_tf.runs.config import Config
from adt_tf.runs.lint_job import FINDING
from adt_tf.runs.workdir import Workdir

_SCHEMA = {
    "outcomes": Each(str),
    "attacks": Each(str),
    "searches": Maybe(Each(str)),
    "num_examples": int,
    "seed": int,
    "independent": bool,
    "seconds": Each(float),
    "examples_sha256": Maybe(str),
    "warnings": Maybe([FINDING]),
    "labels": Maybe(str),
    "class_names": Maybe([str]),
    "classifier": Maybe(str),
    "classifier_path": Maybe(str),
    "preset": Maybe(str),
    "architecture": Maybe(str),
    "probabilities": Maybe(bool),
    "default_epsilon": Maybe(bool),
    "command": Maybe(str),
    "commit": Maybe(str),
    "data_dir": Maybe(str),
    "dataset": Maybe(str),
    "image_size": Maybe([int]),
    "norm": Maybe(str),
    "epsilon": Maybe(float),
    "method": Maybe(str),
    "network": Maybe(str),
    "protocol": Maybe(str),
    "probabilistic": Maybe(
        {
            "thresholds": [float],
            "max_samples": int,
            "confidence": float,
            "failures": Each(str),
            "samples": Each(str),
        }
    ),
}
# Number of seconds to wait for another process that writes its files.
_LONGEST_WAIT = 60.0


def checked_output(
    output: str | os.PathLike,
    keep_examples: bool = False,
    *,
    details: dict[str, Any] | None = None,
    test: data.ImageData | None = None,
) -> pathlib.Path:
    """Returns the path of the JSON file, after checks.

    Raises `ValueError` before the evaluation starts if a file of another kind,
    or an evaluation of another subject, would be overwritten by the JSON file
    or by the files beside it.

    Args:
        output: Path that ends in .json; .csv, .md and .npz are written beside
            it.
        keep_examples: Whether the .npz file is written.
        details: Fields of the evaluation that is about to start. An evaluation
            of another classifier, on other data or in another threat model is
            then not overwritten.
        test: Examples of that evaluation.
    """
    output = pathlib.Path(output)
    if output.suffix != ".json":
        raise ValueError(
            "--output must end in .json; .csv, .md and .npz files are written "
            f"beside it. Received: {output}"
        )
    beside = [output.with_suffix(suffix) for suffix in (".csv", ".md")]
    beside += [output.with_suffix(".npz")] if keep_examples else []
    present = [path for path in (output, *beside) if files.is_taken(path)]
    others = [path for path in present if not path.is_file()]
    if output in present and output not in others:
        try:
            earlier = read(output)
        except ValueError:
            others.append(output)
        else:
            if details is not None:
                _refuse_another(output, earlier, details, test)
    elif not _is_of_run(output):
        others += [path for path in beside if path in present]
    images = output.with_suffix(".npz")
    if images in beside and images.is_file() and not _has_images(images):
        others.append(images)
    if others:
        raise ValueError(
            f"{others[0]} exists and was not written by an evaluation, so it "
            "is not overwritten. Move it away, or choose another --output."
        )
    return output


def _is_of_run(output: pathlib.Path) -> bool:
    """Whether it is a result in a workdir, where metrics.csv is no result."""
    names = ("evaluation", "artifact-")
    return Workdir(output.parent).is_run and output.name.startswith(names)


def _refuse_another(
    output: pathlib.Path,
    earlier: dict[str, Any],
    details: dict[str, Any],
    test: data.ImageData | None,
) -> None:
    """Raises if an evaluation there has another subject than a new one."""
    earlier, details = ({"norm": "linf", **v} for v in (earlier, details))
    is_threat = any(
        _differ(earlier.get(name), details.get(name))
        for name in ("norm", "epsilon")
    )
    reason = ""
    if _is_other_data(earlier, details, test):
        reason = " (the images or labels differ)"
    if not (is_threat or reason or _is_other_model(earlier, details)):
        return
    suffix = "other"
    if is_threat and details.get("epsilon") is not None:
        suffix = f"{details['norm']}-{details['epsilon']:.4g}"
    free = output.with_name(f"{output.stem}-{suffix}.json")
    raise ValueError(
        f"{output} holds the evaluation of {_subject(output, earlier)}, and "
        f"this one is of {_subject(output, details)}{reason}, so nothing was "
        f"overwritten. Add --output={free}, which adt-report reads as "
        f"--workdirs={free}; or remove the file."
    )


def _is_other_model(earlier: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether it is another classifier, not the same one trained again."""
    for name in ("classifier", "classifier_path", "preset"):
        if earlier.get(name) and earlier.get(name) == now.get(name):
            return False
    if earlier.get("classifier_path") and now.get("classifier_path"):
        return True
    return _differ(earlier.get("method"), now.get("method"))


def _is_other_data(
    earlier: dict[str, Any], now: dict[str, Any], test: data.ImageData | None
) -> bool:
    """Whether the examples are of another data set, or have changed."""
    has_digest = (
        test is not None
        and not test.is_streamed
        and earlier["num_examples"] == len(test)
        and earlier.get("examples_sha256") is not None
    )
    if has_digest:
        digest = checks.digest(*data.as_examples(test))
        return digest != earlier["examples_sha256"]
    names = earlier.get("dataset"), now.get("dataset")
    return _differ(*(name and os.path.abspath(name) for name in names))


def _differ(earlier: Any, now: Any) -> bool:
    """Whether two values are known and differ."""
    return earlier is not None and now is not None and earlier != now


def _subject(output: pathlib.Path, values: dict[str, Any]) -> str:
    """Names the classifier, the data and the threat model of an evaluation."""
    path = values.get("classifier_path")
    if path:
        path = os.path.normpath(output.parent / path)
    name = path or values.get("method") or "a classifier"
    return (
        f"{name} on {values.get('dataset') or 'unnamed data'}, {_ball(values)}"
    )


def _ball(values: dict[str, Any]) -> str:
    """Returns the norm and epsilon of an evaluation, as far as known."""
    epsilon = values.get("epsilon")
    if epsilon is None:
        return str(values.get("norm") or "threat model unknown")
    note = " (the default)" if values.get("default_epsilon") else ""
    return f"{values.get('norm') or 'linf'} epsilon {epsilon:.6g}{note}"


def title(details: dict[str, Any]) -> str:
    """Returns what was measured: classifier, data, protocol and epsilon.

    Args:
        details: Fields of the JSON file.
    """
    parts = [
        f"{details.get('method') or 'Evaluation'} on {details['dataset']}",
        details.get("protocol") and f"protocol {details['protocol']}",
        _ball(details),
    ]
    return ", ".join(filter(None, parts))


def _has_images(path: pathlib.Path) -> bool:
    try:
        with files.open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return "x_adv.npy" in archive.namelist()
    except DAMAGED:
        return False


def write(
    output: pathlib.Path,
    report: evaluation.Report | evaluation.ProbabilisticReport,
    test: data.ImageData,
    details: dict[str, Any],
    *,
    more: str = "",
) -> None:
    """Writes all files of an evaluation.

    A lock keeps the files consistent if several evaluations end together.

    Args:
        output: Path of the JSON file.
        report: Results.
        test: Test examples.
        details: Further fields of the JSON file.
        more: Markdown that follows the table in the .md file.
    """
    details = {"dataset": test.name, **details}
    head = f"# {escape(title(details))}\n\n"
    if details.get("command"):
        head += f"{code(details['command'])}\n\n"
    output.parent.mkdir(parents=True, exist_ok=True)
    with lock.held(output.parent, seconds=_LONGEST_WAIT):
        write_json(output, {**details, **report.to_dict()})
        files.write_text(output.with_suffix(".csv"), report.to_csv())
        files.write_text(
            output.with_suffix(".md"),
            head + report.to_markdown() + (more and f"\n{more}"),
        )
        if report.examples is not None:
            write_arrays(
                output.with_suffix(".npz"),
                {"x_adv": report.examples, "y": test.labels},
                compress=True,
            )
        if Workdir(output.parent).is_run:
            files.remove_leftovers(output.parent)


def describe_data(config: Config) -> dict[str, Any]:
    """Returns the fields on data, threat model and commit of an evaluation.

    Args:
        config: Configuration of the experiment.
    """
    names = ("dataset", "data_dir", "image_size", "norm", "epsilon")
    fields = {name: getattr(config, name) for name in names}
    return {**fields, "commit": provenance.commit()}


def read(
    path: str | os.PathLike, *, protocol: str | None = None
) -> dict[str, Any]:
    """Reads the JSON file of an evaluation.

    Args:
        path: Path of the file, or a workdir.
        protocol: Protocol of the evaluation in a workdir; None for
            evaluation.json.

    Returns:
        The fields of the file. "report" is a `Report`, and "probabilistic" a
        `ProbabilisticReport`, or None if no distributions were sampled.
    """
    path = pathlib.Path(path)
    if path.is_dir():
        path = Workdir(path).evaluation(protocol)
    if not path.exists():
        flag = f" --protocol={protocol}" if protocol else ""
        raise ValueError(
            f"{path} does not exist. Measure the run first: "
            f"adt-evaluate --workdir={path.parent}{flag}"
        )
    try:
        values = read_json(path, _SCHEMA)
        problem = _problem(values)
        if problem:
            raise ValueError(f"{path}: {problem}")
    except ValueError as error:
        raise ValueError(
            f"{str(error).rstrip('.')}. Measure the run again: adt-evaluate "
            f"--workdir={path.parent}, or from Python "
            "`adt_tf.runs.evaluation_job.assess`."
        ) from error
    try:
        sampled = None
        if values.get("probabilistic"):
            sampled = evaluation.ProbabilisticReport.from_dict(values)
        return {
            **values,
            "report": evaluation.Report.from_dict(values),
            "probabilistic": sampled,
        }
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _problem(values: dict[str, Any]) -> str | None:
    """Returns a message if fields contradict each other, or None."""
    outcomes = values["outcomes"]
    for name, verdicts in outcomes.items():
        others = set(verdicts) - set("01-")
        if others:
            return (
                f"`outcomes` must hold the letters 0, 1 and - only. Received: "
                f"{min(others)!r} for {name!r:.80}"
            )
    if set(outcomes) != {evaluation.NATURAL, *values["attacks"]}:
        return "`attacks` and `outcomes` must name the same attacks"
    counts = {len(verdicts) for verdicts in outcomes.values()}
    if counts != {values["num_examples"]} or 0 in counts:
        return (
            f"`num_examples` is {values['num_examples']}, but `outcomes` has "
            f"verdicts on {sorted(counts)} examples"
        )
    return None
