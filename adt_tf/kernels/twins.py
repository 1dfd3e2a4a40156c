"""The graph of a Keras model, with other calls in place of some layers' own.

    model = twins.twin(classifier, {convolution: fast_call})
    logits = model(images, training=True)

    with twins.block({convolution: fast_call}):
        logits = twins.fast(classifier)(images)     # the same

A twin runs the layers of the classifier themselves, so that weights,
statistics, random states, masks and losses are the classifier's. The
classifier is only read: its layers keep their calls, gain no nodes and know
nothing of the twin.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

Calls = Mapping[keras.layers.Layer, Callable[[tf.Tensor], tf.Tensor]]


class _Block(NamedTuple):
    calls: Calls
    dtype: str | None
    twins: dict[keras.Model, keras.Model]


# Each thread has its own.
_BLOCK: contextvars.ContextVar[_Block | None] = contextvars.ContextVar(
    "twins_block", default=None
)


@contextlib.contextmanager
def block(calls: Calls, *, dtype: str | None = None) -> Iterator[None]:
    """Has `fast` return twins with these calls inside the block.

    Args:
        calls: As in `twin`.
        dtype: As in `twin`.
    """
    token = _BLOCK.set(_Block(calls, dtype, {}))
    try:
        yield
    finally:
        _BLOCK.reset(token)


def fast(model: Any) -> Any:
    """Returns the model in the form of the block around, to be called there.

    Outside of a block, and where none of its layers has another call there, it
    is the model itself.
    """
    block = _BLOCK.get()
    if block is None or not isinstance(model, keras.Model):
        return model
    if model not in block.twins:
        block.twins[model] = twin(model, block.calls, dtype=block.dtype)
    return block.twins[model]


def twin(model: Any, calls: Calls, *, dtype: str | None = None) -> Any:
    """Returns a model that runs `calls[layer]` where `model` runs the layer.

    Models inside the model are treated alike. A model without such a layer,
    or without a graph (a subclassed one, or any other function), is returned
    itself.

    Args:
        model: Classifier or other network, which stays as it is.
        calls: For some of its layers of one argument, a function of that
            argument.
        dtype: The dtype in which the functions get it, unless one has another
            as its attribute `takes`; None for that in which the layer
            computes.

    Returns:
        A model that is called as `model` is, with the same result where the
        functions compute what the layers do.
    """
    if not _holds_any(model, calls):
        return model
    graph = _graph(model)
    if graph is None:
        return model

    def stand_in(operation):
        if operation in calls:
            function = calls[operation]
            taken = getattr(function, "takes", dtype)
            return _Replaced(operation, function, taken)
        inner = twin(operation, calls, dtype=dtype)
        if inner is not operation:
            return inner
        if isinstance(operation, keras.layers.Layer):
            return _SameLayer(operation)
        return _Same(operation)

    result = keras.models.clone_model(graph, clone_function=stand_in)
    result.dtype_policy = model.dtype_policy
    return result


def _holds_any(model: Any, calls: Calls) -> bool:
    return isinstance(model, keras.Model) and any(
        layer in calls or _holds_any(layer, calls) for layer in model.layers
    )


def _graph(model: keras.Model) -> keras.Model | None:
    """Returns the graph as a model without a compiled state, or None."""
    if not getattr(model, "inputs", None) or model.quantization_mode:
        return None
    if isinstance(model, keras.Sequential):
        (inputs,), outputs = model.inputs, model.outputs
    else:
        inputs, outputs = model.input, model.output
    graph = keras.Model(inputs, outputs, name=model.name)
    graph_calls = (keras.Sequential.call, type(graph).call)
    # A class, or a user, may have replaced what runs the graph.
    own_call = getattr(model.call, "__func__", None) not in graph_calls
    if own_call or type(model).__call__ is not keras.Model.__call__:
        return None
    return graph


class _Same(keras.Operation):
    """Runs an operation of the model, and does nothing of its own."""

    def __init__(self, operation: keras.Operation):
        super().__init__(name=operation.name)
        self.operation = operation

    def __call__(self, *args, **kwargs):
        return keras.Operation.__call__(self, *args, **kwargs)

    def symbolic_call(self, *args, **kwargs):
        return keras.Operation.symbolic_call(self, *args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        return self.operation.compute_output_spec(*args, **kwargs)

    def call(self, *args, **kwargs):
        return self.operation(*args, **kwargs)


class _SameLayer(_Same, keras.layers.Layer):
    """Runs a layer, whose casts, masks and losses are then its own affair.

    As a layer it is told whether to train; and since it tracks the model's
    layer, a call of the twin clears that one's losses first, as a call of the
    model does.
    """


class _Replaced(keras.layers.Layer):
    """Runs a function in place of a layer, with its casts or others."""

    def __init__(
        self, layer: keras.layers.Layer, function: Callable, dtype: str | None
    ):
        super().__init__(
            name=layer.name,
            dtype=dtype or layer.compute_dtype,
            autocast=True if dtype else layer.autocast,
        )
        self.layer = layer
        self.function = function
        self.built = True

    # Batch normalisation is given a mask, of use in training alone.
    def compute_output_spec(self, inputs, mask=None):
        return self.layer.compute_output_spec(inputs)

    def call(self, inputs, mask=None):
        return self.function(inputs)
