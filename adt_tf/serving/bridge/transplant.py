"""Fills a Keras model with the weights of any PyTorch network.

    matches = transplant("file.pt", keras_model)
    matches = transplant("file.pt", keras_model, skip=["*.deepz_lambda"])

`matching` finds the layer of each module of the file, by order and shape.
"""

from __future__ import annotations

import fnmatch
import pathlib
import warnings
from collections.abc import Mapping, Sequence

import keras

from adt_tf.serving.bridge import filling
from adt_tf.serving.bridge.entries import WEIGHTS, Arrays, group
from adt_tf.serving.bridge.layer_graph import Node, layer_graph
from adt_tf.serving.bridge.matching import Matching
from adt_tf.serving.bridge.reading import keras_weights, state_dicts
from adt_tf.serving.bridge.slots import NORMALIZATIONS


def transplant(
    path: str | pathlib.Path,
    model: keras.Model,
    *,
    skip: str | Sequence[str] = (),
    mapping: Mapping[str, str] | None = None,
    entry: str | None = None,
) -> dict[str, str]:
    """Fills a Keras model with the weights of a PyTorch network.

    Kernels of convolutions are converted from OIHW to HWIO. Dense kernels are
    transposed and, after a `Flatten`, their rows are reordered for Keras. The
    model is changed only if the whole file and the whole model fit.

    Args:
        path: A file that `state_dicts.read` takes, or Keras' `.h5` file of
            weights.
        model: A functional or sequential model, built.
        skip: Patterns such as `"*.deepz_lambda"` for the names of entries
            that the model does not use.
        mapping: Names of layers by names of modules, for modules whose layers
            order and shape do not determine.
        entry: Name of the entry that holds the state dict, if the file has
            several.

    Returns:
        Names of the modules by the names of the layers that they fill.
    """
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "Argument `model` must be a Keras model that is built, as by "
            "keras.Input as its first layer. "
            f"Received: a {type(model).__name__}"
        )
    if keras_weights.is_hdf5(path):
        keras_weights.load(path, model)
        return {}
    arrays = _without_skipped(state_dicts.read(path, entry=entry), skip)
    modules = group(arrays)
    _refuse_others(modules)
    nodes = {
        name: node
        for name, node in layer_graph(model).items()
        if getattr(node.layer, "weights", ()) and not node.repeats
    }
    layers = Matching(
        modules,
        nodes,
        mapping or {},
        ordered=not state_dicts.is_safetensors(path),
    ).layers()
    _, assignments = filling.match(modules, nodes, layers)
    _warn(nodes)
    filling.assign(assignments)
    return {layer: module for module, layer in layers.items()}


def _without_skipped(arrays: Arrays, skip: str | Sequence[str]) -> Arrays:
    patterns = [skip] if isinstance(skip, str) else list(skip)
    for pattern in patterns:
        if not fnmatch.filter(arrays, pattern):
            raise ValueError(
                "Argument `skip` must have patterns of names in the file. "
                f"Received: {pattern!r}, which fits none of the names "
                f"{', '.join(list(arrays)[:8])}, ..."
            )
    return {
        name: array
        for name, array in arrays.items()
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    }


def _refuse_others(modules: filling.Modules) -> None:
    others = [
        f"{module}.{leaf}".removeprefix(".")
        for module, leaves in modules.items()
        for leaf in leaves
        if leaf not in WEIGHTS
    ]
    if others:
        raise ValueError(
            f"The file has entries that are not weights: {', '.join(others)}. "
            "If the model does not use them, pass skip=[...] with their names "
            "or patterns. Put a mean and a standard deviation into the model, "
            "as a keras.layers.Normalization."
        )


def _warn(nodes: Mapping[str, Node]) -> None:
    """Warns of details that a state dict does not show."""
    for node in nodes.values():
        layer = node.layer
        if isinstance(layer, NORMALIZATIONS) and layer.epsilon == 1e-3:
            warnings.warn(
                f"{node.name} has Keras' epsilon 1e-3; PyTorch's default is "
                "1e-5: pass epsilon=1e-5 if the network was trained with it.",
                stacklevel=3,
            )
        if (
            isinstance(layer, keras.layers.Conv2D)
            and layer.padding == "same"
            and max(layer.strides) > 1
            and max(layer.kernel_size) > 1
        ):
            warnings.warn(
                f"{node.name} has padding 'same' with a stride, which differs "
                "from PyTorch's padding: put a ZeroPadding2D before it and "
                "use padding='valid'.",
                stacklevel=3,
            )
