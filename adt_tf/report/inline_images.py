"""Encodes arrays as PNG images inside the page.

png(image), perturbation(x_adv - x, largest), heat(sigma, highest)
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from matplotlib import image as matplotlib_image

from adt_tf.analysis import plots

# Smaller images are enlarged here, because browsers blur them in print.
_SMALL = 48


def data_uri(content: bytes) -> str:
    """Returns a data URI of the bytes of a PNG file."""
    return "data:image/png;base64," + base64.b64encode(content).decode()


def png(image: np.ndarray) -> str:
    """Encodes an image [height, width, channels] of values in [0, 1]."""
    image = np.clip(image, 0.0, 1.0)
    # One or two channels are shown as grey; of more, the first three.
    image = image[..., 0] if image.shape[-1] < 3 else image[..., :3]
    return _encode(image, "gray")


def perturbation(delta: np.ndarray, largest: float) -> str:
    """Encodes changes: -largest is black, 0 is grey, +largest is white."""
    return png(0.5 + delta / (2 * largest))


def heat(values: np.ndarray, highest: float) -> str:
    """Encodes the channels' mean: 0 is dark, the highest value is bright."""
    return _encode(values.mean(axis=-1) / (highest or 1.0), plots.COLORMAP)


def _encode(image: np.ndarray, colormap: str) -> str:
    factor = max(1, _SMALL // max(image.shape[:2]))
    image = image.repeat(factor, axis=0).repeat(factor, axis=1)
    file = io.BytesIO()
    metadata: dict[str, Any] = {"Software": None}
    matplotlib_image.imsave(
        file,
        image,
        vmin=0,
        vmax=1,
        cmap=colormap,
        format="png",
        metadata=metadata,
    )
    return data_uri(file.getvalue())
