"""The architectures that the bridge knows by name.

    layout, options = find("wrn-28-10")
    names = recognize(shapes)       # which of them a state dict fits

One module for each family: `wide_resnet`, `resnet`, `plain_cnns` and
`attack_networks`.
"""

from __future__ import annotations

import re

from adt_tf.serving.bridge.layouts import (
    attack_networks,
    plain_cnns,
    resnet,
    wide_resnet,
)
from adt_tf.serving.bridge.layouts.base import Layout, Shapes

LAYOUTS = (
    wide_resnet.WIDE_RESNET,
    wide_resnet.DEEPMIND_WIDE_RESNET,
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
    """Returns the layout of a name, and what the name says of it.

    Args:
        name: Name of an architecture; case does not matter, nor do `-` and
            `_` differ.

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
        "any other with `adt_tf.transplant(path, keras_model)`. "
        f"Received: architecture={name!r}"
    )


def recognize(shapes: Shapes) -> list[str]:
    """Returns the names of the architectures that a state dict fits.

    Args:
        shapes: Shapes of the arrays by name.

    Example:

    >>> recognize({"fc.weight": (10, 64)})
    []
    """
    return [name for layout in LAYOUTS for name in layout.recognize(shapes)]
