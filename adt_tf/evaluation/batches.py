"""Batches of few sizes, so that few shapes are traced and little is padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def batches(rows: np.ndarray, largest: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yields (rows, padded size), full batches and then smaller ones.

    Sizes are few, each a quarter of the one before.

    Args:
        rows: Indices of examples.
        largest: Size of a full batch.
    """
    while len(rows):
        size = largest
        while size > 4 and len(rows) <= size // 4:
            size //= 4
        yield rows[:size], size
        rows = rows[size:]


def sizes_at_most(rows: np.ndarray, largest: int) -> list[int]:
    """Returns the sizes of the batches of all rows, and those of fewer.

    >>> sizes_at_most(np.arange(30), 16)
    [16, 16, 4]
    """
    sizes = [size for _, size in batches(rows, largest)]
    while largest > 4:
        largest //= 4
        sizes.append(largest)
    return sizes
