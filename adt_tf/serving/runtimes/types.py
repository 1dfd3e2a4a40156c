"""The interface between the runtimes and their callers."""

from collections.abc import Callable

import numpy as np

#: Function from float images in [0, 1] to logits.
Run = Callable[[np.ndarray], np.ndarray]
#: Shape of a batch of images, with None for sizes that are not fixed.
Shape = tuple[int | None, ...]
