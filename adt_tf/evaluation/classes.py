"""Accuracy of each class."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from adt_tf.data.images import validate_class_names
from adt_tf.evaluation.statistics import wilson_interval


@dataclasses.dataclass(frozen=True)
class ClassAccuracy:
    """Accuracies of the examples of one class.

    Attributes:
        name: Name of the class, or its number.
        num_examples: Number of its examples.
        natural: Share of them that is right when clean.
        robust: Share of them that withstands every attack.
        interval: 95 % Wilson interval of `robust`.
    """

    name: str
    num_examples: int
    natural: float
    robust: float
    interval: tuple[float, float]


def by_class(
    labels: np.ndarray,
    natural: np.ndarray,
    robust: np.ndarray,
    names: Sequence[str] | None = None,
) -> list[ClassAccuracy]:
    """Returns the accuracies of each class that has an example.

    Args:
        labels: Integers [n].
        natural: Whether each example is right when clean [n].
        robust: Whether each example withstands every attack [n].
        names: Name of each class; None for numbers.

    Example:

    >>> labels, right = np.array([0, 1, 1]), np.array([True, True, False])
    >>> [row.robust for row in by_class(labels, right, right)]
    [1.0, 0.5]
    """
    rows = []
    for label in np.unique(labels):
        members = labels == label
        count = int(np.sum(members))
        standing = int(np.sum(robust[members]))
        rows.append(
            ClassAccuracy(
                str(label) if names is None else names[label],
                count,
                float(np.mean(natural[members])),
                standing / count,
                wilson_interval(standing, count),
            )
        )
    return rows


def checked_names(
    class_names: Sequence[str] | np.ndarray, labels: np.ndarray | None
) -> tuple[str, ...]:
    """Returns the names as a tuple; raises if a label has no name."""
    fewest = 0 if labels is None else int(labels.max()) + 1
    most = len(class_names) if hasattr(class_names, "__len__") else 0
    return validate_class_names(class_names, max(fewest, most))
