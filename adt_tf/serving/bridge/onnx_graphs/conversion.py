"""Converts an ONNX graph of a convolutional classifier to a Keras model.

    classifier = load("model.onnx")

The result is a functional Keras model with weights, which can be attacked with
gradients, trained and saved. The module `layers` has the operators. Feature
maps are NCHW in ONNX and NHWC in Keras: a value of the graph is kept in Keras'
order, together with its order in the graph.
"""

from __future__ import annotations

import importlib
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from adt_tf.serving.bridge.onnx_graphs import constants, layers
from adt_tf.serving.bridge.onnx_graphs.values import Symbol, Unsupported
from adt_tf.serving.bridge.reading.budget import Budget
from adt_tf.serving.bridge.reading.state_dicts import one_line

_MAX_NODES = 20_000
# Largest feature map of one image: 100 times that of ImageNet's networks.
_MAX_ELEMENTS = 2**27
_DOMAINS = ("", "ai.onnx")


def load(
    path: str | pathlib.Path, *, input_shape: Sequence[int] | None = None
) -> keras.Model:
    """Converts an ONNX file of a classifier to a functional Keras model.

    Args:
        path: The file, which must include its weights.
        input_shape: Shape of an image (height, width, channels), if the graph
            does not fix it.

    Returns:
        A model from images to the graph's output.
    """
    path = pathlib.Path(path)
    try:
        onnx = importlib.import_module("onnx")
    except ImportError as error:
        raise ValueError(
            "To read an .onnx file, install onnx: pip install 'adt_tf[onnx]'."
        ) from error
    try:
        content = path.read_bytes()
        graph = onnx.load_model_from_string(content).graph
        budget = Budget(len(content))
        return _Converter(onnx, graph, input_shape, budget).convert(path.stem)
    except Exception as error:  # damaged bytes may raise anything
        raise ValueError(f"Cannot read {path}: {one_line(error)}") from error


class _Converter:
    """Converts the nodes of a graph, and keeps the values by name."""

    def __init__(
        self, onnx: Any, graph: Any, input_shape: Any, budget: Budget
    ) -> None:
        self._onnx = onnx
        self._budget = budget
        self._graph = graph
        self._input_shape = input_shape
        self._values: dict[str, np.ndarray | Symbol] = {}

    def convert(self, name: str) -> keras.Model:
        """Returns the model."""
        graph = self._graph
        self._check()
        for tensor in graph.initializer:
            self._values[tensor.name] = self._array(tensor)
        images = self._images()
        for index, node in enumerate(graph.node):
            self._run(node, f"{node.op_type.lower()}_{index}")
        outputs = [self._values.get(output.name) for output in graph.output]
        logits = [
            value.tensor
            for value in outputs
            if isinstance(value, Symbol) and len(value.tensor.shape) == 2
        ]
        if len(logits) != 1:
            raise ValueError(
                "its graph must have one output of shape [batch, classes]; it "
                f"has {', '.join(output.name for output in graph.output)}"
            )
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        return keras.Model(images, logits[0], name=name or "onnx")

    def _check(self) -> None:
        nodes = self._graph.node
        if len(nodes) > _MAX_NODES:
            raise ValueError(f"its graph has {len(nodes)} nodes")
        if self._graph.sparse_initializer:
            raise ValueError("its graph has sparse weights")
        supported = layers.OPERATORS.keys() | constants.OPERATORS.keys()
        unknown = {
            node.op_type
            for node in nodes
            if node.domain not in _DOMAINS or node.op_type not in supported
        }
        if unknown:
            raise ValueError(
                "its graph has operators that are not converted: "
                f"{', '.join(sorted(unknown))}"
            )

    def _array(self, tensor: Any) -> np.ndarray:
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            raise ValueError(
                f"its weights {tensor.name!r} lie in another file: save the "
                "model as one file"
            )
        array = self._onnx.numpy_helper.to_array(tensor)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"its weights {tensor.name!r} are not numbers")
        return array

    def _images(self) -> keras.KerasTensor:
        """Adds the one input of the graph."""
        inputs = [i for i in self._graph.input if i.name not in self._values]
        if len(inputs) != 1:
            raise ValueError(f"its graph has {len(inputs)} inputs, not one")
        sizes = [
            dim.dim_value if dim.HasField("dim_value") else None
            for dim in inputs[0].type.tensor_type.shape.dim
        ]
        if len(sizes) != 4:
            raise ValueError(f"its input has {len(sizes)} axes, not four")
        # PyTorch's graphs take NCHW; TensorFlow's take NHWC.
        channels_first = sizes[3] not in (1, 3) or sizes[1] in (1, 3)
        shape = [*sizes[2:], sizes[1]] if channels_first else sizes[1:]
        if self._input_shape is not None:
            input_shape = list(self._input_shape)
            pairs = zip(shape, input_shape, strict=True)
            if any(size not in (None, other) for size, other in pairs):
                raise ValueError(f"its images are {shape}, not {input_shape}")
            shape = input_shape
        if any(size is None or size < 1 for size in shape):
            raise ValueError(
                f"its images have no fixed size, {shape}: pass input_shape=..."
            )
        images = keras.Input(shape, name="images")
        self._values[inputs[0].name] = Symbol(images, channels_first)
        return images

    def _run(self, node: Any, name: str) -> None:
        inputs = [self._values[n] if n else None for n in node.input]
        attributes = {
            attribute.name: self._attribute(attribute)
            for attribute in node.attribute
        }
        where = f"its node {node.name or name!r}"
        # Any number of nodes may use, hence copy, the same weights.
        for value in inputs:
            self._budget.spend(getattr(value, "nbytes", 0), where)
        try:
            value = self._value(node.op_type, name, attributes, inputs)
        except Unsupported as error:
            raise ValueError(
                f"{where} is a {node.op_type} {error}, which is not converted"
            ) from error
        elements = value.tensor.shape[1:] if isinstance(value, Symbol) else ()
        if math.prod(elements) > _MAX_ELEMENTS:
            raise ValueError(f"{where} makes {list(elements)} for one image")
        self._values[node.output[0]] = value

    def _value(
        self, operator: str, name: str, attributes: Any, inputs: Any
    ) -> Any:
        if not any(isinstance(value, Symbol) for value in inputs):
            if operator not in constants.OPERATORS:
                raise Unsupported("of constants")
            return constants.OPERATORS[operator](attributes, *inputs)
        if operator == "Shape":
            return inputs[0].logical_shape()
        if operator not in layers.OPERATORS:
            raise Unsupported("of images")
        return layers.OPERATORS[operator](name, attributes, *inputs)

    def _attribute(self, attribute: Any) -> Any:
        value = self._onnx.helper.get_attribute_value(attribute)
        if isinstance(value, self._onnx.TensorProto):
            return self._array(value)
        if isinstance(value, bytes):
            return value.decode("utf-8")
        return value
