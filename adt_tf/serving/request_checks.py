"""Checks of a request to a served model, inside its graph.

A refused request costs little: a file that is too long or of another size is
not decoded.
"""

from __future__ import annotations

import tensorflow as tf

# Bytes of a file beside its pixels, such as a colour profile and a preview.
# Compressed text in a PNG can grow by a factor of a thousand when it is read.
_FILE_EXTRAS = 1 << 17
#: Largest number of pixels of an image that is resized.
MOST_PIXELS = 1 << 24


def longest_file(height: int, width: int, *, resize: bool) -> int:
    """Returns the largest allowed length of a file in bytes.

    It is the length of four channels of 16 bits, with a byte for each row, and
    of the extras. A file that is resized may have one byte for each pixel of
    the largest image.

    Args:
        height: Height of the classifier's images.
        width: Width of the classifier's images.
        resize: Whether images of other sizes are resized.
    """
    pixels = MOST_PIXELS if resize else height * (8 * width + 1)
    return pixels + _FILE_EXTRAS


def assert_count(images: tf.Tensor, largest: int) -> tf.Tensor:
    """Returns the images of a request, or fails if there are too many.

    Args:
        images: Images or files, one for each row.
        largest: Largest number of images.
    """
    count = tf.shape(images)[0]
    message = (
        f"A request must hold at most {largest} images: send them in several. "
        "Received: images"
    )
    return _require(count <= largest, message, count, images)


def assert_length(encoded: tf.Tensor, largest: int) -> tf.Tensor:
    """Returns the files of a request, or fails if one is too long.

    Args:
        encoded: Bytes of each file.
        largest: Largest number of bytes.
    """
    length = tf.reduce_max(tf.strings.length(encoded))
    message = (
        f"A file must hold at most {largest} bytes: save it without texts and "
        "previews. Received: bytes"
    )
    return _require(length <= largest, message, length, encoded)


def assert_size(
    file: tf.Tensor, height: int, width: int, *, resize: bool
) -> tf.Tensor:
    """Returns a PNG or JPEG file, or fails if its header's size is wrong.

    Args:
        file: Bytes of the file, a scalar.
        height: Height of the classifier's images.
        width: Width of the classifier's images.
        resize: Whether to accept any size of at most `MOST_PIXELS`.
    """
    size = _size_of(file)
    expected = f"of {height} rows and {width} columns"
    fits = tf.reduce_all(size == [height, width])
    if resize:
        expected = f"of at most {MOST_PIXELS} pixels"
        rows, columns = tf.unstack(tf.cast(size, tf.int64), 2)
        fits = (rows > 0) & (columns > 0) & (rows * columns <= MOST_PIXELS)
    message = (
        f"Each file must be a PNG or a JPEG {expected}. Received (-1: neither "
        "of the two): rows and columns"
    )
    return _require(fits, message, size, file)


def _require(
    condition: tf.Tensor, message: str, received: tf.Tensor, value: tf.Tensor
) -> tf.Tensor:
    """Returns `value`, or fails with the message and the received tensor."""
    check = tf.debugging.Assert(condition, [message, received])
    with tf.control_dependencies([check]):
        return tf.identity(value)


def _size_of(file: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns from a file's header, or -1, -1.

    A PNG starts with 8 fixed bytes, followed by the length, the name, the
    width and the height of IHDR, each of 4 bytes in big-endian order.
    """

    def starts_with(prefix: bytes) -> tf.Tensor:
        return tf.strings.substr(file, 0, len(prefix)) == prefix

    def png_size() -> tf.Tensor:
        is_png = starts_with(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
        is_complete = is_png & (tf.strings.length(file) >= 24)
        header = tf.where(
            is_complete, tf.strings.substr(file, 16, 8), b"\0" * 8
        )
        columns, rows = tf.unstack(
            tf.io.decode_raw(header, tf.int32, little_endian=False), 2
        )
        return tf.stack([rows, columns])

    def jpeg_size() -> tf.Tensor:
        return tf.io.extract_jpeg_shape(file)[:2]

    def no_size() -> tf.Tensor:
        return tf.constant([-1, -1])

    return tf.case(
        [
            (starts_with(b"\x89PNG"), png_size),
            (starts_with(b"\xff\xd8\xff"), jpeg_size),
        ],
        default=no_size,
    )
