"""Builds a named architecture with the weights of a state dict.

classifier = build(read(path), "wrn-28-10")
classifier = build(read(path))      # recognised by the names in the file
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import keras

from adt_tf.serving.bridge import filling, layouts
from adt_tf.serving.bridge.entries import (
    Arrays,
    group,
    split_normalization,
    without_prefixes,
)
from adt_tf.serving.bridge.filling import Modules
from adt_tf.serving.bridge.layer_graph import layer_graph
from adt_tf.serving.bridge.layouts.base import (
    Layout,
    Normalization,
    Request,
    Shapes,
)


def build(
    arrays: Arrays,
    architecture: str | None = None,
    *,
    input_shape: Sequence[int] | None = None,
    normalization: Normalization | None = None,
) -> keras.Model:
    """Builds the network of a state dict, with its weights.

    Args:
        arrays: Arrays by name, in PyTorch's names and shapes.
        architecture: Name of the architecture, or None to recognise it by the
            names.
        input_shape: Shape of an image, or None for the default of the
            architecture.
        normalization: Mean and standard deviation of each channel, or None
            for those in the file or the default of the architecture.

    Returns:
        A functional Keras model from images in [0, 1] to logits.

    Raises:
        ValueError: Lists all arrays that are missing, left over or of another
            shape.
    """
    if architecture is None:
        architecture, entries = _recognize(arrays)
        layout, options = layouts.find(architecture)
    else:
        layout, options = layouts.find(architecture)
        entries = max(
            without_prefixes(arrays),
            key=lambda arrays: sum(
                layout.layer_of(module) is not None for module in group(arrays)
            ),
        )
    buffers, entries = split_normalization(entries)
    shapes = _shapes(entries)
    model = layout.build(
        Request(options, shapes, input_shape, normalization or buffers)
    )
    modules = group(
        {
            name: array
            for name, array in entries.items()
            if not (layout.unused and re.fullmatch(layout.unused, name))
        }
    )
    problems, assignments = filling.match(
        modules, layer_graph(model), _layers(layout, modules)
    )
    if problems:
        raise ValueError(
            f"The state dict does not fit {architecture}"
            f"{_alternative(shapes, architecture)}: {'; '.join(problems)}"
        )
    filling.assign(assignments)
    return model


def _alternative(shapes: Shapes, architecture: str) -> str:
    """Returns a hint at the architecture that the names belong to, if any."""
    names = layouts.recognize(shapes)
    if not names or layouts.same(names[0], architecture):
        return ""
    return f" (its names are those of {' or '.join(names)})"


def _recognize(arrays: Arrays) -> tuple[str, Arrays]:
    """Returns the architecture of a state dict, and its arrays unprefixed."""
    for entries in without_prefixes(arrays):
        names = layouts.recognize(_shapes(entries))
        if len(names) == 1:
            return names[0], entries
        if names:
            raise ValueError(
                "The names in the file fit several architectures: pass "
                f"architecture=... as one of {', '.join(names)}."
            )
    raise ValueError(
        "The names in the file belong to none of the architectures "
        f"{', '.join(layouts.names())}. They begin with "
        f"{', '.join(list(arrays)[:4])}. Pass architecture=..., or fill a "
        "model of your own with `adt_tf.transplant(path, keras_model)`."
    )


def _shapes(arrays: Arrays) -> Shapes:
    return {name: tuple(array.shape) for name, array in arrays.items()}


def _layers(layout: Layout, modules: Modules) -> dict[str, str]:
    layers = {module: layout.layer_of(module) for module in modules}
    return {module: layer for module, layer in layers.items() if layer}
