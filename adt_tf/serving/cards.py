"""Describes an exported classifier in the formats of others.

    model_card(values)           # Markdown, with Hugging Face's metadata
    robustbench_entry(values)    # a dictionary, as in RobustBench's model_info

`values` is the content of robustness.json (`adt_tf.serving.facts`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from adt_tf.markdown import code, escape

_NORMS: dict[Any, str] = {"linf": "Linf", "l2": "L2"}

_NAMES = {"linf": "l-infinity", "l2": "l2"}
_EXPLANATION = (
    "A row marked (alone) gives the accuracy under that attack alone; another "
    "row, the accuracy after all attacks up to it. The last row gives the "
    "accuracy under all attacks."
)


def model_card(values: Mapping[str, Any]) -> str:
    """Returns a model card with a `model-index` for the Hugging Face Hub.

    Args:
        values: Content of robustness.json.
    """
    # JSON is YAML, and in it a name cannot become another field.
    metadata = {
        "license": values["licence"].lower(),
        "library_name": "tensorflow",
        "pipeline_tag": "image-classification",
        "tags": ["image-classification", "adversarial-robustness", "adt_tf"],
        "model-index": [
            {
                "name": values["name"],
                "results": [_result(e) for e in values["evaluations"]],
            }
        ],
    }
    if not values["evaluations"]:
        del metadata["model-index"]
    front = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in metadata.items()
    ]
    lines = ["---", *front, "---", "", f"# {escape(values['name'])}", ""]
    lines += [f"Version {values['version']}. {_summary(values)}", ""]
    lines += ["## Input and output", "", *_contract(values), ""]
    lines += ["## Robustness", "", *_robustness(values), ""]
    if values["runtimes"]:
        lines += ["## Other runtimes", "", *_runtimes(values), ""]
    lines += ["## Origin", "", *_origin(values), ""]
    return "\n".join(lines)


def of_training(values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the evaluations in the threat model and on the data of training.

    A value that is not known matches any other.

    Args:
        values: Content of robustness.json.
    """
    trained = {"dataset": values["dataset"], **(values["threat_model"] or {})}
    return [
        each
        for each in values["evaluations"]
        if all(
            None in (known, each[name]) or known == each[name]
            for name, known in trained.items()
        )
    ]


def hardest(
    evaluations: Sequence[Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """Returns the evaluation with the lowest robust accuracy, if any.

    Args:
        evaluations: Items of "evaluations" in robustness.json.
    """
    return min(
        evaluations,
        key=lambda each: each["robust"]["accuracy"],
        default=None,
    )


def robustbench_entry(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry in the form of RobustBench's model_info files.

    As there, accuracies are percentages in text. They come from evaluations in
    the threat model and on the data set of the entry; without one they are
    None. `autoattack_acc` is the result of the protocol autoattack.

    Args:
        values: Content of robustness.json.
    """
    within = of_training(values)
    reported = hardest(within)
    with_autoattack = hardest(
        [each for each in within if each["protocol"] == "autoattack"]
    )
    strongest = with_autoattack and with_autoattack["robust"]
    robust = reported and reported["robust"]
    natural = reported and reported["natural"]
    caveats = [each["caveat"] for each in (strongest, robust) if each]
    caveats = [caveat for caveat in caveats if caveat]
    threat_model = values["threat_model"] or {}
    norm = threat_model.get("norm")
    return {
        "link": None,
        "name": values["name"],
        "authors": None,
        "venue": None,
        "additional_data": None,
        "number_forward_passes": 1,
        "dataset": values["dataset"],
        "threat_model": _NORMS.get(norm, norm),
        "architecture": values["network"],
        "eps": _epsilon(threat_model.get("epsilon")),
        "clean_acc": natural and f"{100 * natural['accuracy']:.2f}",
        "reported": robust and f"{100 * robust['accuracy']:.2f}",
        "autoattack_acc": strongest and f"{100 * strongest['accuracy']:.2f}",
        "unreliable": bool(caveats),
        "footnote": "AutoAttack is adt_tf's, native in TensorFlow."
        + "".join(f" {caveat}" for caveat in caveats[:1]),
    }


def _result(each: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an evaluation as an item of `model-index`."""
    dataset = each["dataset"] or "unknown"
    caveat = each["robust"]["caveat"]
    name = f"robust accuracy ({_ball(each)}, protocol {each['protocol']}"
    name += f"; {caveat})" if caveat else ")"
    return {
        "task": {"type": "image-classification"},
        "dataset": {"name": dataset, "type": dataset, "split": "test"},
        "metrics": [
            {
                "type": "accuracy",
                "name": "natural accuracy",
                "value": each["natural"]["accuracy"],
            },
            {
                "type": "accuracy",
                "name": name,
                "value": each["robust"]["accuracy"],
            },
        ],
    }


def _summary(values: Mapping[str, Any]) -> str:
    parts = [f"An image classifier of {values['num_classes']} classes"]
    if values["network"]:
        parts.append(f"({escape(values['network'])})")
    if values["method"]:
        parts.append(f"trained by {escape(values['method'])}")
    if values["dataset"]:
        parts.append(f"for {escape(values['dataset'])}")
    text = " ".join(parts)
    if values["threat_model"]:
        text += f", to withstand changes in the {_ball(values['threat_model'])}"
    return text + "."


def _contract(values: Mapping[str, Any]) -> list[str]:
    lines = ["| signature | `images` |", "| --- | --- |"]
    for name, meaning in values["input"]["signatures"].items():
        lines.append(f"| {code(name)} | {escape(meaning)} |")
    lines += [
        "",
        "Each gives `logits`, `probabilities` and `label`; `serving_bytes` "
        "also `class_name`. A label of -1 means an image that is not finite.",
    ]
    if values["class_names"]:
        names = ", ".join(map(escape, values["class_names"]))
        lines += ["", f"Classes, from 0: {names}."]
    return lines


def _robustness(values: Mapping[str, Any]) -> list[str]:
    if not values["evaluations"]:
        return ["This export has no evaluation: run `adt-evaluate` before it."]
    lines = []
    for each in values["evaluations"]:
        lines += [
            f"Protocol {escape(each['protocol'])}: {each['num_examples']} test "
            f"images of {escape(each['dataset'])}, {_ball(each)}, seed "
            f"{each['seed']}. Robust accuracy is an upper bound: a stronger "
            "attack may leave less.",
            "",
            "| | accuracy (%) | 95 % interval |",
            "| --- | ---: | --- |",
        ]
        alone = " (alone)" if each["independent"] else ""
        rows = {
            "natural": each["natural"],
            **{f"{name}{alone}": v for name, v in each["attacks"].items()},
            "A_rob": each["robust"],
        }
        for name, share in rows.items():
            low, high = share["interval"]
            caveat = share.get("caveat")
            lines.append(
                f"| {escape(name)} | {100 * share['accuracy']:.2f}"
                + (f" ({escape(caveat)})" if caveat else "")
                + f" | {100 * low:.1f} to {100 * high:.1f} |"
            )
        lines.append("")
    return [*lines, _EXPLANATION]


def _runtimes(values: Mapping[str, Any]) -> list[str]:
    lines = [
        "| runtime | file | largest logit error | same label (%) |",
        "| --- | --- | ---: | ---: |",
    ]
    for name, each in values["runtimes"].items():
        lines.append(
            f"| {escape(name)} | {code(each['file'])} | "
            f"{each['largest_logit_error']:.1e} | "
            f"{100 * each['label_agreement']:.1f} |"
        )
    return [*lines, "", "Compared with Keras on test images."]


def _origin(values: Mapping[str, Any]) -> list[str]:
    lines = [f"- Licence of the weights: {escape(values['licence'])}"]
    if values["commit"]:
        lines.append(f"- Commit of adt_tf: {code(values['commit'])}")
    data = values["training_data"]
    if data:
        lines.append(
            f"- Training data: {escape(data['name'])}, {data['examples']} "
            f"examples, SHA-256 {code(data['sha256'])}"
        )
    return lines


def _ball(threat_model: Mapping[str, Any]) -> str:
    norm = threat_model["norm"]
    radius = _epsilon(threat_model["epsilon"])
    return f"{_NAMES.get(norm, norm)} ball of radius {radius}"


def _epsilon(epsilon: float | None) -> str | None:
    """Returns a radius in its usual form.

    >>> _epsilon(8 / 255), _epsilon(0.5)
    ('8/255', '0.5')
    """
    if epsilon is None:
        return None
    levels = round(255 * epsilon)
    if 0 < levels <= 32 and abs(255 * epsilon - levels) < 1e-6:
        return f"{levels}/255"
    return f"{epsilon:g}"
