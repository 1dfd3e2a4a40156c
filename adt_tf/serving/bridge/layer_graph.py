"""The layers of a Keras model in order, with the layers before each.

    for node in layer_graph(model).values():
        node.layer, node.parents, node.order

Models inside the model are replaced by their layers. A layer that is called
several times has a node for each call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from adt_tf.serving.bridge import orders

# The name of a layer, the number of its call, and the index of the output.
_Tensor = tuple[str, int, int]


@dataclasses.dataclass
class Node:
    """A call of a layer and its position in the graph.

    Attributes:
        name: Name of the layer, after the names of the models around it.
        layer: The layer.
        inputs: Name of the node that gives each of its inputs, or None for
            an input of the model.
        shapes: Shapes of its inputs, without the batch.
        ancestors: Names of all nodes before it.
        order: PyTorch's index of each feature of its flat input, or None if
            the order of both is the same.
        repeats: Whether an earlier node has the same layer.
    """

    name: str
    layer: keras.layers.Layer
    inputs: tuple[str | None, ...]
    shapes: tuple[tuple[int | None, ...], ...]
    ancestors: frozenset[str] = frozenset()
    order: np.ndarray | None = None
    repeats: bool = False

    @property
    def parents(self) -> list[str]:
        """Names of the nodes before it."""
        return [name for name in self.inputs if name is not None]


def layer_graph(model: keras.Model) -> dict[str, Node]:
    """Returns the nodes of a model by name, each after its parents.

    Args:
        model: A functional or sequential model, built.

    Example:

    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((2, 2, 3)),
    ...         keras.layers.Flatten(name="flatten"),
    ...         keras.layers.Dense(2, name="logits"),
    ...     ]
    ... )
    >>> layer_graph(model)["logits"].order.tolist()
    [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    """
    nodes: dict[str, Node] = {}
    _walk(model, "", [], nodes)
    outputs: dict[str | None, np.ndarray | None] = {None: None}
    seen: set[int] = set()
    for node in nodes.values():
        node.ancestors = frozenset(node.parents).union(
            *(nodes[parent].ancestors for parent in node.parents)
        )
        node.repeats = id(node.layer) in seen
        seen.add(id(node.layer))
        before = [outputs[name] for name in node.inputs]
        node.order = orders.of_input(node.layer, node.shapes, before)
        outputs[node.name] = orders.of_output(node.layer, node.shapes, before)
    return nodes


def _walk(
    model: keras.Model,
    prefix: str,
    sources: list[str | None],
    nodes: dict[str, Node],
) -> list[str | None]:
    """Adds the nodes of a model; returns the node of each of its outputs."""
    inputs, outputs = _ends(model)
    # The nodes that give the outputs of each call.
    given: dict[tuple[str, int], list[str | None]] = {
        (name, call): sources[index : index + 1] or [None]
        for index, (name, call, _) in enumerate(inputs)
    }

    def node_of(tensor: _Tensor) -> str | None:
        name, call, index = tensor
        names = given[name, call]
        return names[index] if index < len(names) else names[0]

    for layer, call, tensors, shapes in _calls(model, given):
        before = [node_of(tensor) for tensor in tensors] or sources or [None]
        name = prefix + layer.name + (f"@{call + 1}" if call else "")
        if isinstance(layer, keras.Model):
            names = _walk(layer, f"{name}/", before, nodes)
        else:
            nodes[name] = Node(name, layer, tuple(before), shapes)
            names = [name]
        given[layer.name, call] = names
    return [node_of(tensor) for tensor in outputs]


def _ends(model: keras.Model) -> tuple[list[_Tensor], list[_Tensor]]:
    """Returns the inputs and the outputs of a model."""
    if isinstance(model, keras.Sequential):
        return [], [(model.layers[-1].name, 0, 0)]
    config = _config(model)
    return (
        list(_histories(config["input_layers"])),
        list(_histories(config["output_layers"])),
    )


def _config(model: keras.Model) -> dict[str, Any]:
    try:
        config = model.get_config()
        return {n: config[n] for n in ("layers", *_ENDS)}
    except (AttributeError, KeyError, NotImplementedError) as error:
        raise ValueError(
            f"The model {model.name!r} must be functional or sequential, so "
            "that the order of its layers is known: build it as "
            "`keras.Model(images, logits)`."
        ) from error


_ENDS = ("input_layers", "output_layers")


def _calls(
    model: keras.Model, done: Mapping[tuple[str, int], Any]
) -> Iterator[tuple[Any, int, list[_Tensor], tuple]]:
    """Yields the calls of layers: number, inputs and shapes of the inputs.

    Args:
        model: The model.
        done: The calls so far, which the caller extends.
    """
    if isinstance(model, keras.Sequential):
        before: list[_Tensor] = []
        for layer in model.layers:
            yield layer, 0, before, (tuple(layer.input.shape[1:]),)
            before = [(layer.name, 0, 0)]
        return
    layers = {layer.name: layer for layer in model.operations}
    waiting = [
        (layers[entry["name"]], call, list(_tensors(arguments)))
        for entry in _config(model)["layers"]
        for call, arguments in enumerate(entry["inbound_nodes"])
    ]
    while waiting:  # A later call of a layer comes after other layers.
        later = []
        for layer, call, configs in waiting:
            tensors = [tuple(config["keras_history"]) for config in configs]
            if all(tensor[:2] in done for tensor in tensors):
                shapes = tuple(tuple(c["shape"][1:]) for c in configs)
                yield layer, call, tensors, shapes
            else:
                later.append((layer, call, configs))
        if len(later) == len(waiting):
            raise ValueError(
                f"The layers of the model {model.name!r} have no order: save "
                "the model and load it again."
            )
        waiting = later


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the configurations of all tensors in the arguments of a call."""
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            yield value["config"]
        else:
            yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _histories(value: Any) -> Iterator[_Tensor]:
    """Yields each (name, call, index) in a nest of lists of these."""
    if isinstance(value, dict):
        value = list(value.values())
    if value and isinstance(value[0], str):
        yield tuple(value)
    else:
        for item in value:
            yield from _histories(item)
