"""Warm-up requests, which TensorFlow Serving sends to a model first.

    write("model/1", "digits", (8, 8, 1))
    read("model/1")[0].predict_log.request.model_spec.signature_name

The first request of each shape takes longest, because TensorFlow then selects
the kernels. The messages come from tensorflow-serving-api, 250 kB of Python
whose requirements TensorFlow itself satisfies.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

#: Path that TensorFlow Serving reads inside the directory of a version.
FILE = pathlib.Path("assets.extra", "tf_serving_warmup_requests")

# Numbers of images in a request.
_BATCHES = (1, 8)


def write(
    version: str | os.PathLike, name: str, image_shape: tuple[int, int, int]
) -> int:
    """Writes requests for each signature that `saved_model.export` writes.

    The images are noise, so that no training image is published.

    Args:
        version: Directory of the SavedModel.
        name: Name of the served model.
        image_shape: Height, width and channels.

    Returns:
        The number of requests.
    """
    generator = np.random.default_rng(0)
    requests = []
    for count in _BATCHES:
        size = (count, *image_shape)
        pixels = generator.integers(0, 256, size).astype(np.uint8)
        inputs: dict[str, np.ndarray] = {
            "serving_default": (pixels / 255).astype(np.float32),
            "serving_uint8": pixels,
            "serving_bytes": np.array(_encode(pixels), object),
        }
        requests += [
            _request(name, signature, images)
            for signature, images in inputs.items()
        ]
    path = pathlib.Path(version) / FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for request in requests:
            writer.write(request.SerializeToString())
    return len(requests)


def read(version: str | os.PathLike) -> list[Any]:
    """Returns the requests as `PredictionLog` messages.

    Args:
        version: Directory of the SavedModel.
    """
    records = tf.data.TFRecordDataset(str(pathlib.Path(version) / FILE))
    return [
        prediction_log_pb2.PredictionLog.FromString(record)
        for record in records.as_numpy_iterator()
    ]


def _encode(pixels: np.ndarray) -> list[bytes]:
    """Returns images as PNG files."""
    return [tf.io.encode_png(image).numpy() for image in pixels]


def _request(name: str, signature: str, images: np.ndarray) -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    request.inputs["images"].CopyFrom(tf.make_tensor_proto(images))
    log = prediction_log_pb2.PredictLog(request=request)
    return prediction_log_pb2.PredictionLog(predict_log=log)
