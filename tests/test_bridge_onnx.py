"""ONNX graphs as Keras models, against torch's outputs and ONNX's own.

tests/data/bridge has one network in the form of both of torch's exporters.
Single operators are compared with the reference evaluator of the package onnx,
which is written in NumPy.
"""

import pathlib

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf.serving.bridge import verification
from adt_tf.serving.bridge.onnx_graphs import conversion, layers
from tests.support import reference_weights

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")

DATA = pathlib.Path(__file__).parent / "data" / "bridge"
node = onnx.helper.make_node


@pytest.mark.parametrize("exporter", ["dynamo", "traced"])
def test_a_network_of_torch_s_exporters(exporter, tmp_path):
    model = adt_tf.load_classifier(DATA / f"small_resnet_{exporter}.onnx")
    result = verification.verify(model, DATA / "small_resnet.npz")
    assert result.logits < 1e-5 and result.gradients < 1e-4
    assert len(model.trainable_weights) > 10
    model.save(tmp_path / "a.keras")
    loaded = keras.saving.load_model(tmp_path / "a.keras")
    assert verification.verify(loaded, DATA / "small_resnet.npz") == result


def graph(nodes, tensors, shape=("n", 4, 8, 8), output=("n", "k")):
    value = onnx.helper.make_tensor_value_info
    float32 = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        nodes,
        "graph",
        [value("x", float32, shape)],
        [value("y", float32, output)],
        [onnx.numpy_helper.from_array(a, name) for name, a in tensors.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 20)]
    return onnx.helper.make_model(made, opset_imports=opsets)


def weight(name, *shape):
    return reference_weights.weight(name, shape)


def integers(*values):
    return np.array(values, np.int64)


KERNEL = {"w": weight("w", 6, 4, 3, 3), "b": weight("b", 6)}
VECTOR = {"c": weight("c", 4, 1, 1)}

# Each case: nodes from x [n, 4, 8, 8] to a feature map m, and constants.
MAPS = {
    "Conv": ([node("Conv", ["x", "w", "b"], ["m"], pads=[1, 1, 1, 1])], KERNEL),
    "Conv, strides and other pads": (
        [
            node(
                "Conv",
                ["x", "w"],
                ["m"],
                strides=[2, 1],
                pads=[0, 1, 2, 1],
            )
        ],
        {"w": KERNEL["w"]},
    ),
    "Conv, same": (
        [
            node(
                "Conv",
                ["x", "w"],
                ["m"],
                strides=[2, 2],
                auto_pad="SAME_UPPER",
            )
        ],
        {"w": KERNEL["w"]},
    ),
    "Conv, with gaps": (
        [node("Conv", ["x", "w"], ["m"], dilations=[2, 2])],
        {"w": KERNEL["w"]},
    ),
    "Conv, depthwise": (
        [node("Conv", ["x", "w"], ["m"], group=4)],
        {"w": weight("w", 8, 1, 3, 3)},
    ),
    "BatchNormalization": (
        [
            node(
                "BatchNormalization",
                ["x", "g", "b", "mean", "v"],
                ["m"],
                epsilon=0.01,
            )
        ],
        {
            "g": weight("g.weight", 4),
            "b": weight("b", 4),
            "mean": weight("m", 4),
            "v": weight("running_var", 4),
        },
    ),
    "Relu": ([node("Relu", ["x"], ["m"])], {}),
    "LeakyRelu": ([node("LeakyRelu", ["x"], ["m"], alpha=0.2)], {}),
    "PRelu": (
        [node("PRelu", ["x", "s"], ["m"])],
        {"s": weight("s", 4, 1, 1)},
    ),
    "PRelu, one slope": (
        [node("PRelu", ["x", "s"], ["m"])],
        {"s": weight("s", 1)},
    ),
    "Elu": ([node("Elu", ["x"], ["m"], alpha=0.5)], {}),
    "Gelu": ([node("Gelu", ["x"], ["m"])], {}),
    "Gelu, by tanh": ([node("Gelu", ["x"], ["m"], approximate="tanh")], {}),
    "Sigmoid": ([node("Sigmoid", ["x"], ["m"])], {}),
    "Tanh": ([node("Tanh", ["x"], ["m"])], {}),
    "Softplus": ([node("Softplus", ["x"], ["m"])], {}),
    "HardSwish": ([node("HardSwish", ["x"], ["m"])], {}),
    "Clip": (
        [node("Clip", ["x", "low", "high"], ["m"])],
        {"low": np.float32(0), "high": np.float32(0.5)},
    ),
    "Identity": ([node("Identity", ["x"], ["m"])], {}),
    "Dropout": ([node("Dropout", ["x"], ["m"])], {}),
    "Cast": ([node("Cast", ["x"], ["m"], to=onnx.TensorProto.FLOAT)], {}),
    "MaxPool": (
        [
            node(
                "MaxPool",
                ["x"],
                ["m"],
                kernel_shape=[3, 3],
                strides=[2, 2],
                pads=[1, 1, 1, 1],
            )
        ],
        {},
    ),
    "AveragePool": (
        [
            node(
                "AveragePool",
                ["x"],
                ["m"],
                kernel_shape=[2, 2],
                strides=[2, 2],
            )
        ],
        {},
    ),
    "AveragePool, padding counted": (
        [
            node(
                "AveragePool",
                ["x"],
                ["m"],
                kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
                count_include_pad=1,
            )
        ],
        {},
    ),
    "GlobalAveragePool": ([node("GlobalAveragePool", ["x"], ["m"])], {}),
    "GlobalMaxPool": ([node("GlobalMaxPool", ["x"], ["m"])], {}),
    "ReduceMean": (
        [node("ReduceMean", ["x", "axes"], ["m"], keepdims=1)],
        {"axes": integers(2, 3)},
    ),
    "Add": ([node("Add", ["x", "c"], ["m"])], VECTOR),
    "Add of two": (
        [node("Relu", ["x"], ["r"]), node("Add", ["r", "x"], ["m"])],
        {},
    ),
    "Sub": ([node("Sub", ["x", "c"], ["m"])], VECTOR),
    "Sub from a constant": ([node("Sub", ["c", "x"], ["m"])], VECTOR),
    "Mul": ([node("Mul", ["c", "x"], ["m"])], VECTOR),
    "Mul by a gate": (
        [
            node("GlobalAveragePool", ["x"], ["g"]),
            node("Mul", ["x", "g"], ["m"]),
        ],
        {},
    ),
    "Div": ([node("Div", ["x", "c"], ["m"])], VECTOR),
    "Concat": (
        [node("Relu", ["x"], ["r"]), node("Concat", ["x", "r"], ["m"], axis=1)],
        {},
    ),
    "Pad": (
        [node("Pad", ["x", "pads"], ["m"])],
        {"pads": integers(0, 0, 1, 2, 0, 0, 3, 0)},
    ),
    "Transpose there and back": (
        [
            node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
            node("Add", ["t", "c"], ["u"]),
            node("Transpose", ["u"], ["m"], perm=[0, 3, 1, 2]),
        ],
        {"c": weight("c", 4)},
    ),
}

# From x to features y.
FEATURES = {
    "Flatten": ([node("Flatten", ["x"], ["y"])], {}),
    "Reshape": (
        [node("Reshape", ["x", "shape"], ["y"])],
        {"shape": integers(0, -1)},
    ),
    "Reshape by a computed shape": (
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"], axis=0),
            node("Unsqueeze", ["n", "axis"], ["u"]),
            node("Concat", ["u", "rest"], ["shape"], axis=0),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"zero": np.int64(0), "axis": integers(0), "rest": integers(-1)},
    ),
    "Squeeze": (
        [
            node("GlobalAveragePool", ["x"], ["p"]),
            node("Squeeze", ["p", "axes"], ["y"]),
        ],
        {"axes": integers(2, 3)},
    ),
    "ReduceMean without axes": (
        [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        {"axes": integers(-1, -2)},
    ),
    "Gemm": (
        [
            node("Flatten", ["x"], ["f"]),
            node("Gemm", ["f", "w", "b"], ["y"], transB=1, alpha=0.5, beta=2.0),
        ],
        {"w": weight("w", 5, 256), "b": weight("b", 5)},
    ),
    "MatMul and Add": (
        [
            node("Flatten", ["x"], ["f"]),
            node("MatMul", ["f", "w"], ["p"]),
            node("Add", ["p", "b"], ["y"]),
        ],
        {"w": weight("w", 256, 5), "b": weight("b", 5)},
    ),
    "Softmax": (
        [
            node("GlobalAveragePool", ["x"], ["p"]),
            node("Flatten", ["p"], ["f"]),
            node("Softmax", ["f"], ["y"], axis=1),
        ],
        {},
    ),
    "features of a map in NHWC": (
        [
            node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
            node("Flatten", ["t"], ["y"]),
        ],
        {},
    ),
}

CASES = {
    **{
        name: ([*nodes, node("Flatten", ["m"], ["y"])], tensors)
        for name, (nodes, tensors) in MAPS.items()
    },
    **FEATURES,
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator(name, tmp_path):
    model = graph(*CASES[name])
    images = reference_weights.images((2, 4, 8, 8)) - 0.5
    (expected,) = reference.ReferenceEvaluator(model).run(None, {"x": images})
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    converted = conversion.load(path)
    outputs = converted(images.transpose(0, 2, 3, 1), training=False)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_every_operator_has_a_case():
    used = {n.op_type for nodes, _ in CASES.values() for n in nodes}
    assert set(layers.OPERATORS) <= used


def test_images_in_tensorflow_s_order(tmp_path):
    """tf2onnx gives NHWC images and turns them itself."""
    model = graph(
        [
            node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
            node("Conv", ["t", "w"], ["c"]),
            node("Transpose", ["c"], ["u"], perm=[0, 2, 3, 1]),
            node("Flatten", ["u"], ["y"]),
        ],
        {"w": weight("w", 6, 3, 3, 3)},
        shape=("n", 8, 8, 3),
    )
    images = reference_weights.images((2, 8, 8, 3))
    (expected,) = reference.ReferenceEvaluator(model).run(None, {"x": images})
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    converted = conversion.load(path)
    assert converted.input_shape == (None, 8, 8, 3)
    np.testing.assert_allclose(converted(images), expected, atol=1e-5)


def test_open_sizes_are_given(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("GlobalAveragePool", ["c"], ["p"]),
        node("Flatten", ["p"], ["y"]),
    ]
    tensors = {"w": weight("w", 5, 4, 3, 3)}
    path = tmp_path / "a.onnx"
    model = graph(nodes, tensors, ("n", 4, "h", "w_"))
    path.write_bytes(model.SerializeToString())
    converted = conversion.load(path, input_shape=(9, 7, 4))
    assert converted.input_shape == (None, 9, 7, 4)
    with pytest.raises(ValueError, match="its images are"):
        conversion.load(path, input_shape=(9, 7, 3))


@pytest.mark.parametrize(
    ("nodes", "tensors", "pattern"),
    [
        (
            [node("Div", ["c", "x"], ["m"])],
            VECTOR,
            "a Div by a value that depends on the images",
        ),
        (
            [node("Transpose", ["x"], ["m"], perm=[0, 1, 3, 2])],
            {},
            r"a Transpose to the order \[0, 1, 3, 2\]",
        ),
        (
            [node("Add", ["x", "c"], ["m"])],
            {"c": weight("c", 4, 8, 8)},
            r"an? Add with a constant of shape \[4, 8, 8\]",
        ),
        (
            [
                node(
                    "AveragePool",
                    ["x"],
                    ["m"],
                    kernel_shape=[3, 3],
                    pads=[1, 1, 1, 1],
                )
            ],
            {},
            "leaves its padding out of the mean",
        ),
        (
            [node("Conv", ["x", "w"], ["m"])],
            {"w": weight("w", 6, 3, 3, 3)},
            "a Conv of 3 channels, not 4",
        ),
    ],
    ids=["quotient", "order", "constant", "mean", "channels"],
)
def test_what_is_not_converted_is_named(nodes, tensors, pattern, tmp_path):
    path = tmp_path / "a.onnx"
    model = graph([*nodes, node("Flatten", ["m"], ["y"])], tensors)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=pattern):
        conversion.load(path)
