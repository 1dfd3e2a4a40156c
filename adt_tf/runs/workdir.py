"""What a run leaves in its workdir, and what is made of it afterwards.

    classifier = load_classifier("build/run")
    export("build/run", config)

A workdir holds flags.txt, .lock, provenance.json, metrics.csv, tensorboard/,
checkpoints/, classifier.keras and, where asked for, best.keras; once evaluated
also evaluation.json with .csv and .md, and saved_model/ once exported.
"""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import numpy as np

from adt_tf import data, files
from adt_tf.runs.config import FLAGS_FILE, Config
from adt_tf.serving import loading, saved_model

CLASSIFIER = "classifier.keras"
BEST = "best.keras"
PROVENANCE = "provenance.json"


def export(
    workdir: str | pathlib.Path,
    config: Config,
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


def classifier_path(workdir: str | pathlib.Path) -> pathlib.Path:
    """The file of a run's classifier: the best kept, or the last."""
    best = pathlib.Path(workdir) / BEST
    return best if best.exists() else best.with_name(CLASSIFIER)


def fingerprint(workdir: str | pathlib.Path) -> str | None:
    """Tells the classifier of a run from another one; None before it is."""
    path = classifier_path(workdir)
    if not path.is_file():
        return None
    return files.sha256(path)[:16]


def load_classifier(workdir: str | pathlib.Path) -> keras.Model:
    """Loads the classifier of a finished run."""
    path = pathlib.Path(workdir) / CLASSIFIER
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist: the run has not finished. Train it with "
            "adt-train first."
        )
    return loading.load(classifier_path(workdir))


def load_any(path: str | pathlib.Path, *, probabilities: bool = False) -> Any:
    """Loads the classifier of a workdir, a .keras file or a SavedModel."""
    if (pathlib.Path(path) / FLAGS_FILE).is_file():
        return load_classifier(path)
    return loading.load(path, probabilities=probabilities)


def load_data(
    config: Config, split: str, num_examples: int | None = None
) -> data.ImageData:
    return data.load(
        config.dataset,
        split=split,
        data_dir=config.data_dir,
        num_examples=num_examples,
        validation_examples=config.validation_examples,
        seed=config.seed,
        download=config.download,
    )


def load_test_data(
    config: Config, num_examples: int | None = None
) -> data.ImageData:
    """Loads the test split; says so where it is but a part of a file."""
    test = load_data(config, "test", num_examples)
    share = data.test_share(config.dataset)
    if share:
        print(
            f"{config.dataset} has no test split, so {share[0]} of its "
            f"{share[1]} examples are taken for it; saved as x_test and "
            "y_test all of them are."
        )
    return test


def save_classifier(classifier: keras.Model, path: pathlib.Path) -> None:
    """Saves a classifier, whole or not at all."""
    with files.atomic_write(path) as partial:
        classifier.save(partial)


def _logits(classifier: keras.Model, images: np.ndarray) -> np.ndarray:
    return np.asarray(classifier(images, training=False))
