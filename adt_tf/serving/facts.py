"""The description of an exported classifier: robustness.json.

    values = facts.describe(contract, origin, evaluations)
    facts.write(folder, values)          # and README.md, robustbench.json
    facts.read("models/digits/1")["robust"]["accuracy"]

If lint found a reason to doubt a number, every file has it as `caveat` beside
the number.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from adt_tf import evaluation, files
from adt_tf.json_files import Each, Maybe, read_json, write_json
from adt_tf.serving import cards

FILE = "robustness.json"

_SHARE = {"accuracy": float, "interval": [float]}
_EVALUATION = {
    "protocol": Maybe(str),
    "dataset": Maybe(str),
    "norm": str,
    "epsilon": Maybe(float),
    "num_examples": int,
    "seed": int,
    "natural": _SHARE,
    "robust": {**_SHARE, "caveat": Maybe(str)},
    "attacks": Each({**_SHARE, "description": str}),
    "examples_sha256": Maybe(str),
    "commit": Maybe(str),
}
_SCHEMA = {
    "name": str,
    "version": int,
    "num_classes": int,
    "class_names": Maybe([str]),
    "input": {"shape": [int], "range": [float], "resize": bool},
    "threat_model": Maybe({"norm": str, "epsilon": float}),
    "natural": Maybe(_SHARE),
    "robust": Maybe({**_SHARE, "caveat": Maybe(str)}),
    "evaluations": [_EVALUATION],
    "commit": Maybe(str),
    "licence": str,
    "runtimes": Each({"file": str}),
}


@dataclasses.dataclass(frozen=True)
class Contract:
    """The inputs and outputs of a served model.

    Attributes:
        name: Name of the served model.
        version: Number of its version.
        image_shape: Height, width and channels.
        num_classes: Number of classes.
        class_names: A name for each class, or None.
        resize: Whether files of other sizes are resized.
        runtimes: For each other runtime its file, and the differences of its
            logits from Keras'.
    """

    name: str
    version: int
    image_shape: tuple[int, int, int]
    num_classes: int
    class_names: Sequence[str] | None = None
    resize: bool = False
    runtimes: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Origin:
    """The origin of a classifier; None for what is not known.

    Attributes:
        method: Name of the method that trained it.
        network: Name of the architecture.
        norm: Norm of the threat model in training.
        epsilon: Radius of the threat model in training.
        dataset: Name of the data set.
        training_data: Size and fingerprint of the training data.
        commit: Commit of the code that trained it.
        licence: Licence of the weights, by its SPDX identifier.
    """

    method: str | None = None
    network: str | None = None
    norm: str | None = None
    epsilon: float | None = None
    dataset: str | None = None
    training_data: Mapping[str, Any] | None = None
    commit: str | None = None
    licence: str = "unknown"


def describe(
    contract: Contract,
    origin: Origin,
    evaluations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Returns the content of robustness.json.

    The accuracies at its top come from the evaluation with the lowest robust
    accuracy, among those in the threat model and on the data set of the
    training if there are any.

    Args:
        contract: Inputs and outputs of the model.
        origin: Origin of the classifier.
        evaluations: For each evaluation the fields of its JSON file, with its
            "report".
    """
    summaries = [_summarize(values) for values in evaluations]
    trained_for = None
    if origin.norm is not None and origin.epsilon is not None:
        trained_for = {"norm": origin.norm, "epsilon": origin.epsilon}
    known = {
        "threat_model": trained_for,
        "dataset": origin.dataset,
        "evaluations": summaries,
    }
    hardest = cards.hardest(cards.of_training(known) or summaries)
    shape = list(contract.image_shape)
    sizes = ", ".join(map(str, shape))
    names = contract.class_names
    return {
        "name": contract.name,
        "version": contract.version,
        "num_classes": contract.num_classes,
        "class_names": None if names is None else list(names),
        "input": {
            "shape": shape,
            "range": [0.0, 1.0],
            "resize": contract.resize,
            "signatures": {
                "serving_default": f"float32 [batch, {sizes}] in [0, 1]",
                "serving_uint8": f"uint8 [batch, {sizes}] in 0..255",
                "serving_bytes": _files(shape, contract.resize),
            },
        },
        **known,
        "natural": hardest and hardest["natural"],
        "robust": hardest and hardest["robust"],
        "method": origin.method,
        "network": origin.network,
        "training_data": origin.training_data and dict(origin.training_data),
        "commit": origin.commit,
        "licence": origin.licence,
        "runtimes": {k: dict(v) for k, v in contract.runtimes.items()},
    }


def _files(image_shape: Sequence[int], resize: bool) -> str:
    """Returns a description of the files that `serving_bytes` takes."""
    size = f"{image_shape[0]} rows and {image_shape[1]} columns"
    if resize:
        return f"PNG or JPEG files [batch] of any size, resized to {size}"
    return f"PNG or JPEG files [batch] of {size}; other sizes are refused"


def write(folder: str | os.PathLike, values: dict[str, Any]) -> None:
    """Writes the description as JSON, as a card and for RobustBench.

    Args:
        folder: Directory of a version.
        values: Result of `describe`.
    """
    folder = pathlib.Path(folder)
    write_json(folder / FILE, values)
    files.write_text(folder / "README.md", cards.model_card(values))
    write_json(folder / "robustbench.json", cards.robustbench_entry(values))


def read(folder: str | os.PathLike) -> dict[str, Any]:
    """Reads robustness.json.

    Args:
        folder: Directory of a version.
    """
    return read_json(pathlib.Path(folder) / FILE, _SCHEMA)


def _summarize(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an evaluation without the verdicts on single images."""
    report = values["report"]

    def share(name: str, accuracy: float) -> dict[str, Any]:
        interval = list(report.intervals[name])
        return {"accuracy": accuracy, "interval": interval}

    robust = share(evaluation.ROBUST, report.robust_accuracy)
    return {
        "protocol": values.get("protocol"),
        "dataset": values.get("dataset"),
        "norm": values.get("norm") or "linf",
        "epsilon": values.get("epsilon"),
        "num_examples": report.num_examples,
        "seed": report.seed,
        "independent": report.independent,
        "natural": share(
            evaluation.NATURAL, report.accuracy[evaluation.NATURAL]
        ),
        "robust": {**robust, "caveat": report.caveat or None},
        "attacks": {
            name: {
                **share(name, report.accuracy[name]),
                "description": description,
            }
            for name, description in report.attacks.items()
        },
        "examples_sha256": report.digest,
        "commit": values.get("commit"),
        "command": values.get("command"),
    }
