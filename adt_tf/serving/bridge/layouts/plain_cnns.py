"""Plain networks for digits: TRADES' SmallCNN and LeNet-5.

In PyTorch's names:

    feature_extractor.{conv1, conv2, conv3, conv4}, classifier.{fc1, fc2, fc3}
    conv1, conv2, fc1, fc2[, fc3]

LeNet has the widths of the file. The number of inputs of its first dense layer
shows whether its first convolution is padded. `lenet5` has three dense layers;
`lenet`, of PyTorch's and Caffe's examples for MNIST, has two.
"""

from __future__ import annotations

import keras

from adt_tf.networks.plain_cnns import lenet5, trades_small_cnn
from adt_tf.serving.bridge.layouts.base import Layout, Request, Shapes

_LAST = "classifier.fc3.weight"


def _recognize_small_cnn(shapes: Shapes) -> list[str]:
    first = "feature_extractor.conv1.weight"
    return ["trades_small_cnn"] if first in shapes and _LAST in shapes else []


def _build_small_cnn(request: Request) -> keras.Model:
    return trades_small_cnn(
        input_shape=request.image_shape("feature_extractor.conv1.weight"),
        num_classes=request.num_classes(_LAST),
        normalization=request.normalization,
    )


def _dense_shapes(shapes: Shapes) -> list[tuple[int, ...]]:
    """Returns the shapes of fc1, fc2, ... while each fits the one before."""
    dense: list[tuple[int, ...]] = []
    while True:
        shape = shapes.get(f"fc{len(dense) + 1}.weight", ())
        if len(shape) != 2 or (dense and shape[1] != dense[-1][0]):
            return dense
        dense.append(shape)


def _recognize_lenet(shapes: Shapes) -> list[str]:
    return ["lenet"] if _is_lenet(shapes, num_dense=2) else []


def _recognize_lenet5(shapes: Shapes) -> list[str]:
    return ["lenet5"] if _is_lenet(shapes, num_dense=3) else []


def _is_lenet(shapes: Shapes, num_dense: int) -> bool:
    first, second = (shapes.get(f"conv{i}.weight", ()) for i in (1, 2))
    dense = _dense_shapes(shapes)
    return (
        first[2:] == (5, 5)
        and second[1:] == (*first[:1], 5, 5)
        and len(dense) == num_dense
        and dense[0][1] % second[0] == 0
    )


def _build_lenet(request: Request) -> keras.Model:
    shapes = request.shapes
    dense = _dense_shapes(shapes)
    input_shape = request.image_shape("conv1.weight")
    num_dense = 3 if request.options["five"] else 2
    if not _is_lenet(shapes, num_dense):
        return lenet5(
            input_shape=input_shape,
            units=(120, 84)[: num_dense - 1],
            normalization=request.normalization,
        )
    filters = shapes["conv1.weight"][0], shapes["conv2.weight"][0]
    return lenet5(
        input_shape=input_shape,
        num_classes=dense[-1][0],
        filters=filters,
        units=[shape[0] for shape in dense[:-1]],
        padding=_padding(input_shape, dense[0][1] // filters[1]),
        normalization=request.normalization,
    )


def _padding(input_shape: tuple[int, ...], num_positions: int) -> int | None:
    """Returns the padding with which fc1 sees `num_positions`, or None."""
    for padding in (0, 2):
        height, width = (
            ((size + 2 * padding - 4) // 2 - 4) // 2 for size in input_shape[:2]
        )
        if height * width == num_positions:
            return padding
    return None


SMALL_CNN = Layout(
    name="trades_small_cnn",
    pattern=r"trades-?small-?cnn",
    recognize=_recognize_small_cnn,
    build=_build_small_cnn,
    modules={
        r"feature_extractor\.conv(?P<i>\d)": "convolution{i}",
        r"classifier\.fc(?P<i>[12])": "dense{i}",
        r"classifier\.fc3": "logits",
    },
)

LENET5 = Layout(
    name="lenet5",
    pattern=r"lenet-?(?P<five>5)",
    recognize=_recognize_lenet5,
    build=_build_lenet,
    modules={
        r"conv(?P<i>[12])": "convolution{i}",
        r"fc(?P<i>[12])": "dense{i}",
        r"fc3": "logits",
    },
)

LENET = Layout(
    name="lenet",
    pattern=r"lenet(?P<five>5)?",
    recognize=_recognize_lenet,
    build=_build_lenet,
    modules={
        r"conv(?P<i>[12])": "convolution{i}",
        r"fc1": "dense1",
        r"fc2": "logits",
    },
)
