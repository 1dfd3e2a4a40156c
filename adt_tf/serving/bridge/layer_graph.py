"""The layers of a Keras model in order, with the layers before each.

    for node in layer_graph(model).values():
        node.layer, node.parents, node.flattened

Models inside the model are replaced by their layers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import keras


@dataclasses.dataclass
class Node:
    """A layer and its position in the graph.

    Attributes:
        name: Name of the layer, after the names of the models around it.
        layer: The layer.
        parents: Names of the layers whose outputs it takes.
        ancestors: Names of all layers before it.
        flattened: Shape (height, width, channels) of the feature map whose
            flattened form is its input, or None.
    """

    name: str
    layer: keras.layers.Layer
    parents: frozenset[str]
    ancestors: frozenset[str] = frozenset()
    flattened: tuple[int, ...] | None = None


def layer_graph(model: keras.Model) -> dict[str, Node]:
    """Returns the nodes of a model by name, each after its parents.

    Args:
        model: A functional or sequential model, built.

    Example:

    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((4, 4, 3)),
    ...         keras.layers.Flatten(name="flatten"),
    ...         keras.layers.Dense(2, name="logits"),
    ...     ]
    ... )
    >>> layer_graph(model)["logits"].flattened
    (4, 4, 3)
    """
    nodes: dict[str, Node] = {}
    _walk(model, "", frozenset(), nodes)
    for node in nodes.values():
        node.ancestors = node.parents.union(
            *(nodes[parent].ancestors for parent in node.parents)
        )
        node.flattened = _flattened(node, nodes)
    return nodes


def _walk(
    model: keras.Model,
    prefix: str,
    sources: frozenset[str],
    nodes: dict[str, Node],
) -> frozenset[str]:
    """Adds the nodes of a model after `sources`; returns its last nodes."""
    ends: dict[str, frozenset[str]] = {}
    for layer, parents in _connections(model):
        before = _union(ends[name] for name in parents) if parents else sources
        name = prefix + layer.name
        if isinstance(layer, keras.layers.InputLayer):
            ends[layer.name] = sources
        elif isinstance(layer, keras.Model):
            ends[layer.name] = _walk(layer, f"{name}/", before, nodes)
        else:
            nodes[name] = Node(name, layer, before)
            ends[layer.name] = frozenset({name})
    return _union(ends[name] for name in _output_layers(model))


def _connections(model: keras.Model) -> Iterator[tuple[Any, list[str]]]:
    """Yields each layer with the names of the layers before it."""
    if isinstance(model, keras.Sequential):
        previous: list[str] = []
        for layer in model.layers:
            yield layer, previous
            previous = [layer.name]
        return
    try:
        entries = model.get_config()["layers"]
        layers = {layer.name: layer for layer in model.operations}
    except (AttributeError, KeyError, NotImplementedError) as error:
        raise ValueError(
            f"The model {model.name!r} must be functional or sequential, so "
            "that the order of its layers is known: build it as "
            "`keras.Model(images, logits)`."
        ) from error
    for entry in entries:
        yield layers[entry["name"]], list(_sources(entry["inbound_nodes"]))


def _output_layers(model: keras.Model) -> list[str]:
    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    return list(_histories(model.get_config()["output_layers"]))


def _sources(value: Any) -> Iterator[str]:
    """Yields the layers of all tensors in the arguments of a call."""
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            yield value["config"]["keras_history"][0]
        else:
            yield from _sources(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _sources(item)


def _histories(value: Any) -> Iterator[str]:
    """Yields the names in [name, node, tensor], at any depth of a nest."""
    if isinstance(value, dict):
        value = list(value.values())
    if value and isinstance(value[0], str):
        yield value[0]
    else:
        for item in value:
            yield from _histories(item)


def _flattened(node: Node, nodes: dict[str, Node]) -> tuple[int, ...] | None:
    """Returns the shape of a node's input before it was flattened, or None."""
    shapes = {_after(nodes[parent], nodes) for parent in node.parents}
    if len(shapes) > 1:
        raise ValueError(
            f"The layer {node.name!r} joins flattened feature maps of "
            "different shapes: set its weights by hand."
        )
    return next(iter(shapes), None)


def _after(node: Node, nodes: dict[str, Node]) -> tuple[int, ...] | None:
    """Returns the shape of a node's output before flattening, or None."""
    layer = node.layer
    if isinstance(layer, (keras.layers.Flatten, keras.layers.Reshape)):
        before, after = layer.input.shape, layer.output.shape
        if len(before) != 4 or len(after) != 2:
            return None
        sources = [nodes[parent].layer for parent in node.parents]
        is_permuted = any(
            isinstance(source, keras.layers.Permute)
            and tuple(source.dims) == (3, 1, 2)
            for source in sources
        )
        return None if is_permuted else tuple(before[1:])
    if node.flattened is None or isinstance(layer, keras.layers.Dense):
        return None
    # Dropout, an activation or a normalisation keeps the order.
    keeps_shape = tuple(layer.output.shape) == (None, math.prod(node.flattened))
    return node.flattened if keeps_shape else None


def _union(sets: Iterator[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
