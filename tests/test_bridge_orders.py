"""Transplants whose layers move, share or join the features of a map.

PyTorch's side is written out in NumPy, on images in NCHW.
"""

import json
import pickle

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf.serving.bridge.layer_graph import layer_graph
from tests.support import reference_weights

layers, ops = keras.layers, keras.ops
IMAGES = reference_weights.images((2, 3, 4, 5)) - 0.5
CUBE = reference_weights.images((2, 4, 4, 4)) - 0.5


def dense(inputs, outputs=7, name="fc"):
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def arrays_of(shapes):
    return {n: reference_weights.weight(n, s) for n, s in shapes.items()}


def save(folder, arrays):
    path = folder / "a.pkl"
    path.write_bytes(pickle.dumps(arrays, 2))
    return path


def save_safetensors(folder, arrays):
    """Writes arrays as the package safetensors does: sorted by name."""
    header, content = {}, b""
    for name in sorted(arrays):
        first, content = len(content), content + arrays[name].tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": arrays[name].shape,
            "data_offsets": [first, len(content)],
        }
    text = json.dumps(header).encode()
    path = folder / "a.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)
    return path


def linear(x, w, name="fc"):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def flat(x):
    return x.reshape(len(x), -1)


def relu(x):
    return np.maximum(x, 0)


def assert_fits(tmp_path, body, shapes, expected, images=IMAGES):
    """Compares a Keras body with a NumPy function of images and weights."""
    inputs = keras.Input((*images.shape[2:], images.shape[1]))
    model = keras.Model(inputs, body(inputs))
    arrays = arrays_of(shapes)
    adt_tf.transplant(save(tmp_path, arrays), model)
    outputs = model(images.transpose(0, 2, 3, 1), training=False).numpy()
    np.testing.assert_allclose(outputs, expected(images, arrays), atol=1e-5)


FLATTENED = {
    "ops.reshape": lambda x: ops.reshape(x, (-1, 60)),
    "ops.transpose": lambda x: layers.Flatten()(ops.transpose(x, (0, 3, 1, 2))),
    "ops.moveaxis": lambda x: layers.Flatten()(ops.moveaxis(x, -1, 1)),
    "permuted, then dropped": lambda x: layers.Flatten()(
        layers.Dropout(0.1)(layers.Permute((3, 1, 2))(x))
    ),
    "permuted, then reshaped": lambda x: layers.Reshape((60,))(
        layers.Reshape((3, 20))(layers.Permute((3, 1, 2))(x))
    ),
    "positions first": lambda x: layers.Flatten()(layers.Reshape((20, 3))(x)),
    "reshaped and back": lambda x: layers.Flatten()(
        layers.Reshape((4, 5, 3))(layers.Flatten()(x))
    ),
    "added": lambda x: layers.Add()(
        [layers.Flatten()(x), layers.Reshape((60,))(x)]
    ),
}


@pytest.mark.parametrize("kind", FLATTENED)
def test_every_way_to_flatten(tmp_path, kind):
    factor = 2 if kind == "added" else 1
    assert_fits(
        tmp_path,
        lambda x: layers.Dense(7)(FLATTENED[kind](x)),
        dense(60),
        lambda x, w: linear(factor * flat(x), w),
    )


def test_maps_that_are_joined_after_flattening(tmp_path):
    def body(x):
        parts = [
            layers.Flatten()(layers.ReLU()(x)),
            layers.GlobalAveragePooling2D()(x),
            layers.Flatten()(layers.MaxPooling2D(2)(x)),
            layers.Flatten()(x),
        ]
        return layers.Dense(7)(layers.Concatenate()(parts))

    def expected(x, w):
        pooled = x[:, :, :, :4].reshape(2, 3, 2, 2, 2, 2).max((3, 5))
        parts = [flat(relu(x)), x.mean((2, 3)), flat(pooled), flat(x)]
        return linear(np.concatenate(parts, -1), w)

    assert_fits(tmp_path, body, dense(60 + 3 + 12 + 60), expected)


def test_features_of_different_orders_are_not_added():
    inputs = keras.Input((4, 5, 3))
    x = layers.Flatten()(inputs)
    model = keras.Model(inputs, layers.Add()([x, layers.Dense(60)(x)]))
    with pytest.raises(ValueError, match="joins flattened feature maps"):
        layer_graph(model)


def test_a_layer_without_weights_that_is_called_often(tmp_path):
    def body(x):
        activate = layers.ReLU()
        x = activate(layers.Dense(7)(activate(layers.Flatten()(activate(x)))))
        return layers.Dense(7)(activate(x))

    assert_fits(
        tmp_path,
        body,
        {**dense(60, name="a"), **dense(7, name="b")},
        lambda x, w: linear(relu(linear(flat(relu(x)), w, "a")), w, "b"),
    )


def test_a_convolution_that_is_called_often(tmp_path):
    def body(x):
        convolution = layers.Conv2D(3, 1, use_bias=False)
        for _ in range(3):
            x = layers.ReLU()(convolution(x))
        return layers.Dense(7)(layers.Flatten()(x))

    def expected(x, w):
        for _ in range(3):
            kernel = w["conv.weight"][:, :, 0, 0]
            x = relu(np.einsum("nihw,oi->nohw", x, kernel))
        return linear(flat(x), w)

    shapes = {"conv.weight": (3, 3, 1, 1), **dense(60)}
    assert_fits(tmp_path, body, shapes, expected)


def test_a_model_inside_that_is_called_twice(tmp_path):
    def body(x):
        inner = keras.Sequential([keras.Input((4, 5, 3)), layers.ReLU()])
        halves = keras.Sequential([keras.Input((60,)), layers.ReLU()])
        x = layers.Flatten()(inner(layers.Conv2D(3, 1)(inner(x))))
        return layers.Dense(7)(halves(halves(x)))

    def expected(x, w):
        x = np.einsum("nihw,oi->nohw", relu(x), w["conv.weight"][:, :, 0, 0])
        return linear(flat(relu(x + w["conv.bias"][:, None, None])), w)

    shapes = {"conv.weight": (3, 3, 1, 1), "conv.bias": (3,), **dense(60)}
    assert_fits(tmp_path, body, shapes, expected)


def test_layers_that_another_model_calls_too(tmp_path):
    def body(x):
        activate = layers.ReLU()
        convolution = layers.Conv2D(3, 1, use_bias=False)
        other = keras.Input((4, 5, 3))
        before = convolution(activate(convolution(activate(other))))
        keras.Model(other, before)
        part = keras.Model(other, layers.Activation("relu")(before))
        x = activate(part(activate(x)))
        return layers.Dense(7)(layers.Flatten()(x))

    def expected(x, w):
        for _ in range(2):
            kernel = w["conv.weight"][:, :, 0, 0]
            x = np.einsum("nihw,oi->nohw", relu(x), kernel)
        return linear(flat(relu(x)), w)

    shapes = {"conv.weight": (3, 3, 1, 1), **dense(60)}
    assert_fits(tmp_path, body, shapes, expected)


def test_slopes_of_channels_of_all_and_of_features(tmp_path):
    def body(x):
        x = layers.PReLU(shared_axes=[1, 2])(x)
        x = layers.PReLU(shared_axes=[1, 2, 3])(layers.Rescaling(-1.0)(x))
        x = layers.PReLU()(layers.Rescaling(-1.0)(layers.Flatten()(x)))
        return layers.Dense(7)(x)

    def prelu(x, slope):
        return np.where(x > 0, x, slope * x)

    def expected(x, w):
        x = prelu(-prelu(x, w["a.weight"][:, None, None]), w["b.weight"])
        return linear(prelu(-flat(x), w["c.weight"]), w)

    shapes = {"a.weight": (3,), "b.weight": (1,), "c.weight": (60,)}
    assert_fits(tmp_path, body, {**shapes, **dense(60)}, expected)


def before_a_dense_layer(layer):
    return keras.Sequential(
        [keras.Input((4, 5, 3)), layer, layers.Flatten(), layers.Dense(7)]
    )


def test_slopes_of_each_position_are_refused(tmp_path):
    path = save(tmp_path, arrays_of({"a.weight": (3,), **dense(60)}))
    with pytest.raises(ValueError, match=r"\(4, 5, 3\).*shared_axes=\[1, 2\]"):
        adt_tf.transplant(path, before_a_dense_layer(layers.PReLU()))


@pytest.mark.parametrize("images", [IMAGES, CUBE], ids=["map", "cube"])
def test_a_layer_norm_of_whole_maps(tmp_path, images):
    """Of a cube, the shapes do not show the order."""

    def body(x):
        x = layers.LayerNormalization([1, 2, 3], epsilon=1e-5)(x)
        return layers.Dense(7)(layers.Flatten()(x))

    def expected(x, w):
        variance = x.var((1, 2, 3), keepdims=True)
        x = (x - x.mean((1, 2, 3), keepdims=True)) / np.sqrt(variance + 1e-5)
        return linear(flat(x * w["norm.weight"] + w["norm.bias"]), w)

    shape = images.shape[1:]
    shapes = {"norm.weight": shape, "norm.bias": shape}
    shapes |= dense(int(np.prod(shape)))
    assert_fits(tmp_path, body, shapes, expected, images)


@pytest.mark.parametrize(
    "layer", [layers.LayerNormalization(), layers.GroupNormalization(1)]
)
def test_another_epsilon_than_torch_s_is_told(tmp_path, layer):
    shapes = {"norm.weight": (3,), "norm.bias": (3,), **dense(60)}
    path = save(tmp_path, arrays_of(shapes))
    with pytest.warns(UserWarning, match="epsilon 1e-3; PyTorch's .* 1e-5"):
        adt_tf.transplant(path, before_a_dense_layer(layer))


def chain(names):
    layers_of = [layers.Dense(3, use_bias=False, name=name) for name in names]
    return keras.Sequential([keras.Input((3,)), *layers_of])


def test_numbered_modules_of_safetensors_are_in_order(tmp_path):
    """A file of safetensors has body.10 before body.2."""
    arrays = arrays_of({f"body.{i}.weight": (3, 3) for i in range(12)})
    model = chain([None] * 12)
    adt_tf.transplant(save_safetensors(tmp_path, arrays), model)
    x = IMAGES[:, :, 0, 0]
    expected = x
    for array in arrays.values():
        expected = expected @ array.T
    np.testing.assert_allclose(model(x), expected, atol=1e-5)


def test_named_modules_of_safetensors_have_no_order(tmp_path):
    names = ["stem", "middle", "end"]
    arrays = arrays_of({f"{name}.weight": (3, 3) for name in names})
    path = save_safetensors(tmp_path, arrays)
    with pytest.raises(ValueError, match="safetensors are sorted by name"):
        adt_tf.transplant(path, chain([None] * 3))
    matches = adt_tf.transplant(path, chain(names))
    assert matches == {name: name for name in names}
    assert adt_tf.transplant(
        save(tmp_path, arrays), chain(["a", "b", "c"])
    ) == {
        "a": "stem",
        "b": "middle",
        "c": "end",
    }


@pytest.mark.parametrize("prefix", ["module.", "module.net.", "_orig_mod."])
def test_layers_are_named_without_the_prefix(tmp_path, prefix):
    inputs = keras.Input((3,))
    parts = [layers.Dense(3, name=n)(inputs) for n in ("right", "left")]
    model = keras.Model(inputs, layers.Subtract()(parts))
    shapes = {**dense(3, 3, f"{prefix}left"), **dense(3, 3, f"{prefix}right")}
    arrays = {**arrays_of(shapes), "n_averaged": np.array(3)}
    matches = adt_tf.transplant(save(tmp_path, arrays), model)
    assert matches == {n: f"{prefix}{n}" for n in ("left", "right")}


def test_two_modules_for_one_layer(tmp_path):
    arrays = arrays_of({"a.weight": (3, 3), "b.weight": (3, 3)})
    path = save(tmp_path, arrays)
    with pytest.raises(ValueError, match="each module to another layer"):
        adt_tf.transplant(path, chain(["x", "y"]), mapping={"a": "x", "b": "x"})


@pytest.mark.parametrize(
    "model",
    [None, "resnet18", keras.Sequential(), keras.Sequential([layers.Dense(2)])],
    ids=["None", "text", "empty", "not built"],
)
def test_what_is_no_built_model(tmp_path, model):
    path = save(tmp_path, arrays_of({"a.weight": (3, 3)}))
    with pytest.raises(ValueError, match="`model` must be a Keras model that"):
        adt_tf.transplant(path, model)


@pytest.mark.parametrize("path", ["none.pt", "."])
def test_what_is_no_file(tmp_path, path):
    with pytest.raises(ValueError, match="Pass the path of a file of weights"):
        adt_tf.transplant(tmp_path / path, chain(["x"]))
