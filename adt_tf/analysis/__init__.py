"""The paper's analyses. Each measures, returns its results and draws them.

    from adt_tf.analysis import transfer

    results = transfer.measure_transfer(
        {"AT-PGD": one, "ADT-EXP": other}, test, attacks.pgd(8 / 255))
    print(results.to_dict())
    transfer.draw_transfer(results, "transfer.png")

Around one image: `diversity` (restarts of PGD and samples of EXP),
`loss_surface` and `hessian` (slope and curvature of the loss). Of several
classifiers: `transfer` (attacks found on one, applied to another) and
`convergence` (the loss after each step of EXP). Of several runs:
`entropy_weight` and `epoch_time`. `plots` holds the style of all figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks
from adt_tf.checks import arguments

__all__ = ["by_name", "has_input_gradient", "map_batches"]


def by_name(names: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    """Returns a dictionary from each name to its row, as plain numbers.

    Args:
        names: Names of the rows.
        values: Values [names, ...].

    Example:

    >>> by_name(("a", "b"), np.array([0.5, 1.0]))
    {'a': 0.5, 'b': 1.0}
    """
    return dict(zip(names, values.tolist(), strict=True))


def has_input_gradient(classifier: Any, images: np.ndarray) -> bool:
    """Returns whether the logits have a derivative with respect to the image.

    Args:
        classifier: Classifier from images in [0, 1] to logits.
        images: Images [n, height, width, channels], of which one is used.

    Example:

    >>> zeros = np.zeros([1, 2, 2, 1], "float32")
    >>> has_input_gradient(lambda x, training: tf.round(x[:, 0, 0]), zeros)
    False
    """
    x = tf.constant(images[:1])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        logits = checks.as_logits(classifier(x, training=False), classifier)
    return tape.gradient(logits, x) is not None


def check_differentiable(
    classifiers: Mapping[str, Any], images: np.ndarray
) -> None:
    """Raises a ValueError if a classifier has no input gradient.

    Args:
        classifiers: Classifiers of images in [0, 1], by name.
        images: Images [n, height, width, channels], of which one is used.
    """
    for name, classifier in classifiers.items():
        checks.check_classifier(classifier)
        if not has_input_gradient(classifier, images):
            raise ValueError(
                "Argument `classifiers` must hold classifiers with an input "
                f"gradient. Received: {name!r}, whose gradient is None, "
                "because an operation (such as rounding) has no derivative. "
                "Leave it out."
            )


def map_batches(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    batch_size: int,
    verbose: bool = False,
) -> Any:
    """Applies a function to batches, and concatenates the results.

    The last batch is padded with copies of the last example, whose results are
    dropped. All batches have one shape, so a compiled function is traced once.

    Args:
        function: Function from a batch of each array to a nest of tensors
            whose first axis is the batch.
        *arrays: Arrays of the same length.
        batch_size: Number of examples in a batch.
        verbose: Whether to show a progress bar.

    Returns:
        A nest of arrays whose first axis is the examples.

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
        count = min(size, length - start)
        parts.append(
            tf.nest.map_structure(lambda t, n=count: np.asarray(t)[:n], results)
        )
        bar.add(1)
    return tf.nest.map_structure(lambda *t: np.concatenate(t), *parts)
