"""Writes a SavedModel that serves floats, uint8 images and encoded files.

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
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks, data, files
from adt_tf.checks import arguments
from adt_tf.data.images import validate_class_names
from adt_tf.serving import request_checks
from adt_tf.training.trainer import AdversarialTrainer


def export(
    classifier: keras.Model,
    path: str | pathlib.Path,
    *,
    max_images: int = 4096,
    class_names: Sequence[str] | None = None,
    resize: bool = False,
) -> None:
    """Writes a classifier as a SavedModel.

    Each signature takes at most `max_images` `images` and returns `logits`,
    `probabilities` and `label`; `serving_bytes` also returns `class_name`. The
    model itself scales to [0, 1]. An image with a NaN or an infinite value
    gets NaN and the label -1. A request is refused if one of its files is not
    a PNG or JPEG, has another size than the classifier's images, or is longer
    than its uncompressed pixels plus 128 KiB. Such a file is not decoded, so
    that a small request cannot take much memory or time.

    Args:
        classifier: A built Keras model from images in [0, 1] to logits, or
            its trainer.
        path: A directory that does not exist yet, or is empty.
        max_images: Largest number of images in one request.
        class_names: A name for each class, or None to use its number.
        resize: Whether to resize files of other sizes, of at most 16
            megapixels and 16 MiB, to the size of the classifier's images. The
            method is that of image folders: bilinear, with antialiasing.
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
    height, width, channels = image_shape(classifier)
    names = _names(classifier, class_names)

    shape = [None, height, width, channels]

    def serve(images: tf.Tensor) -> dict[str, tf.Tensor]:
        # A convolution of another rank would end the process.
        images = request_checks.assert_count(
            tf.ensure_shape(images, shape), max_images
        )
        logits = classifier(images, training=False)
        logits = checks.as_logits(logits, classifier)
        # A ReLU may turn NaN into 0, of which argmax would return a class.
        finite = tf.reduce_all(tf.math.is_finite(images), axis=[1, 2, 3])
        finite &= tf.reduce_all(tf.math.is_finite(logits), axis=-1)
        logits = tf.where(finite[:, tf.newaxis], logits, float("nan"))
        label = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.where(finite, label, -1),
        }

    def serve_uint8(images: tf.Tensor) -> dict[str, tf.Tensor]:
        images = request_checks.assert_count(
            tf.ensure_shape(images, shape), max_images
        )
        return serve(data.scale_images(images))

    def decode(indexed: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        index, file = indexed
        longest = request_checks.longest_file(height, width, resize=resize)
        file = request_checks.assert_length(file, index, longest)
        file = request_checks.assert_size(
            file, index, height, width, resize=resize
        )
        # It decodes PNG too, and JPEG with the pixels that Pillow, which reads
        # the images of folders, returns.
        image = tf.io.decode_jpeg(
            file, channels=channels, dct_method="INTEGER_ACCURATE"
        )
        if resize:
            image = _resized(
                tf.ensure_shape(image, [None, None, channels]), height, width
            )
        return tf.ensure_shape(image, [height, width, channels])

    def serve_bytes(images: tf.Tensor) -> dict[str, tf.Tensor]:
        encoded = request_checks.assert_count(
            tf.ensure_shape(images, [None]), max_images
        )
        decoded = tf.map_fn(
            decode,
            (tf.range(tf.shape(encoded)[0]), encoded),
            fn_output_signature=tf.TensorSpec(shape[1:], tf.uint8),
            # Only one large image is in memory at a time.
            parallel_iterations=1 if resize else None,
        )
        outputs = serve_uint8(decoded)
        # The label -1, of an image that is not finite, has no name.
        name = tf.gather(tf.constant(["", *names]), outputs["label"] + 1)
        return {**outputs, "class_name": name}

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


def _resized(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Resizes a uint8 image as Pillow does: first rows, and each pass rounds.

    Args:
        image: Image [rows, columns, channels].
        height: Height of the result.
        width: Width of the result.
    """
    for size in ((tf.shape(image)[0], width), (height, width)):
        image = tf.image.resize(image, size, antialias=True)
        image = tf.clip_by_value(tf.floor(image + 0.5), 0, 255)
        image = tf.cast(image, tf.uint8)
    return image


def _names(
    classifier: keras.Model, class_names: Sequence[str] | None
) -> tuple[str, ...]:
    """Returns a name for each class, or raises if their number is wrong."""
    count = checks.num_classes(classifier)
    if count is None:
        image = tf.zeros([1, *image_shape(classifier)])
        logits = classifier(image, training=False)
        count = checks.as_logits(logits, classifier).shape[-1]
    if class_names is None:
        return tuple(map(str, range(count)))
    return validate_class_names(class_names, count)


def image_shape(classifier: keras.Model) -> tuple[int, int, int]:
    """Returns height, width and channels of a classifier's images.

    Args:
        classifier: A built Keras model.
    """
    try:
        shape = tuple(classifier.input_shape)
    except AttributeError:
        config = classifier.get_build_config() or {}
        shape = tuple(config.get("input_shape") or ())
    if len(shape) != 4 or None in shape[1:]:
        raise ValueError(
            "The classifier must have a fixed image shape (height, width, "
            f"channels) to be exported. Received: input shape {shape}. Start "
            "it with `keras.Input((32, 32, 3))`, or build it with "
            "`classifier.build((None, 32, 32, 3))`."
        )
    return shape[1:]


def verify(
    path: str | pathlib.Path, images: np.ndarray, logits: np.ndarray
) -> float:
    """Checks a SavedModel in another process, without adt_tf.

    Args:
        path: Directory that `export` wrote.
        images: Floats [batch, height, width, channels] in [0, 1].
        logits: Logits of the classifier for these images.

    Returns:
        The largest error of a logit.

    Raises:
        ValueError: The signatures disagree with each other or with `logits`.
    """
    with tempfile.TemporaryDirectory() as folder:
        expected = pathlib.Path(folder) / "expected.npz"
        np.savez(expected, images=images, logits=logits)
        process = subprocess.run(
            [sys.executable, "-c", _LOAD, os.path.abspath(path), str(expected)],
            # The interpreter looks for modules here first.
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if process.returncode:
        raise ValueError(
            f"The SavedModel in {path} does not load or serves other results "
            f"than the classifier: {_last_line(process.stderr)}"
        )
    return float(process.stdout.split()[-1])


def _last_line(text: str) -> str:
    """Returns the last line of a process's errors, which says why it ended."""
    return (text.strip().splitlines() or ["no message"])[-1][:500]


# Runs in a new interpreter, in which this package cannot be imported.
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
