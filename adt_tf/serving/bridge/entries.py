"""The entries of a state dict: prefixes, counters, buffers, modules.

for arrays in without_prefixes(read(path)):     # no module. or model.
    normalization, arrays = split_normalization(arrays)
    modules = group(arrays)     # {"conv1": {"weight": ..., "bias": ...}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]

# running_mean belongs to batch normalisation.
_MEAN = re.compile(r"(?!running_|moving_)(\w*_)?(mean|mu)")
_DEVIATION = re.compile(r"(\w*_)?(std|sigma)")
# Of batch normalisation, and of torch.optim.swa_utils.AveragedModel.
_COUNTERS = ("num_batches_tracked", "n_averaged")
#: Names of the tensors in a module of weights.
WEIGHTS = ("weight", "bias", "running_mean", "running_var")


def without_prefixes(arrays: Arrays) -> Iterator[dict[str, np.ndarray]]:
    """Yields the arrays as they are, then without each shared prefix.

    Wrappers such as DataParallel (`module.`) or a normalising model (`model.`)
    put a prefix before all names, except perhaps those of the normalisation's
    buffers.

    Args:
        arrays: Arrays by name.

    Example:

    >>> arrays = {"model.conv.bias": 0, "model.fc.bias": 1, "mean": 2}
    >>> [list(names) for names in without_prefixes(arrays)][1:]
    [['conv.bias', 'fc.bias', 'mean']]
    """
    arrays = _without_copies(dict(arrays))
    yield arrays
    while True:
        firsts = {
            name.split(".")[0]
            for name in arrays
            if not _is_buffer(name) and name not in _COUNTERS
        }
        if len(firsts) != 1 or firsts & arrays.keys():
            return
        prefix = f"{firsts.pop()}."
        arrays = _without_copies(
            {name.removeprefix(prefix): a for name, a in arrays.items()}
        )
        yield arrays


def _is_buffer(name: str) -> bool:
    return any(_is(pattern, name) for pattern in (_MEAN, _DEVIATION))


def _is(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.fullmatch(name.split(".")[-1]) is not None


def _without_copies(
    arrays: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Drops the second copy that MadryLab's `robustness` saves of a model."""
    if not any(name.startswith("model.") for name in arrays):
        return arrays
    return {
        name: array
        for name, array in arrays.items()
        if not name.startswith("attacker.")
    }


def split_normalization(
    arrays: Arrays,
) -> tuple[tuple[list[float], list[float]] | None, dict[str, np.ndarray]]:
    """Separates a mean and a standard deviation from the other arrays.

    Args:
        arrays: Arrays by name.

    Returns:
        Mean and standard deviation of each channel, or None if the arrays
        have none; and the other arrays.

    Example:

    >>> arrays = {"mu": np.full([1, 1, 1, 1], 0.5), "sigma": np.ones(1)}
    >>> split_normalization(arrays)
    (([0.5], [1.0]), {})
    """
    buffers = {
        name: array for name, array in arrays.items() if _is_buffer(name)
    }
    others = {name: a for name, a in arrays.items() if name not in buffers}
    if not buffers:
        return None, others
    means, deviations = (
        [a for name, a in buffers.items() if _is(pattern, name)]
        for pattern in (_MEAN, _DEVIATION)
    )
    if len(means) != 1 or len(deviations) != 1:
        raise ValueError(
            "The file must have one mean and one standard deviation of the "
            f"images. It has: {', '.join(buffers)}"
        )
    mean, deviation = (
        [float(value) for value in array.ravel()]
        for array in (*means, *deviations)
    )
    return (mean, deviation), others


def group(arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
    """Returns the arrays by module and leaf, without counters of batches.

    Args:
        arrays: Arrays by name.

    Example:

    >>> group({"conv1.weight": 0, "conv1.bias": 1, "bn.num_batches_tracked": 2})
    {'conv1': {'weight': 0, 'bias': 1}}
    """
    modules: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        module, _, leaf = name.rpartition(".")
        if leaf not in _COUNTERS:
            modules.setdefault(module, {})[leaf] = array
    return modules
