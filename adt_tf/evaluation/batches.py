"""Batches of few sizes, so that few shapes are traced and little is padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Cost of one more batch, in images: dispatch, and cores that wait for its end.
_COST_OF_BATCH = 8


def batches(rows: np.ndarray, largest: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yields (rows, padded size), full batches and then smaller ones.

    Each size is a quarter of the one before. The rows that do not fill a batch
    go into one padded batch or into several smaller ones, whichever is cheaper.

    Args:
        rows: Indices of examples.
        largest: Size of a full batch.

    Example:

    >>> [size for _, size in batches(np.arange(128 + 77), 128)]
    [128, 32, 32, 8, 8]
    """
    for size in _sizes(len(rows), largest):
        yield rows[:size], size
        rows = rows[size:]


def total_size(num_rows: int, largest: int) -> int:
    """Returns the sum of the padded sizes of the batches of some rows."""
    return sum(_sizes(num_rows, largest))


def sizes_at_most(rows: np.ndarray, largest: int) -> list[int]:
    """Returns the sizes of the batches of all rows, and the smaller sizes.

    >>> sizes_at_most(np.arange(30), 16)
    [16, 16, 4]
    """
    sizes = [size for _, size in batches(rows, largest)]
    while largest > 4:
        largest //= 4
        sizes.append(largest)
    return sizes


def smallest_size(num_rows: int, largest: int) -> int:
    """Returns the smallest size of one batch that holds some rows.

    >>> smallest_size(20, 128)
    32
    """
    size = largest
    while size > 4 and num_rows <= size // 4:
        size //= 4
    return size


def padded_index(num_rows: int, size: int) -> np.ndarray:
    """Returns indices [size] that repeat the last row up to a full batch.

    >>> padded_index(3, 5)
    array([0, 1, 2, 2, 2])
    """
    return np.minimum(np.arange(size), num_rows - 1)


def _sizes(num_rows: int, largest: int) -> list[int]:
    full, rest = divmod(num_rows, largest)
    sizes = [largest] * full
    if not rest:
        return sizes
    smaller = _sizes(rest, largest // 4) if largest > 4 else [largest]
    return sizes + min([largest], smaller, key=_cost)


def _cost(sizes: list[int]) -> int:
    return sum(sizes) + _COST_OF_BATCH * len(sizes)
