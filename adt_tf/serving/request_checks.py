"""Checks of a request to a served model, inside its graph.

A refused request costs little: a file that is too long or of another size is
not decoded.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        "Received: {} images"
    )
    return _require(count <= largest, message, [count], images)


def assert_length(file: tf.Tensor, index: tf.Tensor, largest: int) -> tf.Tensor:
    """Returns a file, or fails if it is too long.

    Args:
        file: Bytes of the file, a scalar.
        index: Index of the file in its request, for the message.
        largest: Largest number of bytes.
    """
    length = tf.strings.length(file)
    message = (
        f"Each file must hold at most {largest} bytes: save it without texts "
        "and previews. Received: file {} (counted from 0) of {} bytes"
    )
    return _require(length <= largest, message, [index, length], file)


def assert_size(
    file: tf.Tensor,
    index: tf.Tensor,
    height: int,
    width: int,
    *,
    resize: bool,
) -> tf.Tensor:
    """Returns a PNG or JPEG file, or fails if its header's size is wrong.

    Args:
        file: Bytes of the file, a scalar.
        index: Index of the file in its request, for the message.
        height: Height of the classifier's images.
        width: Width of the classifier's images.
        resize: Whether to accept any size of at most `MOST_PIXELS`.
    """
    size = _size_of(file)
    rows, columns = tf.unstack(tf.cast(size, tf.int64), 2)
    if resize:
        expected = f"of at most {MOST_PIXELS} pixels"
        fits = (rows > 0) & (columns > 0) & (rows * columns <= MOST_PIXELS)
    else:
        expected = (
            f"of {height} rows and {width} columns (a model exported with "
            "--resize or resize=True takes other sizes too)"
        )
        fits = tf.reduce_all(size == [height, width])
    start = f"Each file must be a PNG or a JPEG {expected}. Received: "
    start += "file {} (counted from 0), which "
    # A file that is no image has the size (-1, -1).
    file = _require(rows != -1, start + "is neither of the two", [index], file)
    end = "has {} rows and {} columns"
    return _require(fits, start + end, [index, rows, columns], file)


def _require(
    condition: tf.Tensor,
    message: str,
    received: Sequence[tf.Tensor],
    value: tf.Tensor,
) -> tf.Tensor:
    """Returns `value`, or fails with a message.

    Args:
        condition: Whether the value is accepted, a scalar.
        message: Message with {} for each received number.
        received: Numbers in the message.
        value: Result.
    """
    # `Assert` prints each tensor in brackets, so the message is one tensor.
    text = tf.strings.format(message, list(received))
    check = tf.debugging.Assert(condition, [text])
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
