"""What a request to a served model may hold, checked inside its graph.

A request that is refused costs little: a file of another size, or a long one,
is not decoded.
"""

from __future__ import annotations

import tensorflow as tf

# Bytes of a file beside its pixels, such as a colour profile and a preview.
# Compressed text in a PNG grows by a factor of a thousand when it is read.
_FILE_EXTRAS = 1 << 17
#: The largest image that is resized; a photograph has fewer pixels.
MOST_PIXELS = 1 << 24


def longest_file(height: int, width: int, *, resize: bool) -> int:
    """Returns how many bytes a file may have.

    Four channels of 16 bits, a byte for each row, and extras; a file that is
    resized has one for each pixel at most.
    """
    pixels = MOST_PIXELS if resize else height * (8 * width + 1)
    return pixels + _FILE_EXTRAS


def assert_count(images: tf.Tensor, largest: int) -> tf.Tensor:
    """Returns the images of a request, or fails where there are too many."""
    count = tf.shape(images)[0]
    check = tf.debugging.Assert(
        count <= largest,
        [
            f"A request must hold at most {largest} images: send them in "
            "several. Received: images",
            count,
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(images)


def assert_length(encoded: tf.Tensor, largest: int) -> tf.Tensor:
    """Returns the files of a request, or fails where one is too long."""
    length = tf.reduce_max(tf.strings.length(encoded))
    check = tf.debugging.Assert(
        length <= largest,
        [
            f"A file must hold at most {largest} bytes: save it without "
            "texts and previews. Received: bytes",
            length,
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(encoded)


def assert_size(
    file: tf.Tensor, height: int, width: int, *, resize: bool
) -> tf.Tensor:
    """Returns a PNG or JPEG file, or fails where its header's size is wrong.

    Args:
        file: Bytes of the file, a scalar.
        height: Rows of the classifier's images.
        width: Columns of them.
        resize: Whether any size is taken that has at most `MOST_PIXELS`.
    """
    size = _size_of(file)
    expected = f"of {height} rows and {width} columns"
    fits = tf.reduce_all(size == [height, width])
    if resize:
        expected = f"of at most {MOST_PIXELS} pixels"
        rows, columns = tf.unstack(tf.cast(size, tf.int64), 2)
        fits = (rows > 0) & (columns > 0) & (rows * columns <= MOST_PIXELS)
    check = tf.debugging.Assert(
        fits,
        [
            f"Each file must be a PNG or a JPEG {expected}. Received (-1: "
            "neither of the two): rows and columns",
            size,
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(file)


def _size_of(file: tf.Tensor) -> tf.Tensor:
    """Returns rows and columns by a file's header; -1 of another format.

    A PNG opens with 8 bytes of its own, then IHDR: its length, name, width
    and height, of 4 bytes each, the highest first.
    """

    def starts_with(prefix):
        return tf.strings.substr(file, 0, len(prefix)) == prefix

    def png_size():
        known = starts_with(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
        enough = known & (tf.strings.length(file) >= 24)
        header = tf.where(enough, tf.strings.substr(file, 16, 8), b"\0" * 8)
        columns, rows = tf.unstack(
            tf.io.decode_raw(header, tf.int32, little_endian=False), 2
        )
        return tf.stack([rows, columns])

    def jpeg_size():
        return tf.io.extract_jpeg_shape(file)[:2]

    def no_size():
        return tf.constant([-1, -1])

    return tf.case(
        [
            (starts_with(b"\x89PNG"), png_size),
            (starts_with(b"\xff\xd8\xff"), jpeg_size),
        ],
        default=no_size,
    )
