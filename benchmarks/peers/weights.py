"""Loads the weights of export_weights.py into a PyTorch twin and checks it.

    python benchmarks/peers/weights.py build/peers/digits-at_pgd.npz

Runs the twin of each file on the images in the file and compares its outputs
with those of Keras. A difference of 1e-4 or more is an error.
"""

import argparse
import json
import sys
from typing import Any, NamedTuple

import numpy as np
import torch
import twins
from torch import nn

TOLERANCE = 1e-4

# Mapping from a tensor of a module to its name in Keras and the order of axes.
_CONVOLUTION = {"weight": ("kernel", (3, 2, 0, 1))}
_DENSE = {"weight": ("kernel", (1, 0)), "bias": ("bias", (0,))}
_NORMALIZATION = {
    "weight": ("gamma", (0,)),
    "bias": ("beta", (0,)),
    "running_mean": ("moving_mean", (0,)),
    "running_var": ("moving_variance", (0,)),
}
_TENSORS = {
    nn.Conv2d: _CONVOLUTION,
    nn.Linear: _DENSE,
    nn.BatchNorm2d: _NORMALIZATION,
}


class Exported(NamedTuple):
    """A twin with Keras' weights, and the other contents of the file."""

    network: nn.Module
    inputs: tuple[torch.Tensor, ...]
    labels: torch.Tensor | None
    details: dict[str, Any]
    error: float


def load(path: str) -> Exported:
    """Builds the twin of an exported network; refuses one that differs.

    Args:
        path: An .npz file of export_weights.py.
    """
    with np.load(path) as file:
        arrays = dict(file)
    details = json.loads(str(arrays["details"]))
    network = twins.build(details["network"], **details["settings"])
    _fill(network, arrays)
    inputs = tuple(
        _to_channels_first(arrays[name])
        for name in ("input_0", "input_1")
        if name in arrays
    )
    expected = _to_channels_first(arrays["output"])
    error = _largest_difference(network, inputs, expected)
    if not error < TOLERANCE:
        raise ValueError(
            f"The twin of {details['network']} differs from the Keras model "
            f"by {error:.1e} on the inputs in {path}; below {TOLERANCE:.0e} "
            "is expected. Make twins.py and adt_tf/networks describe the same "
            "architecture, then export again."
        )
    labels = arrays.get("labels")
    if labels is not None:
        labels = torch.from_numpy(labels.astype(np.int64))
    return Exported(network, inputs, labels, details, error)


def _fill(network: nn.Module, arrays: dict[str, np.ndarray]) -> None:
    unused = {name for name in arrays if name.startswith("weights/")}
    for name, module in network.named_modules():
        for tensor_name, (keras_name, axes) in _TENSORS.get(
            type(module), {}
        ).items():
            tensor = getattr(module, tensor_name)
            if tensor is None:
                continue
            key = f"weights/{name.replace('.', '_')}/{keras_name}"
            if key not in unused:
                raise ValueError(
                    f"The twin has {name}.{tensor_name}, but the file has no "
                    f"{key}. Export again with this version of the project."
                )
            array = np.transpose(arrays[key], axes)
            if array.shape != tuple(tensor.shape):
                raise ValueError(
                    f"{key} has the shape {array.shape} in PyTorch's order; "
                    f"the twin's {name}.{tensor_name} has "
                    f"{tuple(tensor.shape)}."
                )
            unused.remove(key)
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    if unused:
        raise ValueError(f"The twin has no place for {sorted(unused)}.")


def _to_channels_first(array: np.ndarray) -> torch.Tensor:
    if array.ndim == 4:
        array = array.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(array))


def _largest_difference(network, inputs, expected, batch_size=250) -> float:
    worst = 0.0
    with torch.inference_mode():
        for start in range(0, len(expected), batch_size):
            rows = slice(start, start + batch_size)
            outputs = network(*(values[rows] for values in inputs))
            # `not <=` is true for NaN, which max() of Python could drop.
            difference = (outputs - expected[rows]).abs().max().item()
            if not difference <= worst:
                worst = difference
    return worst


def main() -> None:
    """Checks the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="Exported files.")
    for path in parser.parse_args().files:
        exported = load(path)
        print(
            f"{path}: {exported.details['network']}, "
            f"{len(exported.inputs[0])} inputs, largest difference "
            f"{exported.error:.1e}"
        )


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, KeyError) as error:
        sys.exit(f"error: {error}")
