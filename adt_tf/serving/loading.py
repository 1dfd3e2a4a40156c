"""Loads classifiers: Keras models, SavedModels, and weights of others.

    classifier = loading.load("model.keras")
    classifier = loading.load("saved_model/")
    classifier = loading.load("file.pt", architecture="wrn-28-10")
    logits = classifier(images, training=False)

`adt_tf.load_classifier` is this `load`.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks, files
from adt_tf.files import first_line
from adt_tf.serving import bundle, preset_files
from adt_tf.serving.bridge import classifiers
from adt_tf.serving.bridge.reading import keras_weights, tensorflow_checkpoints


def load(
    path: str | os.PathLike,
    architecture: str | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    num_classes: int | None = None,
    normalization: tuple[Sequence[float], Sequence[float]] | None = None,
    entry: str | None = None,
    probabilities: bool = False,
) -> Any:
    """Loads a classifier from images in [0, 1] to logits.

    No name in a file is imported or run, and torch is not needed.

    Args:
        path: A `.keras` or `.h5` file, the directory of a SavedModel or of its
            versions, an `.onnx` file, or a file of weights: one that
            `torch.save` wrote, a safetensors or `.npz` file, Keras'
            `.weights.h5`, or a checkpoint of TensorFlow 1 (its `.index`, its
            prefix or its directory).
        architecture: Name of the architecture of the weights, such as
            `"wrn-28-10"`, or None to recognise it by their names.
        input_shape: Shape of an image (height, width, channels), or None for
            the default of the architecture.
        num_classes: Number of logits, or None for that of the file. Only a
            `.weights.h5` file needs it, if it is not the default of the
            architecture.
        normalization: Mean and standard deviation of each channel that the
            weights expect, or None for those in the file or the default of
            the architecture.
        entry: Name of the entry that holds the weights, such as `"ema"`, if
            the file has several.
        probabilities: Whether the model returns probabilities. Their
            logarithms are then used as logits.
    """
    path = pathlib.Path(path)
    if not (path / "saved_model.pb").is_file():
        path = bundle.newest(path) or path
    if has_weights_only(path):
        classifier = classifiers.load(
            path,
            architecture,
            input_shape=input_shape,
            num_classes=num_classes,
            normalization=normalization,
            entry=entry,
        )
    elif not path.exists():
        raise ValueError(
            f"There is no file or directory {path}. A model is a .keras file, "
            "the directory of a SavedModel, an .onnx file or a file of "
            "weights (.pt, .pth, .safetensors, .npz, .h5, .index)."
        )
    elif (architecture, normalization, entry) != (None, None, None):
        raise ValueError(
            "Arguments `architecture`, `normalization` and `entry` belong to "
            "files of weights (.pt, .pth, .safetensors, .npz, .weights.h5, "
            f".index). Received: path={str(path)!r} with "
            f"architecture={architecture!r}"
        )
    elif (path / "saved_model.pb").is_file():
        classifier = ServedModel(path)
    elif path.is_file():
        try:
            classifier = keras.saving.load_model(
                path, safe_mode=True, compile=False
            )
        except Exception as error:  # a damaged file may raise anything
            raise _unreadable(path, error) from error
    else:
        raise ValueError(
            "A model must be a .keras file, the directory of a SavedModel "
            "(with a saved_model.pb), an .onnx file or a file of weights "
            f"(.pt, .pth, .safetensors, .npz, .h5, .index). Received: {path}"
        )
    return LogProbabilities(classifier) if probabilities else classifier


load_classifier = load


def fingerprint(path: str | os.PathLike) -> str | None:
    """Returns a hash of the files of a model, or None if there are none.

    Args:
        path: A path as in `load`, or the directory of a preset.
    """
    path = pathlib.Path(path)
    if not (path / "saved_model.pb").is_file():
        path = bundle.newest(path) or path
    paths = [tensorflow_checkpoints.index_file(path) or path]
    # An index holds checksums of the weights.
    for names in (
        ("saved_model.pb", "variables/variables.index"),
        (preset_files.CONFIG, preset_files.WEIGHTS),
    ):
        if (path / names[0]).is_file():
            paths = [path / name for name in names]
    hashes = [files.sha256(each) for each in paths if each.is_file()]
    if len(hashes) > 1:
        hashes = [hashlib.sha256("".join(hashes).encode()).hexdigest()]
    return hashes[0][:16] if hashes else None


def has_weights_only(path: str | pathlib.Path) -> bool:
    """Returns whether the bridge reads a path: weights, or an ONNX graph.

    Args:
        path: Any path.
    """
    path = pathlib.Path(path)
    if tensorflow_checkpoints.index_file(path) is not None:
        return True
    return path.is_file() and (
        path.suffix not in (".keras", ".h5")
        or (keras_weights.is_hdf5(path) and not keras_weights.has_model(path))
    )


def _unreadable(path: pathlib.Path, error: Exception) -> ValueError:
    return ValueError(
        f"Cannot load {path} in Keras' safe mode, which runs no code of the "
        f"file: {first_line(error)}"
    )


def refuse_training(training: bool, name: str) -> None:
    """Raises if a model without a training mode is called in it.

    Args:
        training: Argument of the model's call.
        name: Name of the kind of model.
    """
    if training:
        raise ValueError(
            f"Argument `training` must be False: {name} has an inference mode "
            "only. Received: training=True"
        )


class ServedModel:
    """The default signature of a SavedModel, with the call of a Keras model.

    It is differentiable. Its images are floats in [0, 1]. Its logits are the
    output named "logits", or the only output of shape [batch, classes].

    Args:
        path: Directory that contains saved_model.pb.
    """

    def __init__(self, path: str | pathlib.Path):
        try:
            self._loaded = tf.saved_model.load(str(path))
        except Exception as error:  # a damaged file may raise anything
            raise _unreadable(pathlib.Path(path), error) from error
        self.name = pathlib.Path(path).name
        signatures = self._loaded.signatures
        if "serving_default" not in signatures:
            raise ValueError(
                f"{path} has no signature 'serving_default'. It has: "
                f"{list(signatures) or 'none'}; export it with "
                "`adt_tf.export(classifier, path)`."
            )
        self._serve = signatures["serving_default"]
        inputs = self._serve.structured_input_signature[1]
        if len(inputs) != 1:
            raise ValueError(
                f"{path} must take one input, the images. It takes: "
                f"{list(inputs)}"
            )
        ((self._input, spec),) = inputs.items()
        if not spec.dtype.is_floating or len(spec.shape) != 4:
            raise ValueError(
                f"{path} must take float images [batch, height, width, "
                "channels], so that they have a gradient. It takes: "
                f"{spec.dtype.name} of shape {spec.shape}"
            )
        if spec.shape[0] is not None:
            raise ValueError(
                f"{path} must take batches of any size. It takes: {spec.shape}"
            )
        self._dtype = spec.dtype
        outputs = self._serve.structured_outputs
        candidates = [
            name
            for name, output in outputs.items()
            if output.dtype.is_floating and len(output.shape) == 2
        ]
        if "logits" in outputs:
            candidates = ["logits"]
        if len(candidates) != 1:
            raise ValueError(
                f"{path} must have an output named 'logits', or one output of "
                f"shape [batch, classes]. It has: {sorted(outputs)}"
            )
        (self._output,) = candidates
        self.input_shape = tuple(spec.shape)

    @property
    def variables(self) -> list[tf.Variable]:
        """The weights that the signature reads."""
        return list(self._serve.variables)

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the logits; a SavedModel has an inference mode only."""
        refuse_training(training, "a SavedModel")
        images = tf.cast(x, self._dtype)
        return self._serve(**{self._input: images})[self._output]


class LogProbabilities:
    """Logits log p of a classifier that returns probabilities p.

    A single probability p, as a sigmoid gives it, stands for the two
    probabilities [1 - p, p]. A probability that was rounded to 0 or 1 has no
    gradient, so attacks on it are weaker than on logits; `adt_tf.lint` measures
    by how much.

    Args:
        classifier: Model from images to probabilities.
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier
        self.name = getattr(classifier, "name", "classifier")

    @property
    def variables(self) -> list[tf.Variable]:
        """Variables of the classifier."""
        return list(getattr(self.classifier, "variables", ()))

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns log p [batch, classes]."""
        outputs = self.classifier(x, training=training)
        p = checks.named_logits(outputs, self.classifier)
        p = tf.cast(p, tf.float32)
        if p.shape[-1] == 1:
            p = tf.concat([1.0 - p, p], axis=-1)
        return tf.math.log(tf.maximum(p, 1e-30))
