"""A SavedModel that serves floats, uint8 images and encoded files.

export(classifier, "saved_model")
served = tf.saved_model.load("saved_model")        # no adt_tf needed
served.signatures["serving_default"](images=x)     # floats in [0, 1]
served.signatures["serving_uint8"](images=x)       # 0..255
served.signatures["serving_bytes"](images=files)   # PNG or JPEG bytes
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks, data, files
from adt_tf.checks import arguments
from adt_tf.trainer import AdversarialTrainer

# Bytes of a file beside its pixels, such as a colour profile and a preview.
# Compressed text in a PNG grows by a factor of a thousand when it is read.
_FILE_EXTRAS = 1 << 17


def export(
    classifier: keras.Model,
    path: str | pathlib.Path,
    *,
    max_images: int = 4096,
) -> None:
    """Writes a classifier as a SavedModel.

    Each signature takes `images`, up to `max_images` of them, and returns
    `logits`, `probabilities` and `label`. Scaling to [0, 1] is inside. An
    image with a NaN or an infinite value gets NaN and the label -1. A file is
    refused, with the whole request, if it is no PNG or JPEG, if its header
    gives another size than the classifier's, or if it is longer than its
    pixels without compression and 128 KiB: it is not decoded then, so that a
    small request cannot ask for much memory or time.

    Args:
        classifier: A Keras model from images in [0, 1] to logits, which has
            seen its input shape (built, or called once); or the trainer of
            one.
        path: A directory that does not exist yet, or is empty.
        max_images: Largest number of images in one request.
    """
    arguments.integer_at_least(1, max_images=max_images)
    path = pathlib.Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            "Argument `path` must be a new or an empty directory, so that "
            f"nothing is overwritten. Received: path={str(path)!r}"
        )
    if isinstance(classifier, AdversarialTrainer):
        classifier = classifier.classifier
    checks.check_classifier(classifier)
    height, width, channels = _image_shape(classifier)

    shape = [None, height, width, channels]

    def serve(images):
        # A convolution of another rank ends the whole process.
        images = _assert_count(tf.ensure_shape(images, shape), max_images)
        logits = classifier(images, training=False)
        logits = checks.as_logits(logits, classifier)
        # A ReLU may turn NaN into 0, and argmax makes a class of it.
        finite = tf.reduce_all(tf.math.is_finite(images), axis=[1, 2, 3])
        finite &= tf.reduce_all(tf.math.is_finite(logits), axis=-1)
        logits = tf.where(finite[:, tf.newaxis], logits, float("nan"))
        label = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.where(finite, label, -1),
        }

    def serve_uint8(images):
        images = _assert_count(tf.ensure_shape(images, shape), max_images)
        return serve(data.scale_images(images))

    def decode(file):
        file = _assert_size(file, height, width)
        image = tf.io.decode_image(
            file, channels=channels, expand_animations=False
        )
        return tf.ensure_shape(image, [height, width, channels])

    def serve_bytes(images):
        encoded = _assert_count(tf.ensure_shape(images, [None]), max_images)
        # Four channels of 16 bits, and a byte for each row.
        raw_size = height * (8 * width + 1)
        encoded = _assert_length(encoded, raw_size + _FILE_EXTRAS)
        spec = tf.TensorSpec([height, width, channels], tf.uint8)
        decoded = tf.map_fn(decode, encoded, fn_output_signature=spec)
        return serve_uint8(decoded)

    archive = keras.export.ExportArchive()
    archive.track(classifier)
    for name, function, spec in (
        ("serving_default", serve, tf.TensorSpec(shape, tf.float32, "images")),
        (
            "serving_uint8",
            serve_uint8,
            tf.TensorSpec(shape, tf.uint8, "images"),
        ),
        (
            "serving_bytes",
            serve_bytes,
            tf.TensorSpec([None], tf.string, "images"),
        ),
    ):
        archive.add_endpoint(name, function, input_signature=[spec])
    with files.atomic_write(path) as partial:
        archive.write_out(str(partial), verbose=False)


def _assert_count(images: tf.Tensor, largest: int) -> tf.Tensor:
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


def _assert_length(encoded: tf.Tensor, largest: int) -> tf.Tensor:
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


def _assert_size(file: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Returns a PNG or JPEG file, or fails if its header gives another size.

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

    size = tf.case(
        [
            (starts_with(b"\x89PNG"), png_size),
            (starts_with(b"\xff\xd8\xff"), jpeg_size),
        ],
        default=no_size,
    )
    check = tf.debugging.Assert(
        tf.reduce_all(size == [height, width]),
        [
            f"Each file must be a PNG or a JPEG of {height} rows and {width} "
            "columns. Received (-1: neither of the two): rows and columns",
            size,
        ],
    )
    with tf.control_dependencies([check]):
        return tf.identity(file)


def _image_shape(classifier: keras.Model) -> tuple[int, int, int]:
    try:
        shape = tuple(classifier.input_shape)
    except AttributeError:
        config = classifier.get_build_config() or {}
        shape = tuple(config.get("input_shape") or ())
    if len(shape) != 4 or None in shape[1:]:
        raise ValueError(
            "The classifier must know its image size before it is exported "
            f"(height, width, channels). Received: input shape {shape}; start "
            "it with `keras.Input((32, 32, 3))`, or build it with "
            "`classifier.build((None, 32, 32, 3))`."
        )
    return shape[1:]


def verify(
    path: str | pathlib.Path, images: np.ndarray, logits: np.ndarray
) -> float:
    """Loads a SavedModel in a process of its own, without adt_tf.

    Raises where its signatures do not agree with each other and with the
    expected logits; returns the largest error.

    Args:
        path: What `export` wrote.
        images: Floats [batch, height, width, channels] in [0, 1].
        logits: The classifier's own for these images.
    """
    with tempfile.TemporaryDirectory() as folder:
        expected = pathlib.Path(folder) / "expected.npz"
        np.savez(expected, images=images, logits=logits)
        done = subprocess.run(
            [sys.executable, "-c", _LOAD, os.path.abspath(path), str(expected)],
            # Where the interpreter looks for modules first.
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ValueError(
            f"The SavedModel in {path} does not load or serves other results "
            f"than the classifier: {_last_line(done.stderr)}"
        )
    return float(done.stdout.split()[-1])


def _last_line(text: str) -> str:
    """Returns what a process told last, which is what has ended it."""
    return (text.strip().splitlines() or ["it told nothing"])[-1][:500]


# Runs in a fresh interpreter that must do without this package.
_LOAD = """
import sys

class NoAdtTf:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "adt_tf":
            raise ImportError("a served model must not need adt_tf")

sys.meta_path.insert(0, NoAdtTf())
import numpy as np
import tensorflow as tf

expected = np.load(sys.argv[2], allow_pickle=False)
served = tf.saved_model.load(sys.argv[1]).signatures
answer = served["serving_default"](images=tf.constant(expected["images"]))
error = np.abs(answer["logits"] - expected["logits"]).max()
if not error < 1e-3:
    sys.exit(f"the logits differ by {error}")
bytes_in = np.round(expected["images"] * 255).astype(np.uint8)
plain = served["serving_uint8"](images=tf.constant(bytes_in))
files = tf.stack([tf.io.encode_png(image) for image in bytes_in])
decoded = served["serving_bytes"](images=files)
scaled = (bytes_in / 255).astype(np.float32)
floats = served["serving_default"](images=tf.constant(scaled))
for name, other in (("uint8", plain), ("PNG", decoded)):
    gap = np.abs(floats["logits"] - other["logits"]).max()
    if not gap < 1e-3:
        sys.exit(f"floats and {name} differ by {gap}")
one = served["serving_default"](images=tf.constant(expected["images"][:1]))
if one["label"].shape != (1,):
    sys.exit(f"the label of one image has the shape {one['label'].shape}")
print(error)
"""
