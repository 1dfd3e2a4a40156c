"""What a run leaves in its workdir, and what is made of it afterwards.

    evaluate("build/run", config, attacks=["pgd-20"])
    export("build/run", config)

A workdir holds flags.txt, metrics.csv, tensorboard/, checkpoints/,
classifier.keras and, where asked for, best.keras; once evaluated also
evaluation.json, and saved_model/ once exported.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from adt_tf import attacks as attack_recipes
from adt_tf import data, evaluation, saved_model

CLASSIFIER = "classifier.keras"
BEST = "best.keras"
EVALUATION = "evaluation.json"


def evaluate(
    workdir: str | pathlib.Path,
    config: dict[str, Any],
    *,
    attacks: Sequence[str],
    test_examples: int | None = None,
    batch_size: int = 128,
    output: str | None = None,
    given: Sequence[str] = (),
) -> evaluation.Report:
    """Attacks the classifier of a workdir and writes evaluation.json.

    `given` are flags that differ from the run's, for the command it records.
    """
    chosen = [attack_recipes.get(n, config["epsilon"]) for n in attacks]
    classifier = load_classifier(workdir)
    test = load_data(config, "test", test_examples)
    report = evaluation.evaluate(
        classifier, test, chosen, batch_size=batch_size, seed=config["seed"]
    )
    print(f"{config['method']} on {test.name}")
    print(report)
    path = pathlib.Path(output or pathlib.Path(workdir) / EVALUATION)
    command = [
        "python scripts/evaluate.py",
        f"--workdir={workdir}",
        f"--attacks={','.join(attacks)}",
        *given,
    ]
    if test_examples:
        command.append(f"--test_examples={test_examples}")
    details = {"command": " ".join(command)} | {
        name: config[name]
        for name in ("method", "dataset", "data_dir", "network", "epsilon")
    }
    write_text(
        path, json.dumps({**details, **report.to_dict()}, indent=2) + "\n"
    )
    print(f"Written to {path}")
    return report


def export(
    workdir: str | pathlib.Path,
    config: dict[str, Any],
    *,
    output: str | None = None,
) -> None:
    """Exports the classifier of a workdir, and loads it back elsewhere."""
    classifier = load_classifier(workdir)
    path = pathlib.Path(output or pathlib.Path(workdir) / "saved_model")
    images, _ = data.as_arrays(load_data(config, "test"))
    images = images[:64]
    if path.is_dir() and any(path.iterdir()):
        print(f"{path} is there already; it is checked, not written again.")
    else:
        saved_model.export(classifier, path)
    error = saved_model.verify(path, images, _logits(classifier, images))
    print(
        f"SavedModel in {path}: float, uint8 and PNG/JPEG signatures, loaded "
        f"back in a process without adt_tf, largest logit error {error:.1e}"
    )


def load_classifier(workdir: str | pathlib.Path) -> keras.Model:
    """Loads the classifier of a finished run: the best kept, or the last."""
    path = pathlib.Path(workdir) / CLASSIFIER
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist: the run has not finished. Train it with "
            "scripts/train.py first."
        )
    best = path.with_name(BEST)
    return keras.saving.load_model(
        best if best.exists() else path, safe_mode=True, compile=False
    )


def load_data(
    config: dict[str, Any], split: str, num_examples: int | None = None
) -> data.ImageData:
    return data.load(
        config["dataset"],
        split=split,
        data_dir=config["data_dir"],
        num_examples=num_examples,
        validation_examples=config["validation_examples"],
        seed=config["seed"],
        download=config["download"],
    )


def save_classifier(classifier: keras.Model, path: pathlib.Path) -> None:
    """Saves beside, then renames: a killed process leaves no broken file."""
    partial = path.with_name(f"partial-{path.name}")
    classifier.save(partial)
    os.replace(partial, path)


def write_text(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    partial.write_text(text)
    os.replace(partial, path)


def _logits(classifier: keras.Model, images: np.ndarray) -> np.ndarray:
    return np.asarray(classifier(images, training=False))
