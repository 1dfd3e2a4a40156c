"""Classifies the stored perturbations of a preset again.

    result = replay("digits_small_cnn_adt_exp")
    print(result)        # 99 of 100 right, 77 standing: as the card says

An evaluation takes minutes; a replay of its perturbations takes a second. The
file has only perturbations; the images come from the data set.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from adt_tf import checks, data, threat_models
from adt_tf.array_files import read_arrays, write_arrays
from adt_tf.serving import preset_files, preset_models


class Replay(NamedTuple):
    """Verdicts of a classifier on clean and perturbed images.

    Attributes:
        natural: Whether each clean image is classified correctly.
        standing: Whether each image is classified correctly both clean and
            perturbed.
        differences: Indices of the images whose verdicts differ from the
            file's.
    """

    natural: np.ndarray
    standing: np.ndarray
    differences: np.ndarray

    @property
    def agrees(self) -> bool:
        """Whether all verdicts equal the file's."""
        return len(self.differences) == 0

    def __str__(self) -> str:
        """Returns the verdicts as one line of text."""
        result = "as the card says"
        if not self.agrees:
            result = (
                "other verdicts than the card's on the images "
                f"{', '.join(map(str, self.differences))}"
            )
        return (
            f"{self.natural.sum()} of {len(self.natural)} right, "
            f"{self.standing.sum()} standing: {result}"
        )


def replay(preset: str | os.PathLike, *, data_dir: str | None = None) -> Replay:
    """Classifies the images of a preset, clean and perturbed.

    The perturbed images are first checked against the threat model.

    Args:
        preset: A preset as in `from_preset`.
        data_dir: Directory of TFDS' prepared data, or None for TFDS' default.
    """
    folder = preset_files.locate(preset)
    metadata = preset_files.read_metadata(folder)
    path = folder / preset_files.ADVERSARIAL
    if metadata is None or not path.is_file():
        raise ValueError(
            f"A preset to replay must have a {preset_files.ADVERSARIAL} and "
            f"a {preset_files.METADATA}. Received: {folder}"
        )
    arrays = read_arrays(path) or {}
    deltas = arrays.get("deltas", np.zeros([0]))
    images, labels = data.as_arrays(
        data.load(
            metadata["dataset"],
            split="test",
            data_dir=data_dir,
            num_examples=max(1, len(deltas)),
        )
    )
    expected = [arrays.get(name, deltas) for name in ("natural", "standing")]
    if (
        deltas.shape != images.shape
        or deltas.dtype != np.float32
        or any(e.shape != labels.shape or e.dtype != bool for e in expected)
    ):
        raise ValueError(
            f"{path} must have a perturbation and two verdicts for each of "
            f"the first test images of {metadata['dataset']}. Received: "
            f"deltas of shape {deltas.shape} for images {images.shape}"
        )
    if checks.digest(images, labels) != metadata.get("examples_sha256"):
        raise ValueError(
            f"{path} belongs to other images than the test images of "
            f"{metadata['dataset']} on this machine."
        )
    ball = threat_models.from_norm(metadata["norm"], metadata["epsilon"])
    verdicts = _verdicts(
        preset_models.from_preset(folder), images, labels, deltas, ball
    )
    differ = np.any(np.stack(verdicts) != np.stack(expected), axis=0)
    return Replay(*verdicts, np.flatnonzero(differ))


def write_adversarial(
    path: str | os.PathLike,
    classifier: Any,
    images: np.ndarray,
    labels: np.ndarray,
    x_adv: np.ndarray,
    threat_model: threat_models.ThreatModel,
) -> None:
    """Writes the perturbations of images and their verdicts.

    Args:
        path: File to write.
        classifier: Model from images to logits.
        images: Clean images.
        labels: Labels of the images.
        x_adv: Perturbed images of an evaluation.
        threat_model: Threat model that contains them.
    """
    deltas = x_adv - images
    natural, standing = _verdicts(
        classifier, images, labels, deltas, threat_model
    )
    write_arrays(
        pathlib.Path(path),
        {"deltas": deltas, "natural": natural, "standing": standing},
        compress=True,
    )


def _verdicts(
    classifier: Any,
    images: np.ndarray,
    labels: np.ndarray,
    deltas: np.ndarray,
    threat_model: threat_models.ThreatModel,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the verdicts on clean images, and on clean and perturbed ones."""
    x_adv = np.clip(images + deltas, *threat_model.bounds)
    threat_model.check(tf.constant(images), tf.constant(x_adv))
    clean, perturbed = (
        np.asarray(classifier(x, training=False)).argmax(-1) == labels
        for x in (images, x_adv)
    )
    return clean, clean & perturbed
