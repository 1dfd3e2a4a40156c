"""Keras' `fit`, `evaluate` and `predict` with one-line errors.

A failed check inside the compiled step, such as for images outside their
bounds, reaches the user as one `ValueError`. A step that is not finite ends
training if Keras' `TerminateOnNaN` is among the callbacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks

_FIT = inspect.signature(keras.Model.fit)


class FittedModel(keras.Model):
    """A Keras model whose compiled steps contain checks.

    Subclasses have a `classifier`.
    """

    train_function: Any
    test_function: Any
    predict_function: Any
    _ends_at_nan = False

    def fit(self, *args: Any, **arguments: Any) -> keras.callbacks.History:
        """Trains, with the arguments of `keras.Model.fit`."""
        call = _FIT.bind(self, *args, **arguments)
        bound = call.arguments
        if bound.get("class_weight"):
            bound.update(_without_dictionaries(bound))
        callbacks = bound.get("callbacks") or ()
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            callbacks = tf.nest.flatten(callbacks)
        else:
            callbacks = callbacks.callbacks
        self._ends_at_nan = any(
            isinstance(c, keras.callbacks.TerminateOnNaN) for c in callbacks
        )
        self._build_for(bound.get("x"))
        return super().fit(*call.args[1:], **call.kwargs)

    def make_train_function(self, force: bool = False) -> Any:
        """Builds the function of a training step."""
        if force or self.train_function is None:
            super().make_train_function(force)
            self.train_function = self._ending_at_nan(
                _with_short_errors(self.train_function)
            )
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Builds the function of a step of `evaluate`."""
        if force or self.test_function is None:
            super().make_test_function(force)
            self.test_function = _with_short_errors(self.test_function)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Builds the function of a step of `predict`."""
        if force or self.predict_function is None:
            super().make_predict_function(force)
            self.predict_function = _with_short_errors(self.predict_function)
        return self.predict_function

    def _ending_at_nan(
        self, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Lets a step that is not finite end training with `TerminateOnNaN`."""

        def step(iterator: Any) -> Any:
            try:
                return function(iterator)
            except ValueError as error:
                if self._ends_at_nan and str(error).startswith(
                    checks.NOT_FINITE
                ):
                    return {"loss": float("nan")}
                raise

        return step

    def _build_for(self, x: Any) -> None:
        """Builds a classifier that creates its weights at the first image."""
        if self.classifier.built:
            return
        if isinstance(x, tf.data.Dataset):
            x = checks.unpack(x.element_spec)[0]
        elif isinstance(x, keras.utils.PyDataset):
            x = checks.unpack(x[0])[0]
        elif isinstance(x, dict):
            x = checks.images_of(x)
        shape = getattr(x, "shape", None)
        if shape is not None and len(shape) == 4 and None not in shape[1:]:
            self.classifier(tf.zeros([1, *shape[1:]]), training=False)
            self.built = True


def _without_dictionaries(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the data of `fit` as tuples, as class weights in Keras need.

    Args:
        arguments: Arguments of `fit`.
    """
    names = ("x", "y", "sample_weight")
    data = tuple(arguments.get(name) for name in names)
    rows = data[0]
    if isinstance(rows, dict):
        parts = checks.unpack(data)
        changed = dict(zip(names, parts, strict=True))
    elif isinstance(rows, tf.data.Dataset) and isinstance(
        keras.utils.unpack_x_y_sample_weight(rows.element_spec)[0], dict
    ):
        parts = checks.unpack(rows.element_spec)
        changed = {"x": rows.map(_as_tuple)}
    elif isinstance(rows, keras.utils.PyDataset) and isinstance(rows[0], dict):
        raise ValueError(
            "Argument `class_weight` needs a PyDataset that returns (images, "
            "labels). Received: a PyDataset that returns dictionaries; return "
            "tuples, or a field 'sample_weight' instead of `class_weight`."
        )
    else:
        return {}
    if parts[2] is not None:
        raise ValueError(
            "Pass either weights of examples or weights of classes. Received: "
            f"class_weight={arguments['class_weight']!r} and data with weights "
            "of examples; multiply the latter by the weights of the classes."
        )
    return changed


def _as_tuple(*row: Any) -> tuple[Any, Any]:
    """Returns the images and labels of an element without weights."""
    return checks.unpack(row[0] if len(row) == 1 else row)[:2]


def _with_short_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Raises failed checks of a compiled function as one `ValueError`."""

    def step(*args: Any) -> Any:
        with checks.failures_told():
            return function(*args)

    return step


def as_model(classifier: Any) -> keras.Model:
    """Wraps a classifier that is not trained in a Keras model."""
    if isinstance(classifier, keras.Model):
        return classifier

    class Frozen(keras.Model):
        def call(self, x: tf.Tensor, training: bool | None = None) -> Any:
            return classifier(x, training=False)

    model = Frozen(dtype="float32")
    model.built = True
    return model
