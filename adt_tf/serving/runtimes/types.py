"""The interface between the runtimes and their callers."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

#: Function from float images in [0, 1] to logits.
Run = Callable[[np.ndarray], np.ndarray]
#: Shape of a batch of images, with None for sizes that are not fixed.
Shape = tuple[int | None, ...]


class LoadedFile(Protocol):
    """A `Run` that knows the shape of its images and logits.

    Attributes:
        image_shape: Height, width and channels of an image.
        num_classes: Number of logits of an image.
    """

    image_shape: tuple[int, int, int]
    num_classes: int

    def __call__(self, images: np.ndarray, /) -> np.ndarray: ...
