"""Classifiers from files: Keras', SavedModels, anyone's.

    classifier = loading.load("model.keras")
    classifier = loading.load("saved_model/")
    classifier = loading.load("file.pt", architecture="wrn-28-10")
    logits = classifier(images, training=False)

`adt_tf.load_classifier` is this `load`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from adt_tf.files import first_line
from adt_tf.serving import bundle
from adt_tf.serving.bridge import classifiers
from adt_tf.serving.bridge.reading import keras_weights


def load(
    path: str | pathlib.Path,
    architecture: str | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    num_classes: int | None = None,
    normalization: tuple[Sequence[float], Sequence[float]] | None = None,
    entry: str | None = None,
    probabilities: bool = False,
) -> Any:
    """Loads a classifier from images in [0, 1] to logits.

    Nothing that a file names is imported or run, and torch is not needed.

    Args:
        path: A `.keras` or `.h5` file, the directory of a SavedModel or of its
            versions, an `.onnx` file, or weights: of `torch.save` in either
            form, a safetensors or `.npz` file, Keras' own `.weights.h5`.
        architecture: Name of the architecture of weights, such as
            `"wrn-28-10"`, or None where their names tell it.
        input_shape: Shape of an image (height, width, channels), or None for
            the architecture's usual.
        num_classes: Number of logits of Keras' own weights, or None for the
            architecture's usual; other weights tell it.
        normalization: Mean and standard deviation of each channel that belong
            to weights, or None for what the file or the architecture has.
        entry: Name of the entry that holds the weights, where a file has
            several, such as `"ema"`.
        probabilities: Whether the model gives probabilities; then their
            logarithms are taken for logits.
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
    elif (architecture, normalization, entry) != (None, None, None):
        raise ValueError(
            "Arguments `architecture`, `normalization` and `entry` belong to "
            "files of weights (.pt, .pth, .safetensors, .npz, .weights.h5). "
            f"Received: {path}, which is none, with "
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
            f"(.pt, .pth, .safetensors, .npz, .h5). Received: {path}"
        )
    return LogProbabilities(classifier) if probabilities else classifier


load_classifier = load


def has_weights_only(path: str | pathlib.Path) -> bool:
    """Says whether a file is left to the bridge: weights, or a graph.

    Args:
        path: A file, or anything else.
    """
    path = pathlib.Path(path)
    return path.is_file() and (
        path.suffix not in (".keras", ".h5")
        or (keras_weights.is_hdf5(path) and not keras_weights.has_model(path))
    )


def _unreadable(path: pathlib.Path, error: Exception) -> ValueError:
    return ValueError(
        f"Cannot load {path} as a Keras model, in safe mode and without code "
        f"of its own: {first_line(error)}"
    )


class ServedModel:
    """The default signature of a SavedModel, called as a Keras model is.

    Gradients pass through it. Its images are floats in [0, 1], and its logits
    the output named "logits", or the only one of shape [batch, classes].

    Args:
        path: The directory with saved_model.pb.
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
                "channels], or no gradient reaches them. It takes: "
                f"{spec.dtype.name} of shape {spec.shape}"
            )
        if spec.shape[0] is not None:
            raise ValueError(
                f"{path} must take batches of any size. It takes: {spec.shape}"
            )
        self._dtype = spec.dtype
        outputs = self._serve.structured_outputs
        chosen = [
            name
            for name, output in outputs.items()
            if output.dtype.is_floating and len(output.shape) == 2
        ]
        if "logits" in outputs:
            chosen = ["logits"]
        if len(chosen) != 1:
            raise ValueError(
                f"{path} must have an output named 'logits', or one output of "
                f"shape [batch, classes]. It has: {sorted(outputs)}"
            )
        (self._output,) = chosen
        self.input_shape = tuple(spec.shape)

    @property
    def variables(self) -> list[tf.Variable]:
        """The weights that the signature reads."""
        return list(self._serve.variables)

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns the logits; a SavedModel has an inference mode only."""
        if training:
            raise ValueError(
                "A SavedModel cannot be run in training mode: it serves only."
            )
        images = tf.cast(x, self._dtype)
        return self._serve(**{self._input: images})[self._output]


class LogProbabilities:
    """Logarithms of a classifier's probabilities, which softmax undoes.

    Where a probability has been rounded to 0 or 1 its gradient is lost, so
    attacks on it are weaker than on logits: `adt_tf.lint` says how far.

    Args:
        classifier: From images to probabilities.
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier
        self.name = getattr(classifier, "name", "classifier")

    @property
    def variables(self) -> list[tf.Variable]:
        """The classifier's."""
        return list(getattr(self.classifier, "variables", ()))

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns log p."""
        p = tf.cast(self.classifier(x, training=training), tf.float32)
        return tf.math.log(tf.maximum(p, 1e-30))
