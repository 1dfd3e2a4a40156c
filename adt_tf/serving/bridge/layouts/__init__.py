"""The architectures that the bridge builds by name.

    layout, options = find("wrn-28-10")
    names = recognize(shapes)       # the architectures that fit a state dict

One module for each family: `wide_resnet`, `madry_resnet`, `resnet`,
`plain_cnns` and `attack_networks`.
"""

from __future__ import annotations

import re

from adt_tf.serving.bridge.layouts import (
    attack_networks,
    madry_resnet,
    plain_cnns,
    resnet,
    wide_resnet,
)
from adt_tf.serving.bridge.layouts.base import Layout, Shapes

LAYOUTS = (
    wide_resnet.WIDE_RESNET,
    wide_resnet.DEEPMIND_WIDE_RESNET,
    madry_resnet.MADRY_WIDE_RESNET,
    resnet.RESNET,
    resnet.PREACT_RESNET,
    resnet.DEEPMIND_PREACT_RESNET,
    plain_cnns.SMALL_CNN,
    plain_cnns.LENET5,
    plain_cnns.LENET,
    attack_networks.EXPLICIT_GENERATOR,
    attack_networks.IMPLICIT_GENERATOR,
    attack_networks.POSTERIOR,
)


def names() -> list[str]:
    """Returns the names of all architectures."""
    return [layout.name for layout in LAYOUTS]


def find(name: str) -> tuple[Layout, dict[str, str | None]]:
    """Returns the layout of a name, and the options in the name.

    Args:
        name: Name of an architecture. Case is ignored, and `_` equals `-`.

    Example:

    >>> layout, options = find("WRN-28-10")
    >>> layout.name, options["depth"]
    ('wrn-<depth>-<widen_factor>', '28')
    """
    plain = str(name).lower().replace("_", "-")
    for layout in LAYOUTS:
        match = re.fullmatch(layout.pattern, plain)
        if match:
            return layout, match.groupdict()
    raise ValueError(
        f"Argument `architecture` must be one of {', '.join(names())}. Fill "
        "another one with `adt_tf.transplant(path, keras_model)`. "
        f"Received: architecture={name!r}"
    )


def same(name: str, other: str) -> bool:
    """Returns whether two names of architectures differ in spelling only.

    Args:
        name: Name of an architecture.
        other: Another name.

    Example:

    >>> same("preact_resnet18", "PreAct-ResNet18")
    True
    """
    return find(name) == find(other)


def recognize(shapes: Shapes) -> list[str]:
    """Returns the names of the architectures that a state dict fits.

    Args:
        shapes: Shapes of the arrays by name.

    Example:

    >>> recognize({"fc.weight": (10, 64)})
    []
    """
    return [name for layout in LAYOUTS for name in layout.recognize(shapes)]
