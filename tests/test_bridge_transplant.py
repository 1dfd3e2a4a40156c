"""Weights put into models by order and shape, against torch's outputs."""

import pathlib
import pickle

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf.serving.bridge import verification
from tests.support import reference_weights

DATA = pathlib.Path(__file__).parent / "data" / "bridge"
layers = keras.layers


def small_resnet(*, epsilon=1e-5, named=False):
    """SmallResNet of benchmarks/peers/authors_layouts.py, in Keras."""

    def name(text):
        return text if named else None

    def convolution(x, filters, size, strides=1, bias=True, label=None):
        if size > 1:
            x = layers.ZeroPadding2D(size // 2)(x)
        return layers.Conv2D(
            filters, size, strides=strides, use_bias=bias, name=name(label)
        )(x)

    def normalization(x, label):
        return layers.BatchNormalization(epsilon=epsilon, name=name(label))(x)

    images = keras.Input((32, 32, 3))
    x = layers.Normalization(
        mean=[0.5, 0.4, 0.3], variance=np.square([0.2, 0.3, 0.4])
    )(images)
    x = layers.LeakyReLU(0.1)(convolution(x, 8, 5, 2, label="stem"))
    x = layers.MaxPooling2D(3, 2)(
        keras.ops.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-9)
    )
    y = convolution(x, 16, 3, 2, bias=False, label="conv1")
    y = layers.ReLU()(normalization(y, "bn1"))
    y = normalization(convolution(y, 16, 3, bias=False, label="conv2"), "bn2")
    shortcut = convolution(x, 16, 1, 2, bias=False, label="shortcut")
    y = layers.Add()([y, normalization(shortcut, "shortcut_bn")])
    x = layers.ReLU()(y)
    x = layers.DepthwiseConv2D(3, padding="same", name=name("depthwise"))(x)
    x = layers.Activation("silu")(x)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
    gate = layers.ReLU()(convolution(gate, 4, 1, label="squeeze"))
    gate = convolution(gate, 16, 1, label="excite")
    x = layers.Multiply()([x, layers.Activation("sigmoid")(gate)])
    x = layers.Flatten()(layers.AveragePooling2D(2)(x))
    x = layers.Dropout(0.5)(x)
    x = layers.ReLU(6.0)(layers.Dense(20, name=name("fc1"))(x))
    return keras.Model(images, layers.Dense(10, name=name("fc2"))(x))


@pytest.mark.parametrize("named", [False, True])
def test_a_residual_network(named):
    model = small_resnet(named=named)
    matches = adt_tf.transplant(
        DATA / "small_resnet.pt", model, skip=["mean", "std"]
    )
    result = verification.verify(model, DATA / "small_resnet.npz")
    assert result.logits < 1e-5 and result.gradients < 1e-4
    assert len(matches) == 12
    if named:
        assert all(layer == module for layer, module in matches.items())


def test_entries_that_are_no_weights_are_named():
    model = small_resnet()
    before = [weight.numpy() for weight in model.weights]
    with pytest.raises(ValueError, match="not weights: mean, std.*skip="):
        adt_tf.transplant(DATA / "small_resnet.pt", model)
    with pytest.raises(ValueError, match="not weights: std"):
        adt_tf.transplant(DATA / "small_resnet.pt", model, skip="mean")
    with pytest.raises(ValueError, match="'\\*.gamma', which fits none"):
        adt_tf.transplant(DATA / "small_resnet.pt", model, skip="*.gamma")
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_keras_defaults_that_differ_from_torch_s_are_told():
    model = small_resnet(epsilon=1e-3)
    with pytest.warns(UserWarning, match="epsilon 1e-3; PyTorch's .* 1e-5"):
        adt_tf.transplant(DATA / "small_resnet.pt", model, skip=["mean", "std"])
    with pytest.raises(ValueError, match="differ from the reference's by"):
        verification.verify(model, DATA / "small_resnet.npz")


def test_a_padding_that_differs_from_torch_s_is_told(tmp_path):
    model = keras.Sequential(
        [keras.Input((8, 8, 2)), layers.Conv2D(4, 3, strides=2, padding="same")]
    )
    path = saved(tmp_path, {"c.weight": (4, 2, 3, 3), "c.bias": (4,)})
    with pytest.warns(UserWarning, match="differs from PyTorch's padding"):
        adt_tf.transplant(path, model)


def saved(folder, shapes):
    arrays = {n: reference_weights.weight(n, s) for n, s in shapes.items()}
    path = folder / "a.pkl"
    path.write_bytes(pickle.dumps(arrays, 2))
    return path


BRANCHES = {
    "left.weight": (4, 4, 3, 3),
    "left.bias": (4,),
    "right.weight": (4, 4, 3, 3),
    "right.bias": (4,),
    "fc.weight": (2, 4),
    "fc.bias": (2,),
}


def branches(first="a", second="b"):
    images = keras.Input((8, 8, 4))
    parts = [
        layers.Conv2D(4, 3, padding="same", name=name, activation=activation)(
            images
        )
        for name, activation in ((first, "relu"), (second, "tanh"))
    ]
    x = layers.GlobalAveragePooling2D()(layers.Add()(parts))
    return keras.Model(images, layers.Dense(2, name="logits")(x))


def test_an_ambiguous_match_is_refused_with_a_table(tmp_path):
    path = saved(tmp_path, BRANCHES)
    with pytest.raises(ValueError) as error:
        adt_tf.transplant(path, branches())
    message = str(error.value)
    assert "a, b all have weight [4, 4, 3, 3] bias [4]" in message
    assert "side by side" in message and "mapping=" in message
    table = [line.split(" | ") for line in message.splitlines()[1:]]
    assert [(left.strip(), right) for left, right in table] == [
        ("left weight [4, 4, 3, 3] bias [4]", "a weight [4, 4, 3, 3] bias [4]"),
        (
            "right weight [4, 4, 3, 3] bias [4]",
            "b weight [4, 4, 3, 3] bias [4]",
        ),
        ("fc weight [2, 4] bias [2]", "logits weight [2, 4] bias [2]  = fc"),
    ]


def test_a_mapping_or_names_settle_it(tmp_path):
    path = saved(tmp_path, BRANCHES)
    assert adt_tf.transplant(path, branches(), mapping={"left": "b"}) == {
        "b": "left",
        "a": "right",
        "logits": "fc",
    }
    model = branches("right", "left")
    assert adt_tf.transplant(path, model)["left"] == "left"
    kernel = model.get_layer("left").kernel.numpy()
    expected = reference_weights.weight("left.weight", (4, 4, 3, 3))
    np.testing.assert_array_equal(kernel, expected.transpose(2, 3, 1, 0))


@pytest.mark.parametrize(
    ("mapping", "pattern"),
    [
        ({"middle": "a"}, "must map modules of the file"),
        ({"left": "c"}, "must map modules of the file"),
        ({"left": "logits"}, "which have other shapes"),
    ],
)
def test_a_wrong_mapping(tmp_path, mapping, pattern):
    path = saved(tmp_path, BRANCHES)
    with pytest.raises(ValueError, match=pattern):
        adt_tf.transplant(path, branches(), mapping=mapping)


@pytest.mark.parametrize(
    "shapes",
    [
        {**BRANCHES, "third.weight": (4, 4, 3, 3), "third.bias": (4,)},
        {k: v for k, v in BRANCHES.items() if "left" not in k},
        {**BRANCHES, "fc.weight": (3, 4), "fc.bias": (3,)},
    ],
    ids=["one too many", "one too few", "another shape"],
)
def test_what_does_not_fit_is_refused_with_a_table(tmp_path, shapes):
    with pytest.raises(ValueError, match="The file has . and the model .") as e:
        adt_tf.transplant(saved(tmp_path, shapes), branches())
    assert "The file and the model:\n" in str(e.value)


@pytest.mark.parametrize("kind", ["flatten", "permuted", "reshape", "nested"])
def test_a_dense_layer_behind_a_feature_map(tmp_path, kind):
    """Against the sum written out in PyTorch's order."""
    shapes = {
        "conv.weight": (3, 2, 3, 3),
        "conv.bias": (3,),
        "bn.weight": (48,),
        "bn.bias": (48,),
        "bn.running_mean": (48,),
        "bn.running_var": (48,),
        "fc.weight": (5, 48),
        "fc.bias": (5,),
    }
    path = saved(tmp_path, shapes)
    flatten = {
        "flatten": [layers.Flatten()],
        "nested": [keras.Sequential([layers.Flatten(), layers.Dropout(0.1)])],
        "permuted": [layers.Permute((3, 1, 2)), layers.Flatten()],
        "reshape": [layers.Reshape((48,))],
    }[kind]
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(3, 3),
            *flatten,
            layers.BatchNormalization(epsilon=1e-5),
            layers.Dense(5),
        ]
    )
    adt_tf.transplant(path, model)
    w = {n: reference_weights.weight(n, s) for n, s in shapes.items()}
    x = reference_weights.images((2, 2, 6, 6))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    features = np.einsum("nihwkl,oikl->nohw", windows, w["conv.weight"])
    features += w["conv.bias"][:, None, None]
    flat = features.reshape(2, -1) - w["bn.running_mean"]
    flat = flat / np.sqrt(w["bn.running_var"] + 1e-5)
    flat = flat * w["bn.weight"] + w["bn.bias"]
    expected = flat @ w["fc.weight"].T + w["fc.bias"]
    outputs = model(x.transpose(0, 2, 3, 1), training=False).numpy()
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_bottlenecks_whose_shortcut_has_the_shape_of_a_convolution(tmp_path):
    """ResNet-50's first block: two 1x1 convolutions side by side."""

    def model(name):
        images = keras.Input((4, 4, 4))
        x = layers.Conv2D(8, 1, use_bias=False, name=name)(images)
        y = layers.Conv2D(8, 1, use_bias=False)(images)
        return keras.Model(images, layers.Add()([x, y]))

    path = saved(
        tmp_path,
        {"block.conv3.weight": (8, 4, 1, 1), "block.down.weight": (8, 4, 1, 1)},
    )
    with pytest.raises(ValueError, match="side by side"):
        adt_tf.transplant(path, model("first"))
    matches = adt_tf.transplant(
        path, model("first"), mapping={"block.down": "first"}
    )
    assert matches["first"] == "block.down"


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x)


def test_models_that_cannot_be_filled(tmp_path):
    path = saved(tmp_path, {"fc.weight": (2, 4), "fc.bias": (2,)})
    model = Subclassed()
    model(np.zeros([1, 4], "float32"))
    with pytest.raises(ValueError, match="must be functional or sequential"):
        adt_tf.transplant(path, model)
    model = keras.Sequential(
        [keras.Input((8, 8, 4)), layers.Conv2DTranspose(2, 3)]
    )
    with pytest.raises(ValueError, match="is a Conv2DTranspose"):
        adt_tf.transplant(path, model)


def test_a_file_of_keras_own_weights(tmp_path):
    source, target = branches("left", "right"), branches("left", "right")
    for weight in source.weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    source.save_weights(tmp_path / "a.weights.h5")
    assert adt_tf.transplant(tmp_path / "a.weights.h5", target) == {}
    for one, other in zip(source.weights, target.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_transplanted_model_is_evaluated_and_saved(tmp_path):
    model = small_resnet()
    adt_tf.transplant(DATA / "small_resnet.pt", model, skip=["mean", "std"])
    images = reference_weights.images((2, 3, 32, 32)).transpose(0, 2, 3, 1)
    report = adt_tf.evaluate(
        model, (images, np.array([0, 1])), [adt_tf.attacks.fgsm(0.01)]
    )
    assert len(report.outcomes["FGSM"]) == 2
    model.save(tmp_path / "a.keras")
    loaded = adt_tf.load_classifier(tmp_path / "a.keras")
    np.testing.assert_array_equal(loaded(images), model(images))
