"""The paper's analyses: each measures, returns figures, and draws them.

    from adt_tf.analysis import transfer

    results = transfer.measure_transfer(
        {"AT-PGD": one, "ADT-EXP": other}, test, attacks.pgd(8 / 255))
    print(results.to_dict())
    transfer.draw_transfer(results, "transfer.png")

Around one image: `diversity` (PGD's restarts beside samples of EXP),
`loss_surface` and `hessian` (how steep and how curved the loss is).
Of several classifiers: `transfer` (who fools whom) and `convergence` (EXP's
loss step by step). Of several runs: `entropy_weight` and `epoch_time`.
`plots` is what their pictures share.

A module is imported when it is named, so that measuring needs no Matplotlib
that is not drawn with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf.checks import arguments

__all__ = ["map_batches"]


def map_batches(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    batch_size: int,
    verbose: bool = False,
) -> Any:
    """Runs a function on batches, and joins what it gives for each example.

    The last batch is filled up with copies of the last example, whose results
    are dropped: one shape, so that a compiled function is traced once.

    Args:
        function: From a batch of each array to a nest of tensors whose first
            axis is the batch.
        *arrays: Of one length.
        batch_size: Examples at once.
        verbose: Whether to show a progress bar.

    Example:

    >>> map_batches(lambda x: 2 * x, np.arange(5), batch_size=2)
    array([0, 2, 4, 6, 8])
    """
    arguments.integer_at_least(1, batch_size=batch_size)
    length = len(arrays[0])
    size = min(batch_size, length)
    starts = range(0, length, size)
    bar = keras.utils.Progbar(
        len(starts), verbose=int(verbose), unit_name="batch"
    )
    parts = []
    for start in starts:
        index = np.minimum(np.arange(start, start + size), length - 1)
        results = function(*(tf.constant(array[index]) for array in arrays))
        kept = min(size, length - start)
        parts.append(
            tf.nest.map_structure(lambda t, k=kept: np.asarray(t)[:k], results)
        )
        bar.add(1)
    return tf.nest.map_structure(lambda *t: np.concatenate(t), *parts)
