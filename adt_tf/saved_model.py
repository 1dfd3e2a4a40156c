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
import shutil
import subprocess
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

from adt_tf import checks, data


def export(classifier: keras.Model, path: str | pathlib.Path) -> None:
    """Writes a classifier as a SavedModel.

    Each signature takes `images`, any number of them, and returns `logits`,
    `probabilities` and `label`. Scaling to [0, 1] is inside.

    Args:
        classifier: A Keras model from images in [0, 1] to logits, which has
            seen its input shape (built, or called once).
        path: A directory that does not exist yet, or is empty.
    """
    path = pathlib.Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(
            "Argument `path` must be a new or an empty directory, so that "
            f"nothing is overwritten. Received: path={str(path)!r}"
        )
    checks.check_classifier(classifier)
    height, width, channels = _image_shape(classifier)

    def serve(images):
        logits = tf.cast(classifier(images, training=False), tf.float32)
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "label": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }

    def serve_uint8(images):
        return serve(data.scale_images(images))

    def decode(file):
        image = tf.io.decode_image(
            file, channels=channels, expand_animations=False
        )
        return tf.ensure_shape(image, [height, width, channels])

    def serve_bytes(images):
        return serve_uint8(
            tf.map_fn(decode, images, fn_output_signature=tf.uint8)
        )

    shape = [None, height, width, channels]
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
    # Written beside, then renamed: a killed process leaves nothing half done.
    partial = path.with_name(f"partial-{path.name}")
    shutil.rmtree(partial, ignore_errors=True)
    archive.write_out(str(partial), verbose=False)
    if path.exists():
        path.rmdir()
    os.replace(partial, path)


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
            [sys.executable, "-c", _LOAD, str(path), str(expected)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ValueError(
            f"The SavedModel in {path} does not load or serves other results "
            f"than the classifier: {done.stderr.strip()[-500:]}"
        )
    return float(done.stdout.split()[-1])


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

expected = np.load(sys.argv[2])
served = tf.saved_model.load(sys.argv[1]).signatures
answer = served["serving_default"](images=tf.constant(expected["images"]))
error = np.abs(answer["logits"] - expected["logits"]).max()
assert error < 1e-3, f"the logits differ by {error}"
bytes_in = np.round(expected["images"] * 255).astype(np.uint8)
plain = served["serving_uint8"](images=tf.constant(bytes_in))
files = tf.stack([tf.io.encode_png(image) for image in bytes_in])
decoded = served["serving_bytes"](images=files)
scaled = (bytes_in / 255).astype(np.float32)
floats = served["serving_default"](images=tf.constant(scaled))
for name, other in (("uint8", plain), ("PNG", decoded)):
    gap = np.abs(floats["logits"] - other["logits"]).max()
    assert gap < 1e-3, f"floats and {name} differ by {gap}"
one = served["serving_default"](images=tf.constant(expected["images"][:1]))
assert one["label"].shape == (1,)
print(error)
"""
