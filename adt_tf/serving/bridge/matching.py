"""Which module of a file belongs to which layer of a model.

    layers = Matching(modules, nodes, mapping={}).layers()

A module and a layer belong together where their tensors have the same shapes.
Several of the same shapes are told apart

1. by name, where the layers have the modules' names (`layer1_0_conv1` for
   `layer1.0.conv1`);
2. by order, where the layers lie behind one another on one path;
3. batch normalisations by the convolution that feeds them, where each stands
   directly behind its convolution in the file.

Layers side by side that none of these tells apart are refused, with a table of
both sides: a guess would give a model that runs, with other logits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from adt_tf.serving.bridge.entries import WEIGHTS
from adt_tf.serving.bridge.filling import Modules
from adt_tf.serving.bridge.layer_graph import Node
from adt_tf.serving.bridge.slots import slots

Signature = frozenset


class Matching:
    """The search for the layer of each module.

    Args:
        modules: Arrays by module and leaf.
        nodes: Nodes of the layers that have weights, by name.
        mapping: Names of layers by module, which are taken as given.
    """

    def __init__(
        self,
        modules: Modules,
        nodes: Mapping[str, Node],
        mapping: Mapping[str, str],
    ):
        self._modules = {
            name: Signature((leaf, a.shape) for leaf, a in leaves.items())
            for name, leaves in modules.items()
        }
        self._nodes = nodes
        self._layers = {
            name: Signature(
                (slot.leaf, slot.shape)
                for slot in slots(node.layer, node.flattened)
            )
            for name, node in nodes.items()
        }
        self._pairs = {}
        for module, layer in mapping.items():
            if module not in self._modules or layer not in self._layers:
                raise ValueError(
                    "Argument `mapping` must map modules of the file to "
                    f"layers of the model. Received: {module!r}: {layer!r}"
                )
            self._pairs[module] = layer

    def layers(self) -> dict[str, str]:
        """Returns the layer of each module."""
        for module, layer in self._pairs.items():
            if self._modules[module] != self._layers[layer]:
                raise ValueError(
                    f"Argument `mapping` pairs {module!r} and {layer!r}, which "
                    f"have other shapes. {self._table()}"
                )
        later = []
        signatures = dict.fromkeys(self._modules.values())
        signatures |= dict.fromkeys(self._layers.values())
        for signature in signatures:
            modules, layers = self._open(signature)
            if len(modules) != len(layers):
                raise ValueError(
                    f"The file has {len(modules)} and the model {len(layers)} "
                    f"of {_shapes(signature)}. {self._table()}"
                )
            if not (
                self._pair(modules, self._by_name(modules, layers))
                or self._pair(modules, self._by_order(layers))
            ):
                later.append(signature)
        for signature in later:
            modules, layers = self._open(signature)
            if not self._pair(modules, self._by_convolution(layers)):
                raise ValueError(
                    f"{', '.join(layers)} all have {_shapes(signature)} and "
                    "lie side by side, so that the order does not tell which "
                    f"is which of {', '.join(modules)}: give the layers the "
                    f"modules' names, or pass mapping={{...}}. {self._table()}"
                )
        return self._pairs

    def _open(self, signature: Signature) -> tuple[list[str], list[str]]:
        taken = set(self._pairs.values())
        return (
            [
                name
                for name, own in self._modules.items()
                if own == signature and name not in self._pairs
            ],
            [
                name
                for name, own in self._layers.items()
                if own == signature and name not in taken
            ],
        )

    def _pair(self, modules: Iterable[str], layers: list[str] | None) -> bool:
        if layers is None:
            return False
        self._pairs |= dict(zip(modules, layers, strict=True))
        return True

    def _by_name(
        self, modules: list[str], layers: list[str]
    ) -> list[str] | None:
        plain = {re.sub(r"\W|_", "", name).lower(): name for name in layers}
        names = [re.sub(r"\W|_", "", name).lower() for name in modules]
        if sorted(names) != sorted(plain):
            return None
        return [plain[name] for name in names]

    def _by_order(self, layers: list[str]) -> list[str] | None:
        """Returns the layers in order if they lie on one path."""
        layers = sorted(layers, key=lambda n: len(self._nodes[n].ancestors))
        for before, after in zip(layers, layers[1:], strict=False):
            if before not in self._nodes[after].ancestors:
                return None
        return layers

    def _by_convolution(self, layers: list[str]) -> list[str] | None:
        """Returns the layers in the order of their convolutions' modules."""
        modules = list(self._modules)
        position = {layer: modules.index(m) for m, layer in self._pairs.items()}
        places = {}
        for layer in layers:
            (parent,) = self._nodes[layer].parents or {None}
            if parent not in position:
                return None
            places[position[parent] + 1] = layer
        open_modules, _ = self._open(self._layers[layers[0]])
        wanted = [modules.index(module) for module in open_modules]
        if sorted(places) != wanted:
            return None
        return [places[place] for place in wanted]

    def _table(self) -> str:
        """Returns both sides, line by line."""
        pairs = {layer: module for module, layer in self._pairs.items()}
        left = [f"{name} {_shapes(own)}" for name, own in self._modules.items()]
        right = [
            f"{name} {_shapes(own)}"
            + (f"  = {pairs[name]}" if name in pairs else "")
            for name, own in self._layers.items()
        ]
        width = max(map(len, left), default=0)
        rows = max(len(left), len(right))
        left += [""] * (rows - len(left))
        right += [""] * (rows - len(right))
        lines = [
            f"{module:{width}} | {layer}"
            for module, layer in zip(left, right, strict=True)
        ]
        return "\n".join(["The file and the model:", *lines])


def _shapes(signature: Signature) -> str:
    return " ".join(
        f"{leaf} {list(shape)}"
        for leaf, shape in sorted(
            signature, key=lambda item: WEIGHTS.index(item[0])
        )
    )
