"""Assigns arrays to the variables of a Keras model.

    problems, assignments = match(modules, nodes, {"conv1": "stem", ...})
    assign(assignments)

Arrays are assigned only after all of them fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from adt_tf.serving.bridge.layer_graph import Node
from adt_tf.serving.bridge.slots import Slot, slots

Modules = Mapping[str, Mapping[str, np.ndarray]]


class Assignment(NamedTuple):
    """An array and the slot that it fills."""

    name: str
    array: np.ndarray
    slot: Slot


def match(
    modules: Modules, nodes: Mapping[str, Node], layers: Mapping[str, str]
) -> tuple[list[str], list[Assignment]]:
    """Finds the array of each variable.

    Args:
        modules: Arrays by module and leaf.
        nodes: Nodes of the Keras model by name.
        layers: Names of Keras' layers by module.

    Returns:
        Descriptions of what does not fit, and the assignments.
    """
    modules_by_layer = {layer: module for module, layer in layers.items()}
    missing, other_shapes, assignments, used = [], [], [], set()
    for node in nodes.values():
        if node.repeats:
            continue
        for slot in slots(node.layer, node.order):
            module = modules_by_layer.get(node.name)
            name = f"{module}.{slot.leaf}"
            array = None
            if module is not None:
                array = modules.get(module, {}).get(slot.leaf)
            if array is None:
                missing.append(
                    name if module else f"{slot.leaf} of {node.name}"
                )
                continue
            used.add(name)
            if array.shape != slot.shape:
                other_shapes.append(
                    f"{name} {list(array.shape)} for {list(slot.shape)}"
                )
            else:
                assignments.append(Assignment(name, array, slot))
    unused = [
        f"{module}.{leaf}" if module else leaf
        for module, leaves in modules.items()
        for leaf in leaves
        if f"{module}.{leaf}" not in used
    ]
    problems = [
        _describe("missing", missing),
        _describe("left over", unused),
        _describe("of another shape", other_shapes),
    ]
    return [problem for problem in problems if problem], assignments


def _describe(problem: str, names: list[str]) -> str:
    return f"{problem}: {', '.join(names)}" if names else ""


def assign(assignments: Iterable[Assignment]) -> None:
    """Fills the variables, or raises `ValueError` if a number cannot be.

    Numbers must be finite, and variances 0 or more.

    Args:
        assignments: Arrays with their slots.
    """
    assignments = list(assignments)
    not_finite = [
        name
        for name, array, _ in assignments
        if not np.isfinite(array.astype(np.float32)).all()
    ]
    if not_finite:
        raise ValueError(
            f"Weights must be finite. Not finite: {', '.join(not_finite)}"
        )
    negative = [
        name
        for name, array, slot in assignments
        if slot.leaf == "running_var" and (array < 0).any()
    ]
    if negative:
        raise ValueError(
            f"Variances must be 0 or more. Below 0: {', '.join(negative)}"
        )
    for _, array, slot in assignments:
        values = slot.convert(array.astype(np.float32))
        slot.variable.assign(np.ascontiguousarray(values))
