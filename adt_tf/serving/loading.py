"""Classifiers from files: Keras', SavedModels, anyone's.

classifier = models.load("model.keras")
classifier = models.load("saved_model/")
logits = classifier(images, training=False)
"""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import tensorflow as tf

from adt_tf.files import first_line


def load(path: str | pathlib.Path, *, probabilities: bool = False) -> Any:
    """Loads a classifier from images in [0, 1] to logits.

    Args:
        path: A `.keras` or `.h5` file, or the directory of a SavedModel.
        probabilities: Whether the model gives probabilities; then their
            logarithms are taken for logits.
    """
    path = pathlib.Path(path)
    if (path / "saved_model.pb").is_file():
        classifier = ServedModel(path)
    elif path.is_file() and path.suffix in (".keras", ".h5"):
        try:
            classifier = keras.saving.load_model(
                path, safe_mode=True, compile=False
            )
        except Exception as error:  # a damaged file may raise anything
            raise _unreadable(path, error) from error
    else:
        raise ValueError(
            "A model must be a .keras file or the directory of a SavedModel "
            f"(with a saved_model.pb). Received: {path}"
        )
    return LogProbabilities(classifier) if probabilities else classifier


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
