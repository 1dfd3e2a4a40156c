"""Finds the Keras layer of each module of a file.

    layers = Matching(modules, nodes, mapping={}).layers()

A module matches a layer if their tensors have the same shapes. Among several
of the same shapes it is found

1. by name, if the layers have the modules' names (`layer1_0_conv1` for
   `layer1.0.conv1`);
2. by order, if the layers follow one another on one path;
3. a batch normalisation by the convolution before it, if it comes directly
   after its convolution in the file.

A safetensors file has its entries in the order of their names, not of the
network. There, order counts only if the names differ in their numbers alone
(`features.7`, `features.10`).

Parallel layers that none of these rules distinguishes are refused, with a
table of both sides: a wrong guess would give a model that runs, with other
logits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
        mapping: Names of layers by module, which are not searched for.
        ordered: Whether the modules are in the order of the network.
    """

    def __init__(
        self,
        modules: Modules,
        nodes: Mapping[str, Node],
        mapping: Mapping[str, str],
        *,
        ordered: bool = True,
    ) -> None:
        self._ordered = ordered
        if not ordered:
            modules = {
                name: modules[name] for name in sorted(modules, key=_natural)
            }
        self._prefix = _shared_prefix(list(modules))
        self._modules = {
            name: Signature((leaf, a.shape) for leaf, a in leaves.items())
            for name, leaves in modules.items()
        }
        self._nodes = nodes
        self._layers = {
            name: Signature(
                (slot.leaf, slot.shape)
                for slot in slots(node.layer, node.order)
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
        if len(set(self._pairs.values())) < len(self._pairs):
            raise ValueError(
                "Argument `mapping` must map each module to another layer. "
                f"Received: mapping={dict(mapping)}"
            )

    def layers(self) -> dict[str, str]:
        """Returns the layer of each module."""
        for module, layer in self._pairs.items():
            if self._modules[module] != self._layers[layer]:
                raise ValueError(
                    f"Argument `mapping` pairs {module!r} and {layer!r}, which "
                    f"have other shapes. {self._table()}"
                )
        ambiguous = []
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
                or self._pair(modules, self._by_order(modules, layers))
            ):
                ambiguous.append(signature)
        for signature in ambiguous:
            modules, layers = self._open(signature)
            if not self._pair(modules, self._by_convolution(layers)):
                reason = (
                    "lie side by side"
                    if self._ordered
                    else ("the entries of safetensors are sorted by name")
                )
                raise ValueError(
                    f"{', '.join(layers)} all have {_shapes(signature)} and "
                    f"{reason}, so that their order does not show "
                    f"which belongs to which of {', '.join(modules)}: give "
                    "the layers the modules' names, or pass mapping={...}. "
                    f"{self._table()}"
                )
        return self._pairs

    def _open(self, signature: Signature) -> tuple[list[str], list[str]]:
        paired_layers = set(self._pairs.values())
        return (
            [
                name
                for name, own in self._modules.items()
                if own == signature and name not in self._pairs
            ],
            [
                name
                for name, own in self._layers.items()
                if own == signature and name not in paired_layers
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
        plain = {_plain(name): name for name in layers}
        for start in range(len(self._prefix) + 1):  # with module., without
            prefix = "".join(f"{part}." for part in self._prefix[:start])
            names = [_plain(name.removeprefix(prefix)) for name in modules]
            if sorted(names) == sorted(plain):
                return [plain[name] for name in names]
        return None

    def _by_order(
        self, modules: list[str], layers: list[str]
    ) -> list[str] | None:
        """Returns the layers in order if they are on one path, or None."""
        if not self._ordered and len({_unnumbered(m) for m in modules}) > 1:
            return None
        layers = sorted(layers, key=lambda n: len(self._nodes[n].ancestors))
        for before, after in zip(layers, layers[1:], strict=False):
            if before not in self._nodes[after].ancestors:
                return None
        return layers

    def _by_convolution(self, layers: list[str]) -> list[str] | None:
        """Returns the layers in the order of their convolutions, or None."""
        if not self._ordered:
            return None
        modules = list(self._modules)
        position = {layer: modules.index(m) for m, layer in self._pairs.items()}
        places = {}
        for layer in layers:
            (parent,) = self._nodes[layer].parents or {None}
            if parent not in position:
                return None
            places[position[parent] + 1] = layer
        open_modules, _ = self._open(self._layers[layers[0]])
        expected = [modules.index(module) for module in open_modules]
        if sorted(places) != expected:
            return None
        return [places[place] for place in expected]

    def _table(self) -> str:
        """Returns a table of the modules and the layers."""
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


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


def _unnumbered(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def _natural(name: str) -> list[Any]:
    """Returns a key that sorts numbers in names as numbers."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if part.isdigit() else part for part in parts]


def _shared_prefix(names: list[str]) -> list[str]:
    """Returns the parts with which all names begin, but not the last part."""
    parts = [name.split(".")[:-1] for name in names]
    shared = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return shared


def _shapes(signature: Signature) -> str:
    return " ".join(
        f"{leaf} {list(shape)}"
        for leaf, shape in sorted(
            signature, key=lambda item: WEIGHTS.index(item[0])
        )
    )
