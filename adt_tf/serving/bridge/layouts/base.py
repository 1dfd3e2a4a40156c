"""The description of an architecture: its names and its modules.

A `Layout` recognises an architecture by the names and shapes in a state dict,
builds the Keras model, and maps each PyTorch module to a Keras layer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras

Shapes = Mapping[str, tuple[int, ...]]
Normalization = tuple[Sequence[float], Sequence[float]]


class Request(NamedTuple):
    """The arguments of a layout's `build`.

    Attributes:
        options: Groups of the architecture's name, such as depth and width.
        shapes: Shapes of the arrays in the state dict, by name.
        input_shape: Shape of an image, or None for the default.
        normalization: Mean and standard deviation of each channel, or None.
    """

    options: Mapping[str, str | Any]
    shapes: Shapes
    input_shape: Sequence[int] | None
    normalization: Normalization | None

    def image_shape(self, first: str) -> tuple[int, ...]:
        """Returns the shape of an image; `first` names the first kernel."""
        if self.input_shape is not None:
            return tuple(self.input_shape)
        channels = self.shapes.get(first, (0, 3))[1]
        return (28, 28, 1) if channels == 1 else (32, 32, channels)

    def num_classes(self, last: str) -> int:
        """Returns the number of logits; `last` names the last kernel."""
        return self.shapes.get(last, (10,))[0]


class Layout(NamedTuple):
    """An architecture in PyTorch's names.

    Attributes:
        name: Name for users, with placeholders such as `<depth>`.
        pattern: Regular expression for the names of this architecture.
        recognize: Function from shapes to the names that fit a state dict.
        build: Function from a `Request` to a Keras model.
        modules: Names of Keras' layers by regular expressions for PyTorch's
            modules. A group whose name ends in 0 counts from 0 in PyTorch and
            from 1 in Keras.
        unused: Regular expression for entries that the network never uses.
    """

    name: str
    pattern: str
    recognize: Callable[[Shapes], list[str]]
    build: Callable[[Request], keras.Model]
    modules: Mapping[str, str]
    unused: str | None = None

    def layer_of(self, module: str) -> str | None:
        """Returns the name of the Keras layer of a module, or None."""
        for pattern, template in self.modules.items():
            match = re.fullmatch(pattern, module)
            if match:
                return template.format(
                    **{
                        name.removesuffix("0"): int(value) + name.endswith("0")
                        for name, value in match.groupdict().items()
                    }
                )
        return None


def count_blocks(shapes: Shapes, pattern: str) -> int:
    """Returns the number of different values of a pattern's group.

    Args:
        shapes: Shapes by name.
        pattern: Regular expression for a whole name, with one group.

    Example:

    >>> count_blocks({"layer1.0.w": (), "layer1.1.w": ()}, r"layer1.(\\d+).w")
    2
    """
    matches = (re.fullmatch(pattern, name) for name in shapes)
    return len({match.group(1) for match in matches if match})
