"""The export of a classifier: what adt-export does."""

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

# How many test images a SavedModel is compared on.
_IMAGES = 64
# How many training images an int8 model is calibrated on.
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
    """Writes the next version of a bundle, which was loaded back elsewhere.

    Args:
        classifier: A Keras model from images to logits.
        test: Examples, on which the SavedModel must give the same logits; the
            class names are theirs.
        path: Directory of the versions.
        origin: Where the classifier comes from, or None.
        evaluations: What was measured of it, as `evaluation_files.read` gives
            it.
        resize: Whether files of other sizes are resized.
        formats: Names of other runtimes, out of `runtimes.NAMES`.
        load_train: Returns the training images; asked for where a runtime is
            calibrated on them.

    Returns:
        The directory of the version.
    """
    path = pathlib.Path(path)
    if not isinstance(classifier, keras.Model):
        raise ValueError(
            "What is exported must be a Keras model. Received: a SavedModel, "
            "which need not be exported again."
        )
    images = data.as_examples(test)[0][:_IMAGES]
    runtimes.check_names(formats)
    num_classes = checks.num_classes(classifier) or test.num_classes
    class_names = test.class_names
    if class_names is not None and len(class_names) != num_classes:
        raise ValueError(
            f"The classifier has {num_classes} classes, but {test.name} names "
            f"{len(class_names)}: give the data set that it was trained on "
            "(--dataset)."
        )
    logits = np.asarray(classifier(images, training=False))
    calibration = None
    if runtimes.needs_calibration(formats):
        calibration = _spread(load_train() if load_train else test)
    lines = []

    def complete(folder: pathlib.Path, version: int) -> None:
        error = saved_model.verify(folder, images, logits)
        lines[:] = [
            "float, uint8 and PNG/JPEG signatures, loaded back in a process "
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
        known = facts.describe(contract, origin or facts.Origin(), evaluations)
        facts.write(folder, known)

    version = bundle.write(
        classifier, path, complete, class_names=class_names, resize=resize
    )
    print(f"SavedModel in {version}: {lines[0]}")
    for line in lines[1:]:
        print(f"{version}/{line}")
    print(f"What is known of it: {version / facts.FILE}, README.md beside it")
    if not evaluations:
        print("Its robustness was not measured: adt-evaluate does that.")
    return version


def _spread(train: data.ImageData) -> np.ndarray:
    """Returns images from all over a data set, which may be in order."""
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
    """Returns where a classifier comes from, as far as that is written down.

    Args:
        config: What it is measured with.
        workdir: Directory of its run, or None for a file.
        licence: Licence of the weights.
        preset: Name of a preset, or None.
    """
    if preset is not None:
        folder = preset_files.locate(preset)
        known = preset_files.read_metadata(folder) or {}
        return facts.Origin(
            known.get("method"),
            norm=known.get("norm"),
            epsilon=known.get("epsilon"),
            dataset=known.get("dataset", config.dataset),
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
    """Returns the evaluations of a classifier, without those of another.

    One of attacks on another model, or of another artefact, is left out too.

    Args:
        paths: Files of `adt-evaluate`.
        fingerprint: That of the classifier's file; None takes what says none.
    """
    chosen = []
    for path in paths:
        values = evaluation_files.read(path)
        if values.get("source") or values.get("artifact"):
            continue
        if values.get("classifier") != fingerprint:
            print(
                f"{path} is an evaluation of another classifier, so it is left "
                "out. Measure this one again: adt-evaluate."
            )
            continue
        chosen.append(values)
    return chosen
