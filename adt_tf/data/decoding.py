"""Decodes image files, such as JPEG, to arrays of a fixed size.

    decode("pets/cat/1.jpg", (64, 64, 3))           # the whole image, resized
    decode(io.BytesIO(content), (64, 64, 3), (0.1, 0.0, 0.5, 0.5))    # a part
    cut(array, (0.1, 0.0, 0.5, 0.5))                # the same part of an array

A box is (top, left, height, width), as fractions of the image's own size.
"""

from __future__ import annotations

import os
from typing import BinaryIO

import numpy as np
from PIL import Image

from adt_tf.files import first_line

Box = tuple[float, float, float, float]
#: Errors of Pillow for a file that is damaged, too large or not an image.
UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
_DEEP = ("I", "I;16", "I;16L", "I;16B")
_GREY = ("1", "L", "LA", *_DEEP)


def decode(
    file: str | os.PathLike | BinaryIO,
    image_shape: tuple[int, int, int],
    box: Box | None = None,
    *,
    name: str,
) -> np.ndarray:
    """Returns an image, or a part of it, as uint8 [H, W, C].

    Args:
        file: Path of the file, or the open file.
        image_shape: Height, width and channels (1 or 3) of the result.
        box: Part to cut out; None for the whole image.
        name: Name of the file in error messages.
    """
    height, width, channels = image_shape
    try:
        with Image.open(file) as image:
            image = _eight_bits(image).convert("L" if channels == 1 else "RGB")
            if box is not None:
                image = _resized(image, (width, height), box)
            elif image.size != (width, height):
                # Pillow's bilinear filter averages pixels when it shrinks.
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            array = np.asarray(image)
    except UNREADABLE as error:
        raise no_image(name, error) from error
    return array[..., np.newaxis] if channels == 1 else array


def header(
    file: str | os.PathLike, *, name: str
) -> tuple[tuple[int, int], bool]:
    """Returns the height and width of an image, and whether it is grey."""
    try:
        with Image.open(file) as image:
            _refuse_floats(image)
            return (image.height, image.width), image.mode in _GREY
    except UNREADABLE as error:
        raise no_image(name, error) from error


def cut(image: np.ndarray, box: Box) -> np.ndarray:
    """Returns a part of an image [H, W, C], resized to the image's own size.

    >>> ramp = np.tile(np.arange(0, 80, 10, dtype=np.uint8), (8, 1))[..., None]
    >>> cut(ramp, (0.0, 0.5, 1.0, 0.5))[0, :, 0].tolist()
    [38, 43, 48, 53, 58, 63, 68, 70]
    """
    height, width, _ = image.shape
    # Pillow has no float images with several channels, and no uint8 images
    # with two.
    planes = [
        np.asarray(_resized(Image.fromarray(plane), (width, height), box))
        for plane in np.moveaxis(np.ascontiguousarray(image), -1, 0)
    ]
    return np.stack(planes, axis=-1)


def _resized(
    image: Image.Image, size: tuple[int, int], box: Box
) -> Image.Image:
    top, left, height, width = box
    # A sum such as 0.4 + 0.6 may exceed 1 by a rounding error.
    edges = (left, top, min(left + width, 1.0), min(top + height, 1.0))
    corners = np.multiply(edges, 2 * image.size).tolist()
    return image.resize(size, Image.Resampling.BILINEAR, box=tuple(corners))


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scales 16-bit pixels to 8 bits; Pillow would clip them at 255."""
    _refuse_floats(image)
    if image.mode not in _DEEP:
        return image
    values = np.asarray(image, np.float64)
    return Image.fromarray((values / 257).round().clip(0, 255).astype("uint8"))


def _refuse_floats(image: Image.Image) -> None:
    """Raises `ValueError` for float pixels, which Pillow cuts to 0..255."""
    if image.mode == "F":
        raise ValueError(
            "its pixels are floats, whose range is not known; save them with "
            "8 or 16 bits"
        )


def no_image(name: str, error: Exception) -> ValueError:
    """Returns the error for a file that Pillow cannot read."""
    return ValueError(
        f"{name} cannot be read as an image: {first_line(error)}. Remove or "
        "replace it."
    )
