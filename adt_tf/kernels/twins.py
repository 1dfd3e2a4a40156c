"""Twins of Keras models, in which functions replace the calls of some layers.

    model = twins.twin(classifier, {convolution: fast_call})
    logits = model(images, training=True)

    with twins.block({convolution: fast_call}):
        logits = twins.fast(classifier)(images)     # the same

A twin runs the layers of the classifier itself, so that both share weights,
statistics, random states, masks and losses. The classifier is not changed: its
layers keep their calls, get no new nodes and have no reference to the twin.
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


# Each thread has its own value.
_BLOCK: contextvars.ContextVar[_Block | None] = contextvars.ContextVar(
    "twins_block", default=None
)


@contextlib.contextmanager
def block(calls: Calls, *, dtype: str | None = None) -> Iterator[None]:
    """Makes `fast` return twins with these calls inside the block.

    Args:
        calls: Functions by layer, as in `twin`.
        dtype: Type of the functions' arguments, as in `twin`.
    """
    token = _BLOCK.set(_Block(calls, dtype, {}))
    try:
        yield
    finally:
        _BLOCK.reset(token)


def fast(model: Any) -> Any:
    """Returns the twin of a model in the current block, or the model itself.

    The model itself is returned outside of a block, and if the block has no
    function for any of its layers.

    Args:
        model: Classifier or other network.
    """
    block = _BLOCK.get()
    if block is None or not isinstance(model, keras.Model):
        return model
    if model not in block.twins:
        block.twins[model] = twin(model, block.calls, dtype=block.dtype)
    return block.twins[model]


def twin(model: Any, calls: Calls, *, dtype: str | None = None) -> Any:
    """Returns a model that runs `calls[layer]` where `model` runs the layer.

    The same holds for models inside the model. A model without such a layer,
    or without a graph (a subclassed model, or any other function), is returned
    itself.

    Args:
        model: Classifier or other network, which is not changed.
        calls: Functions of one argument, by the layers that they replace.
        dtype: Type of the functions' arguments, or None for the layer's
            compute type. An attribute `takes` of a function overrides it.

    Returns:
        A model with the signature of `model`. Its results are the same if the
        functions compute the same as the layers.
    """
    if not _holds_any(model, calls):
        return model
    graph = _graph(model)
    if graph is None:
        return model

    def stand_in(operation: keras.Operation) -> keras.Operation:
        if operation in calls:
            function = calls[operation]
            input_dtype = getattr(function, "takes", dtype)
            return _Replacement(operation, function, input_dtype)
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
    """Returns the model's graph as an uncompiled model, or None."""
    if not getattr(model, "inputs", None) or model.quantization_mode:
        return None
    if isinstance(model, keras.Sequential):
        (inputs,), outputs = model.inputs, model.outputs
    else:
        inputs, outputs = model.input, model.output
    graph = keras.Model(inputs, outputs, name=model.name)
    graph_calls = (keras.Sequential.call, type(graph).call)
    # A subclass, or a user, may have replaced the method that runs the graph.
    has_own_call = getattr(model.call, "__func__", None) not in graph_calls
    if has_own_call or type(model).__call__ is not keras.Model.__call__:
        return None
    return graph


class _Same(keras.Operation):
    """Runs an operation of the model without any change."""

    def __init__(self, operation: keras.Operation) -> None:
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
    """Runs a layer, which handles its casts, masks and losses itself.

    Since this is a Keras layer, it receives `training`. Since it tracks the
    model's layer, a call of the twin first clears the losses of that layer, as
    a call of the model does.
    """


class _Replacement(keras.layers.Layer):
    """Runs a function in place of a layer, with the layer's or other casts."""

    def __init__(
        self,
        layer: keras.layers.Layer,
        function: Callable[[tf.Tensor], tf.Tensor],
        dtype: str | None,
    ) -> None:
        super().__init__(
            name=layer.name,
            dtype=dtype or layer.compute_dtype,
            autocast=True if dtype else layer.autocast,
        )
        self.layer = layer
        self.function = function
        self.built = True

    # Batch normalisation receives a mask, which only training uses.
    def compute_output_spec(self, inputs, mask=None):
        return self.layer.compute_output_spec(inputs)

    def call(self, inputs, mask=None):
        return self.function(inputs)
