"""Each architecture against torch's outputs for weights of its layout.

tests/data/bridge/outputs.npz was written by benchmarks/peers/
bridge_references.py: RobustBench's own classes, and the authors' layouts, with
weights that follow from their names.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import data, networks
from adt_tf.runs import inputs
from adt_tf.serving.bridge import architectures, layouts
from tests.support import reference_weights

OUTPUTS = reference_weights.outputs()
NAMES = sorted({name.split("/")[0] for name in OUTPUTS.files})

# Where the names in a state dict do not tell the whole architecture.
GIVEN = {
    "dm-wrn-10-1-relu": "dm-wrn-10-1-relu",
    "preact_resnet18-bare": "preact_resnet18",
    "preact_resnet18-raw": "preact_resnet18-raw",
}
RECOGNIZED = {
    "wrn-16-1-no-bias": "wrn-16-1",
    "dm-wrn-10-1-cifar100": "dm-wrn-10-1",
    "dm-wrn-10-1-relu": "dm-wrn-10-1",
}


def channels_last(array):
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


def outputs_and_gradients(model):
    channels = model.inputs[0].shape[-1]
    size = model.inputs[0].shape[1]
    images = reference_weights.images((2, channels, size, size))
    x = tf.constant(channels_last(images))
    inputs = [x]
    if len(model.inputs) > 1:
        inputs.append(tf.constant(reference_weights.images((2, 64), 1)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = model(
            inputs if len(inputs) > 1 else inputs[0], training=False
        )
        if outputs.ndim == 2:
            value = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.range(2), outputs
            )
        else:
            value = outputs**2
    return outputs.numpy(), tape.gradient(value, x).numpy()


# They differ from others in the number of blocks alone.
SLOW = ("resnet34", "preact_resnet34")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in NAMES
    ],
)
def test_outputs_and_gradients_are_torch_s(name):
    model = architectures.build(
        reference_weights.state_dict(name), GIVEN.get(name)
    )
    outputs, gradients = outputs_and_gradients(model)
    expected = channels_last(OUTPUTS[f"{name}/outputs"])
    if outputs.ndim == 4:
        outputs = outputs[:, ::4, ::4]
    np.testing.assert_allclose(outputs, expected, atol=1e-5, rtol=1e-5)
    expected = channels_last(OUTPUTS[f"{name}/gradients"])
    # Rounding decides on which side of a kink a unit close to 0 lies.
    error = np.linalg.norm(gradients[:, ::4, ::4] - expected)
    assert error <= 1e-2 * np.linalg.norm(expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_tell_the_architecture(name):
    found = layouts.recognize(reference_weights.shapes(name))
    if name in ("preact_resnet18-bare", "preact_resnet18-raw"):
        assert found == ["preact_resnet18", "preact_resnet18-raw"]
    else:
        assert found == [RECOGNIZED.get(name, name)]


def test_every_layout_has_a_reference():
    names = {GIVEN.get(name, RECOGNIZED.get(name, name)) for name in NAMES}
    tested = {layouts.find(name)[0].name for name in names}
    # Against TensorFlow 1, in test_bridge_tensorflow.py.
    tested.add(layouts.find("madry-wrn-32-10")[0].name)
    assert tested == set(layouts.names())


def renamed(arrays, prefix):
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def logits(model):
    images = reference_weights.images((2, 3, 32, 32)).transpose(0, 2, 3, 1)
    return model(images, training=False).numpy()


@pytest.mark.parametrize("prefix", ["module.", "model.", "module.model.0."])
def test_prefixes_make_no_difference(prefix):
    arrays = reference_weights.state_dict("wrn-10-2")
    expected = OUTPUTS["wrn-10-2/outputs"]
    for architecture in (None, "wrn-10-2"):
        model = architectures.build(renamed(arrays, prefix), architecture)
        np.testing.assert_allclose(logits(model), expected, atol=1e-5)


def test_the_copy_that_is_saved_with_an_attacker_is_dropped():
    """MadryLab's `robustness` saves model, attacker.model and normalizer."""
    arrays = reference_weights.state_dict("wrn-10-2")
    saved = {
        **renamed(arrays, "module.model."),
        **renamed(arrays, "module.attacker.model."),
        "module.normalizer.new_mean": np.zeros([3, 1, 1], np.float32),
        "module.normalizer.new_std": np.ones([3, 1, 1], np.float32),
        "module.attacker.normalize.new_mean": np.zeros([3, 1, 1]),
        "module.attacker.normalize.new_std": np.ones([3, 1, 1]),
    }
    model = architectures.build(saved)
    np.testing.assert_allclose(
        logits(model), OUTPUTS["wrn-10-2/outputs"], atol=1e-5
    )


@pytest.mark.parametrize(
    "names",
    [
        ("mu", "sigma"),
        ("mean", "std"),
        ("0.mean", "0.std"),
        ("_mean", "_std"),
        ("image_mean", "image_std"),
    ],
)
def test_mean_and_deviation_among_the_buffers(names):
    """The same as images normalised outside."""
    arrays = reference_weights.state_dict("wrn-10-2")
    plain = architectures.build(arrays)
    prefix = "1." if "0" in names[0] else "model."
    mean = np.float32([0.5, 0.4, 0.3]).reshape(1, 3, 1, 1)
    deviation = np.float32([0.2, 0.3, 0.4]).reshape(1, 3, 1, 1)
    buffers = dict(zip(names, (mean, deviation), strict=True))
    inside = architectures.build({**buffers, **renamed(arrays, prefix)})
    given = architectures.build(
        arrays, normalization=(mean.ravel(), deviation.ravel())
    )
    images = reference_weights.images((2, 3, 32, 32))
    outside = ((images - mean) / deviation).transpose(0, 2, 3, 1)
    expected = plain(outside, training=False).numpy()
    np.testing.assert_allclose(logits(inside), expected, atol=1e-5)
    np.testing.assert_allclose(logits(given), expected, atol=1e-5)


def test_one_mean_and_deviation_for_all_channels():
    arrays = reference_weights.state_dict("wrn-10-2")
    buffers = {"mean": np.float32(0.5), "std": np.float32([0.25])}
    inside = architectures.build({**buffers, **renamed(arrays, "model.")})
    given = architectures.build(arrays, normalization=(0.5, 0.25))
    whole = architectures.build(arrays, normalization=([0.5] * 3, [0.25] * 3))
    np.testing.assert_array_equal(logits(inside), logits(whole))
    np.testing.assert_array_equal(logits(given), logits(whole))


@pytest.mark.parametrize(
    "normalization",
    [((0.5, 0.5), (0.2, 0.2)), (0.5, 0), (0.5, 0.2, 0.2), "cifar10", 3],
    ids=str,
)
def test_what_is_no_normalization(normalization):
    arrays = reference_weights.state_dict("wrn-10-2")
    with pytest.raises(ValueError, match="for each of the 3 channels. Rec"):
        architectures.build(arrays, normalization=normalization)


@pytest.mark.parametrize("architecture", [None, "wrn-10-2"])
def test_averaged_weights_of_torch(architecture):
    """torch.optim.swa_utils.AveragedModel adds a counter before module."""
    arrays = reference_weights.state_dict("wrn-10-2")
    averaged = {"n_averaged": np.array(9), **renamed(arrays, "module.")}
    np.testing.assert_allclose(
        logits(architectures.build(averaged, architecture)),
        OUTPUTS["wrn-10-2/outputs"],
        atol=1e-5,
    )


def test_gray_images_of_deepmind_s_networks():
    """Their means are not in the file, and those of CIFAR have 3 channels."""
    arrays = reference_weights.state_dict(
        "dm-wrn-10-1-relu", init_conv_weight=(16, 1, 3, 3)
    )
    with pytest.raises(ValueError, match="images of 1 channels pass normal"):
        architectures.build(arrays)
    model = architectures.build(arrays, normalization=([0.5], [0.5]))
    assert model.input_shape == (None, 28, 28, 1)


def test_a_model_of_the_bridge_is_plain_keras(tmp_path):
    arrays = reference_weights.state_dict("dm-wrn-10-1-relu")
    model = architectures.build(arrays, "dm-wrn-10-1-relu")
    model.save(tmp_path / "a.keras")
    loaded = keras.saving.load_model(tmp_path / "a.keras")
    np.testing.assert_array_equal(logits(loaded), logits(model))
    extractor = networks.feature_extractor(model)
    assert extractor.output_shape == (None, 8, 8, 64)


def test_all_problems_are_listed_at_once():
    arrays = reference_weights.state_dict("wrn-10-2")
    del arrays["fc.bias"], arrays["block2.layer.0.bn1.running_mean"]
    arrays["conv1.weight"] = arrays["conv1.weight"][:, :, :1]
    arrays["head.weight"] = np.zeros(3)
    with pytest.raises(ValueError) as error:
        architectures.build(arrays, "wrn-10-2")
    assert str(error.value) == (
        "The state dict does not fit wrn-10-2: "
        "missing: block2.layer.0.bn1.running_mean; "
        "left over: head.weight; "
        "of another shape: conv1.weight [16, 3, 1, 3] for [16, 3, 3, 3]"
    )


def test_another_architecture_than_the_file_s():
    arrays = reference_weights.state_dict("wrn-10-2")
    with pytest.raises(ValueError, match="of another shape: .*for") as error:
        architectures.build(arrays, "wrn-10-1")
    assert "not fit wrn-10-1 (its names are those of wrn-10-2): " in str(
        error.value
    )
    assert str(error.value).count(" for ") > 20


def test_weights_that_are_not_finite():
    arrays = reference_weights.state_dict("wrn-10-2")
    arrays["fc.weight"][3, 5] = np.nan
    with pytest.raises(ValueError, match="Not finite: fc.weight"):
        architectures.build(arrays)


def test_a_variance_below_0():
    arrays = reference_weights.state_dict("wrn-10-2")
    arrays["bn1.running_var"][3] = -1
    with pytest.raises(ValueError, match="Below 0: bn1.running_var"):
        architectures.build(arrays)


def test_names_of_no_architecture():
    with pytest.raises(ValueError, match="belong to none of the arch"):
        architectures.build({"w.weight": np.zeros([2, 2])})


@pytest.mark.parametrize("architecture", [None, "wrn-10-2"])
def test_the_number_of_classes_is_that_of_the_file(tmp_path, architecture):
    path = tmp_path / "a.npz"
    np.savez(path, **reference_weights.state_dict("wrn-10-2"))
    for number in (5, 100):
        with pytest.raises(ValueError, match=f"a.npz, 10, or None.*={number}"):
            adt_tf.load_classifier(path, architecture, num_classes=number)
    # Examples may have fewer classes.
    images = np.zeros([5, 32, 32, 3], np.float32)
    like = data.ImageData(images, np.arange(5), 5, "few")
    for arguments in ({"num_classes": 10}, {}):
        model = adt_tf.load_classifier(path, architecture, **arguments)
        assert model.output_shape == (None, 10)
    model = inputs.load_classifier(path, architecture, like=like)
    assert model.output_shape == (None, 10)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="There is no file or directory"):
        adt_tf.load_classifier(tmp_path / "none.pt", "wrn-10-2")


def test_names_that_leave_a_choice():
    with pytest.raises(
        ValueError, match="preact_resnet18, preact_resnet18-raw"
    ):
        architectures.build(reference_weights.state_dict("preact_resnet18-raw"))


@pytest.mark.parametrize("name", ["vgg16", "wrn", "resnet101", ""])
def test_an_unknown_name(name):
    with pytest.raises(ValueError, match="must be one of wrn-<depth>.*transp"):
        architectures.build({}, name)


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("WRN-28-10", "wrn-<depth>-<widen_factor>"),
        ("PreActResNet-18", "preact_resnet<18 or 34>[-raw]"),
        ("PreAct_ResNet34", "preact_resnet<18 or 34>[-raw]"),
        ("ResNet-50", "resnet<18, 34 or 50>"),
        ("LeNet5", "lenet5"),
    ],
)
def test_usual_spellings(name, layout):
    assert layouts.find(name)[0].name == layout


def test_a_wide_file_builds_no_network_wider_than_itself():
    """The widths of a network go into its kernels squared."""
    shapes = {
        "block1.layer.0.conv2.weight": (16_000_000, 1, 1, 1),
        **{
            f"block1.layer.{i}.conv2.weight": (16, 1, 1, 1) for i in range(1, 9)
        },
    }
    assert layouts.recognize(shapes) == []
