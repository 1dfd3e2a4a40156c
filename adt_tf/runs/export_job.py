"""Exports a classifier: the work of adt-export."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from adt_tf import checks, data
from adt_tf.runs import evaluation_files, provenance
from adt_tf.runs.config import Config
from adt_tf.runs.workdir import Workdir
from adt_tf.serving import (
    bundle,
    facts,
    preset_files,
    runtimes,
    saved_model,
)

# Number of test images on which a SavedModel is compared with Keras.
_IMAGES = 64
# Number of training images for the calibration of an int8 model.
_CALIBRATION = 256


def export(
    classifier: Any,
    test: data.ImageData,
    path: str | os.PathLike,
    *,
    origin: facts.Origin | None = None,
    evaluations: Sequence[dict[str, Any]] = (),
    resize: bool = False,
    formats: Sequence[str] = (),
    load_train: Callable[[], data.ImageData] | None = None,
) -> pathlib.Path:
    """Writes the next version of a bundle, and verifies it in a new process.

    Args:
        classifier: Keras model from images to logits.
        test: Examples on which the SavedModel must return the same logits.
            They also define the class names.
        path: Directory of the versions.
        origin: Origin of the classifier, or None.
        evaluations: Evaluations that `evaluation_files.read` returned.
        resize: Whether the model resizes image files of other sizes.
        formats: Names of other runtimes, out of `runtimes.NAMES`.
        load_train: Function that returns the training images. It is called
            only if a runtime needs calibration.

    Returns:
        The directory of the version.
    """
    path = pathlib.Path(path)
    if not isinstance(classifier, keras.Model):
        raise ValueError(
            "The classifier to export must be a Keras model. Received: a "
            "SavedModel, which is exported already."
        )
    images = data.as_examples(test)[0][:_IMAGES]
    runtimes.check_names(formats)
    num_classes = checks.num_classes(classifier) or test.num_classes
    class_names = test.class_names
    if class_names is not None and len(class_names) != num_classes:
        raise ValueError(
            f"The classifier has {num_classes} classes, but {test.name} has "
            f"{len(class_names)} class names: pass the data set that the "
            "classifier was trained on (--dataset)."
        )
    outputs = classifier(images, training=False)
    logits = checks.as_logits(outputs, classifier).numpy()
    calibration = None
    if runtimes.needs_calibration(formats):
        calibration = _spread(load_train() if load_train else test)
    lines: list[str] = []

    def complete(folder: pathlib.Path, version: int) -> None:
        error = saved_model.verify(folder, images, logits)
        lines[:] = [
            "signatures for floats, uint8 and PNG/JPEG, verified in a process "
            f"without adt_tf, largest logit error {error:.1e}"
        ]
        converted = runtimes.convert(
            classifier, folder, formats, images=images, calibration=calibration
        )
        lines.extend(
            f"{each['file']}: largest logit error "
            f"{each['largest_logit_error']:.1e}, same label for "
            f"{100 * each['label_agreement']:.1f} % of {len(images)} images"
            for each in converted.values()
        )
        contract = facts.Contract(
            path.resolve().name,
            version,
            saved_model.image_shape(classifier),
            num_classes,
            class_names,
            resize,
            converted,
        )
        description = facts.describe(
            contract, origin or facts.Origin(), evaluations
        )
        facts.write(folder, description)

    version = bundle.write(
        classifier, path, complete, class_names=class_names, resize=resize
    )
    print(f"SavedModel in {version}: {lines[0]}")
    height, width, _ = saved_model.image_shape(classifier)
    print(
        f"serving_bytes resizes files of any size to {height}x{width} "
        "(--noresize refuses other sizes)"
        if resize
        else f"serving_bytes takes files of {height}x{width} only (--resize "
        "takes any size)"
    )
    for line in lines[1:]:
        print(f"{version}/{line}")
    print(f"Its description: {version / facts.FILE} and README.md beside it")
    if not evaluations:
        print("Its robustness was not measured. To do so, run adt-evaluate.")
    return version


def _spread(train: data.ImageData) -> np.ndarray:
    """Returns evenly spaced images, since a data set may be sorted by class."""
    images = data.as_examples(train)[0]
    count = min(_CALIBRATION, len(images))
    return images[np.linspace(0, len(images) - 1, count).astype(int)]


def origin_of(
    config: Config,
    workdir: str | os.PathLike | None,
    licence: str,
    *,
    preset: str | None = None,
) -> facts.Origin:
    """Returns the recorded origin of a classifier.

    Args:
        config: Configuration for measuring the classifier.
        workdir: Directory of its run, or None for a file.
        licence: Licence of the weights.
        preset: Name of a preset, or None.
    """
    if preset is not None:
        folder = preset_files.locate(preset)
        metadata = preset_files.read_metadata(folder) or {}
        return facts.Origin(
            metadata.get("method"),
            norm=metadata.get("norm"),
            epsilon=metadata.get("epsilon"),
            dataset=metadata.get("dataset", config.dataset),
            licence=licence,
        )
    if workdir is None:
        return facts.Origin(dataset=config.dataset, licence=licence)
    trained = Config.from_workdir(workdir)
    starts = provenance.read(Workdir(workdir).provenance)
    last = starts[-1] if starts else {}
    return facts.Origin(
        trained.method,
        trained.network,
        trained.norm,
        trained.epsilon,
        trained.dataset,
        last.get("data"),
        last.get("git commit"),
        licence,
    )


def evaluations_of(
    paths: Sequence[str | os.PathLike], fingerprint: str | None
) -> list[dict[str, Any]]:
    """Reads the evaluations of a classifier.

    Skips evaluations of other classifiers and of exported files, and those
    with adversarial images of another model.

    Args:
        paths: Result files of `adt-evaluate`.
        fingerprint: Fingerprint of the classifier's files.
    """
    evaluations = []
    for path in paths:
        values = evaluation_files.read(path)
        if values.get("source") or values.get("artifact"):
            continue
        if values.get("classifier") != fingerprint:
            print(
                f"Skipped {path}, an evaluation of another classifier. To "
                "measure this one, run adt-evaluate again."
            )
            continue
        evaluations.append(values)
    return evaluations
