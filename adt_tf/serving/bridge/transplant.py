"""Weights of any PyTorch network put into a Keras model, by order and shape.

    matches = transplant("file.pt", keras_model)
    matches = transplant("file.pt", keras_model, skip=["*.deepz_lambda"])

`matching` says how a module of the file finds its layer.
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


def transplant(
    path: str | pathlib.Path,
    model: keras.Model,
    *,
    skip: str | Sequence[str] = (),
    mapping: Mapping[str, str] | None = None,
    entry: str | None = None,
) -> dict[str, str]:
    """Fills a Keras model with the weights of a PyTorch network.

    Convolutions are turned from OIHW to HWIO and dense kernels transposed;
    behind a `Flatten` their rows are put in Keras' order. Nothing is changed
    unless all of the file and all of the model fit.

    Args:
        path: A file that `state_dicts.read` takes, or Keras' own `.h5` file
            of weights.
        model: A functional or sequential model, built.
        skip: Patterns, as in `"*.deepz_lambda"`, of entries that are no
            weights of the model.
        mapping: Names of layers by the names of modules, where order and
            shape do not tell them apart.
        entry: Name of the entry that holds the state dict, where the file has
            several.

    Returns:
        Names of the modules by the names of the layers that they filled.
    """
    if keras_weights.is_hdf5(path):
        keras_weights.load(path, model)
        return {}
    arrays = _kept(state_dicts.read(path, entry=entry), skip)
    modules = group(arrays)
    _refuse_others(modules)
    nodes = {
        name: node
        for name, node in layer_graph(model).items()
        if getattr(node.layer, "weights", ())
    }
    layers = Matching(modules, nodes, mapping or {}).layers()
    _, assignments = filling.match(modules, nodes, layers)
    _warn(nodes)
    filling.assign(assignments)
    return {layer: module for module, layer in layers.items()}


def _kept(arrays: Arrays, skip: str | Sequence[str]) -> Arrays:
    patterns = [skip] if isinstance(skip, str) else list(skip)
    for pattern in patterns:
        if not fnmatch.filter(arrays, pattern):
            raise ValueError(
                "Argument `skip` must hold patterns of names in the file. "
                f"Received: {pattern!r}, which none of them fits; it has "
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
            f"The file has entries that are no weights: {', '.join(others)}. "
            "If the model does without them, pass skip=[...] with their names "
            "or patterns; a mean and a deviation belong into the model, as a "
            "keras.layers.Normalization."
        )


def _warn(nodes: Mapping[str, Node]) -> None:
    """Warns of details that a state dict does not tell."""
    for node in nodes.values():
        layer = node.layer
        if (
            isinstance(layer, keras.layers.BatchNormalization)
            and layer.epsilon == 1e-3
        ):
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
                f"{node.name} has padding 'same' with a stride, which pads "
                "otherwise than PyTorch does: put a ZeroPadding2D before it "
                "and use padding='valid'.",
                stacklevel=3,
            )
