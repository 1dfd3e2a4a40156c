"""Tests of the networks, against counts and forward passes worked out apart.

The references are written from the papers' descriptions in NumPy, with
PyTorch's padding, and share no code with the networks.
"""

import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

from adt_tf import checks, networks
from adt_tf.networks.layers import batch_normalization
from adt_tf.networks.preactivation import Stage, preactivation_network

TINY = 1 / 64

# Every network at a size that runs in no time.
NETWORKS = {
    "wrn-10-1": lambda shape, seed: networks.wide_resnet(
        10, 1, input_shape=shape, seed=seed
    ),
    "preactivation": lambda shape, seed: preactivation_network(
        shape,
        stem_filters=4,
        stages=[Stage(4, 2, 1), Stage(8, 2, 2)],
        num_classes=10,
        seed=seed,
        name="tiny",
    ),
    "small_cnn": lambda shape, seed: networks.small_cnn(
        input_shape=shape, width=4, seed=seed
    ),
    "explicit_generator": lambda shape, seed: networks.explicit_generator(
        shape, width_factor=TINY, seed=seed
    ),
    "implicit_generator": lambda shape, seed: networks.implicit_generator(
        shape, width_factor=TINY, seed=seed
    ),
    "point_generator": lambda shape, seed: networks.point_generator(
        shape, width_factor=TINY, seed=seed
    ),
    "posterior": lambda shape, seed: networks.posterior(
        shape, width_factor=1 / 16, seed=seed
    ),
}

SHAPES = [(8, 8, 1), (28, 28, 1), (32, 32, 3), (33, 31, 3)]


def expected_output_shape(name, shape):
    height, width, channels = shape
    return {
        "explicit_generator": (height, width, 2 * channels),
        "implicit_generator": (height, width, channels),
        "point_generator": (height, width, channels),
        "posterior": (128,),
    }.get(name, (10,))


def random_inputs(model, batch_size, seed=0):
    generator = np.random.default_rng(seed)
    return [
        generator.uniform(size=(batch_size, *tensor.shape[1:])).astype(
            "float32"
        )
        for tensor in model.inputs
    ]


def run(model, inputs):
    return keras.ops.convert_to_numpy(
        model(inputs if len(inputs) > 1 else inputs[0], training=False)
    )


def randomize_weights(model, seed=0):
    """Gives every weight a value, so that none passes for its default."""
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.path.endswith(("variance", "gamma")):
            weight.assign(generator.uniform(0.5, 2.0, weight.shape))
        else:
            weight.assign(generator.normal(0.0, 0.2, weight.shape))


# References in NumPy.


def numpy_convolution(x, kernel, strides=1, padding=0):
    size = kernel.shape[0]
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(
        x, (size, size), axis=(1, 2)
    )[:, ::strides, ::strides]
    return np.einsum("nhwcij,ijco->nhwo", windows, kernel, optimize=True)


class Reference:
    """Looks weights up by layer name and applies PyTorch's operations."""

    def __init__(self, model):
        self.weights = {
            layer.name: [np.float64(weight) for weight in layer.get_weights()]
            for layer in model.layers
        }

    def convolution(self, x, name, strides=1, padding=0):
        (kernel,) = self.weights[name]
        return numpy_convolution(x, kernel, strides, padding)

    def normalization(self, x, name):
        gamma, beta, mean, variance = self.weights[name]
        return gamma * (x - mean) / np.sqrt(variance + 1e-5) + beta

    def dense(self, x, name):
        kernel, bias = self.weights[name]
        return x @ kernel + bias


def relu(x):
    return np.maximum(x, 0)


def reference_preactivation(model, x, stages):
    """Forward pass of a network of stages (filters, num_blocks, strides)."""
    net = Reference(model)
    x = net.convolution(x, "stem", padding=1)
    for stage, (filters, num_blocks, first_strides) in enumerate(stages, 1):
        for block in range(1, num_blocks + 1):
            name = f"stage{stage}_block{block}"
            strides = first_strides if block == 1 else 1
            active = relu(net.normalization(x, f"{name}_normalization1"))
            same = x.shape[-1] == filters and strides == 1
            shortcut = (
                x
                if same
                else net.convolution(active, f"{name}_shortcut", strides)
            )
            out = net.convolution(active, f"{name}_convolution1", strides, 1)
            out = relu(net.normalization(out, f"{name}_normalization2"))
            out = net.convolution(out, f"{name}_convolution2", 1, 1)
            x = shortcut + out
    x = relu(net.normalization(x, "normalization")).mean((1, 2))
    return net.dense(x, "logits")


def reference_trunk_and_head(model, x):
    net = Reference(model)

    def normalized(x, name, padding):
        x = net.convolution(x, name, padding=padding)
        return net.normalization(x, f"{name}_normalization")

    x = relu(normalized(x, "stem", 1))
    for name in ["block1", "block2", "block3"]:
        out = relu(normalized(x, f"{name}_convolution1", 1))
        out = normalized(out, f"{name}_convolution2", 1)
        wider = out.shape[-1] != x.shape[-1]
        x = relu(out + (normalized(x, f"{name}_shortcut", 0) if wider else x))
    return net.convolution(x, "head", padding=1)


def relative_error(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


# Stages (filters, num_blocks, strides), sizes with and without even sides. The
# last network has a strided block of equal width.
PREACTIVATION_CASES = [
    ("wrn-10-1", (8, 8, 1), [(16, 1, 1), (32, 1, 2), (64, 1, 2)]),
    ("wrn-16-2", (9, 7, 3), [(32, 2, 1), (64, 2, 2), (128, 2, 2)]),
    (
        "preact_resnet18",
        (8, 8, 3),
        [(64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)],
    ),
]


@pytest.mark.parametrize("name,shape,stages", PREACTIVATION_CASES)
def test_residual_classifiers_match_numpy_reference(name, shape, stages):
    classifier = networks.get(name, input_shape=shape)
    randomize_weights(classifier)
    (images,) = random_inputs(classifier, 3)
    expected = reference_preactivation(classifier, images, stages)
    assert relative_error(run(classifier, [images]), expected) < 1e-4


def test_strided_block_of_equal_width_projects_its_shortcut():
    stages = [Stage(4, 1, 1), Stage(4, 2, 2)]
    classifier = preactivation_network(
        (6, 5, 2),
        stem_filters=4,
        stages=stages,
        num_classes=3,
        seed=0,
        name="tiny",
    )
    randomize_weights(classifier)
    (images,) = random_inputs(classifier, 2)
    expected = reference_preactivation(classifier, images, stages)
    assert relative_error(run(classifier, [images]), expected) < 1e-4


def test_strided_convolution_differs_from_same_padding():
    """Guards the reason for the explicit padding."""
    image = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    kernel = np.arange(9, dtype="float32").reshape(3, 3, 1, 1)
    same = keras.ops.conv(image, kernel, strides=2, padding="same")
    padded = numpy_convolution(image, kernel, strides=2, padding=1)
    assert same.shape == padded.shape
    assert np.max(np.abs(same - padded)) > 1


@pytest.mark.parametrize("name", ["explicit_generator", "point_generator"])
def test_generators_match_numpy_reference(name):
    generator = NETWORKS[name]((7, 6, 2), 0)
    randomize_weights(generator)
    (conditioning,) = random_inputs(generator, 3)
    expected = reference_trunk_and_head(generator, conditioning)
    if name == "point_generator":
        expected = np.tanh(expected)
    assert relative_error(run(generator, [conditioning]), expected) < 1e-4


def test_implicit_generator_matches_numpy_reference():
    generator = NETWORKS["implicit_generator"]((7, 6, 2), 0)
    randomize_weights(generator)
    conditioning, z = random_inputs(generator, 3)
    net = Reference(generator)
    channel = relu(
        net.dense(relu(net.dense(z, "latent_dense1")), "latent_dense2")
    )
    channel = channel.reshape(3, 7, 6, 1)
    x = np.concatenate([conditioning, channel], axis=-1)
    expected = np.tanh(reference_trunk_and_head(generator, x))
    assert relative_error(run(generator, [conditioning, z]), expected) < 1e-4


def test_posterior_matches_numpy_reference():
    q = networks.posterior((23, 20, 3), latent_size=5, width_factor=1 / 16)
    randomize_weights(q)
    (x,) = random_inputs(q, 3)
    net, expected = Reference(q), x
    for index, strides in enumerate([1, 2, 1, 2], start=1):
        expected = net.convolution(expected, f"convolution{index}", strides)
        expected = net.normalization(expected, f"normalization{index}")
        expected = np.where(expected > 0, expected, 0.01 * expected)
    expected = net.dense(expected.mean((1, 2)), "mean_and_raw_variance")
    assert relative_error(run(q, [x]), expected) < 1e-4


# Numbers of trainable weights, from the descriptions.


def count(model):
    return sum(
        int(np.prod(weight.shape)) for weight in model.trainable_variables
    )


def residual_count(stem, widths, num_blocks, num_classes=10, channels=3):
    """A block: bn(in), 3x3 in->out, bn(out), 3x3 out->out, 1x1 where needed."""
    total, width = 9 * channels * stem, stem
    for stage, out in enumerate(widths):
        for block in range(num_blocks):
            total += 2 * width + 9 * width * out + 2 * out + 9 * out * out
            if width != out or (stage > 0 and block == 0):
                total += width * out
            width = out
    return total + 2 * width + width * num_classes + num_classes


@pytest.mark.parametrize(
    "name,expected",
    [
        ("wrn-10-1", residual_count(16, [16, 32, 64], 1)),
        ("wrn-28-10", 36_479_194),
        ("wrn-34-10", residual_count(16, [160, 320, 640], 5)),
        ("preact_resnet18", residual_count(64, [64, 128, 256, 512], 2)),
        (
            "small_cnn",
            9 * (3 * 32 + 32 * 64 + 64 * 128)
            + 2 * (32 + 64 + 128)
            + (128 + 1) * 10,
        ),
    ],
)
def test_classifiers_have_the_known_number_of_weights(name, expected):
    assert count(networks.get(name)) == expected


def test_count_formula_gives_the_published_counts():
    assert residual_count(16, [160, 320, 640], 4) == 36_479_194
    assert residual_count(16, [160, 320, 640], 5) == 46_160_474
    assert residual_count(64, [64, 128, 256, 512], 2) == 11_172_170


def trunk_count(channels):
    stem = 9 * channels * 256 + 2 * 256
    total = stem
    for width, out in [(256, 512), (512, 512), (512, 256)]:
        total += 9 * width * out + 9 * out * out + 2 * (2 * out)
        total += (width * out + 2 * out) if width != out else 0
    return total


@pytest.mark.parametrize(
    "builder,expected",
    [
        (networks.explicit_generator, trunk_count(9) + 9 * 256 * 6),
        (networks.point_generator, trunk_count(9) + 9 * 256 * 3),
        (
            networks.implicit_generator,
            (64 + 1) * 256
            + (256 + 1) * 1024
            + trunk_count(9 + 1)
            + 9 * 256 * 3,
        ),
        (
            networks.posterior,
            25 * 3 * 32
            + 16 * (32 * 64 + 64 * 128 + 128 * 256)
            + 2 * (32 + 64 + 128 + 256)
            + (256 + 1) * 128,
        ),
    ],
)
def test_amortizing_networks_have_the_papers_number_of_weights(
    builder, expected
):
    assert count(builder((32, 32, 3))) == expected


# Properties that every network has.


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_runs_any_image_and_batch_size(name, shape):
    model = NETWORKS[name](shape, 0)
    for batch_size in [1, 3]:
        outputs = run(model, random_inputs(model, batch_size))
        expected = expected_output_shape(name, shape)
        assert outputs.shape == (batch_size, *expected)
        assert np.all(np.isfinite(outputs))


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_follow_the_seed(name):
    first, again, other = (
        NETWORKS[name]((8, 8, 1), seed) for seed in [3, 3, 4]
    )
    for left, right in zip(
        first.get_weights(), again.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    kernels = [
        index
        for index, weight in enumerate(first.weights)
        if weight.path.endswith("kernel")
    ]
    for index in kernels:
        left, right = first.get_weights()[index], other.get_weights()[index]
        assert np.mean(left == right) < 0.01


def test_weights_do_not_depend_on_what_was_built_before():
    before = networks.small_cnn(input_shape=(8, 8, 1), seed=1)
    keras.utils.set_random_seed(99)
    networks.wide_resnet(10, 1)
    after = networks.small_cnn(input_shape=(8, 8, 1), seed=1)
    assert [w.path for w in before.weights] == [w.path for w in after.weights]
    for left, right in zip(
        before.get_weights(), after.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_layers_of_equal_shape_start_differently():
    classifier = networks.wide_resnet(16, 1)
    left = classifier.get_layer("stage1_block1_convolution1").get_weights()[0]
    right = classifier.get_layer("stage1_block2_convolution1").get_weights()[0]
    assert np.mean(left == right) < 0.01


@pytest.mark.parametrize("name", NETWORKS)
def test_saves_and_loads_without_custom_objects(name, tmp_path):
    model = NETWORKS[name]((8, 8, 1), 0)
    randomize_weights(model)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    inputs = random_inputs(model, 2)
    np.testing.assert_array_equal(run(loaded, inputs), run(model, inputs))
    assert loaded.name == model.name


@pytest.mark.parametrize("name", NETWORKS)
def test_convolutions_and_normalizations_follow_the_conventions(name):
    model = NETWORKS[name]((32, 32, 3), 0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            assert not layer.use_bias
        if isinstance(layer, keras.layers.BatchNormalization):
            assert layer.epsilon == 1e-5
            assert layer.momentum == 0.9


def test_running_variance_is_the_biased_one():
    """PyTorch's is larger by n / (n - 1), as docs/design.md says."""
    x = np.random.default_rng(0).normal(size=(3, 2, 1, 4)).astype("float32")
    layer = batch_normalization("normalization")
    layer(x, training=True)
    flat = x.reshape(6, 4).astype("float64")
    biased, unbiased = (0.9 + 0.1 * flat.var(axis=0, ddof=d) for d in (0, 1))
    np.testing.assert_allclose(layer.moving_variance, biased, rtol=1e-5)
    assert (unbiased > 1.001 * biased).all()


# Initialisation.


def assert_normal(weights, mean, deviation):
    """Four standard errors of a sample's mean and of its deviation."""
    error = deviation / np.sqrt(weights.size)
    assert abs(weights.mean() - mean) < 4 * error
    assert abs(weights.std() - deviation) < 4 * error / np.sqrt(2)
    if weights.size > 1e4:
        # A truncated normal would have nothing beyond two deviations.
        assert np.abs(weights - mean).max() > 3 * deviation


@pytest.mark.parametrize(
    "model,convolutions",
    [
        (lambda: networks.wide_resnet(10, 4), 10),
        (lambda: networks.posterior((32, 32, 3), width_factor=0.5), 4),
    ],
    ids=["classifier", "posterior"],
)
def test_convolutions_start_with_fan_out_deviation(model, convolutions):
    kernels = [
        layer.get_weights()[0]
        for layer in model().layers
        if isinstance(layer, keras.layers.Conv2D)
    ]
    assert len(kernels) == convolutions
    for kernel in kernels:
        size, _, _, filters = kernel.shape
        assert_normal(kernel, 0, np.sqrt(2 / (size * size * filters)))


def test_classifier_logits_start_as_a_pytorch_linear_layer():
    kernel, bias = networks.wide_resnet(10, 4).get_layer("logits").get_weights()
    limit = 1 / np.sqrt(256)
    assert np.abs(kernel).max() <= limit
    assert np.abs(kernel).max() > 0.98 * limit
    assert abs(kernel.std() / (limit / np.sqrt(3)) - 1) < 0.05
    np.testing.assert_array_equal(bias, 0)


@pytest.mark.parametrize("name", ["explicit_generator", "implicit_generator"])
def test_generators_start_with_a_deviation_of_two_percent(name):
    """Kernels at N(0, 0.02), gamma at N(1, 0.02), as in the released code."""
    builder = getattr(networks, name)
    gammas, others = [], []
    for layer in builder((16, 16, 3), width_factor=1 / 8).layers:
        weights = layer.get_weights()
        if isinstance(layer, keras.layers.BatchNormalization):
            gammas.append(weights[0])
            others.append(weights[1])
        elif weights:
            assert_normal(weights[0], 0, 0.02)
            others += weights[1:]
    assert len(gammas) == 9
    assert_normal(np.concatenate(gammas), 1, 0.02)
    for beta_or_bias in others:
        np.testing.assert_array_equal(beta_or_bias, 0)


# Single networks.


def test_width_factor_scales_the_widths():
    generator = networks.explicit_generator((8, 8, 1), width_factor=0.25)
    assert generator.get_layer("stem").filters == 64
    assert generator.get_layer("block2_convolution2").filters == 128
    assert generator.get_layer("block3_convolution2").filters == 64
    q = networks.posterior((32, 32, 3), width_factor=0.25)
    widths = [q.get_layer(f"convolution{i}").filters for i in [1, 2, 3, 4]]
    assert widths == [8, 16, 32, 64]


@pytest.mark.parametrize("name", ["implicit_generator", "point_generator"])
def test_tanh_generators_stay_in_the_unit_ball(name):
    generator = NETWORKS[name]((8, 8, 1), 0)
    inputs = [1e3 * value for value in random_inputs(generator, 4)]
    assert np.all(np.abs(run(generator, inputs)) <= 1)


def test_implicit_generator_depends_on_the_latent_vector():
    generator = NETWORKS["implicit_generator"]((8, 8, 1), 0)
    randomize_weights(generator)
    conditioning, z = random_inputs(generator, 2)
    left = run(generator, [conditioning, z])
    right = run(generator, [conditioning, -z])
    assert np.max(np.abs(left - right)) > 1e-3


@pytest.mark.parametrize(
    "shape,padding",
    [((19, 32, 3), "same"), ((20, 20, 3), "valid"), ((8, 8, 1), "same")],
)
def test_posterior_pads_only_images_too_small_for_it(shape, padding):
    q = networks.posterior(shape, width_factor=1 / 32)
    paddings = {q.get_layer(f"convolution{i}").padding for i in [1, 2, 3, 4]}
    assert paddings == {padding}


def test_small_cnn_learns_digits():
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype("float32")
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[500:], order[:500]
    keras.utils.set_random_seed(0)
    classifier = networks.small_cnn(input_shape=(8, 8, 1), num_classes=10)
    classifier.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    classifier.fit(images[train], digits.target[train], 64, epochs=8, verbose=0)
    results = classifier.evaluate(
        images[test], digits.target[test], verbose=0, return_dict=True
    )
    assert results["accuracy"] > 0.97


# Features.


def test_features_are_the_map_before_the_logits():
    classifier = networks.wide_resnet(10, 1)
    randomize_weights(classifier)
    (images,) = random_inputs(classifier, 2)
    features = run(networks.feature_extractor(classifier), [images])
    assert features.shape == (2, 8, 8, 64)
    assert features.min() == 0
    kernel, bias = classifier.get_layer("logits").get_weights()
    logits = features.mean((1, 2)) @ kernel + bias
    np.testing.assert_allclose(run(classifier, [images]), logits, rtol=1e-5)


@pytest.mark.parametrize("name", ["preact_resnet18", "small_cnn"])
def test_named_features_of_the_other_classifiers(name):
    classifier = networks.get(name, input_shape=(8, 8, 1))
    extractor = networks.feature_extractor(classifier)
    assert len(extractor.output_shape) == 4
    assert (
        extractor.output_shape == classifier.get_layer("features").output.shape
    )


def several_outputs():
    """A model without layers of these names; Keras sorts its outputs by key."""
    images = keras.Input((8, 8, 1))
    pooled = keras.layers.GlobalAveragePooling2D()(
        keras.layers.Conv2D(4, 3)(images)
    )
    embedding = keras.layers.Dense(6)(pooled)
    logits = keras.layers.Dense(3)(embedding)
    outputs = {"logits": logits, "embedding": embedding}
    return keras.Model(images, outputs)


def test_the_output_of_a_key_is_found():
    classifier = several_outputs()
    assert checks.num_classes(classifier) == 3
    extractor = networks.feature_extractor(classifier, with_outputs=True)
    (images,) = random_inputs(classifier, 2)
    np.testing.assert_allclose(
        extractor(images)[1], classifier(images)["logits"], rtol=1e-6
    )


def test_features_share_the_classifiers_weights():
    classifier = networks.small_cnn(input_shape=(8, 8, 1), width=4)
    extractor = networks.feature_extractor(classifier)
    (images,) = random_inputs(classifier, 2)
    before = run(extractor, [images])
    randomize_weights(classifier)
    assert np.max(np.abs(run(extractor, [images]) - before)) > 1e-3


def test_features_of_a_model_without_the_name_are_before_the_pooling():
    layers = keras.layers
    inputs = keras.Input((8, 8, 1))
    features = layers.Conv2D(3, 3)(inputs)
    pooled = layers.GlobalAveragePooling2D()(features)
    functional = keras.Model(inputs, layers.Dense(10)(pooled))
    sequential = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(3, 3),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    for classifier in [functional, sequential]:
        extractor = networks.feature_extractor(classifier)
        assert extractor.output_shape == (None, 6, 6, 3)
        (images,) = random_inputs(classifier, 2)
        kernel, bias = classifier.get_weights()[:2]
        np.testing.assert_allclose(
            run(extractor, [images]),
            numpy_convolution(images, kernel) + bias,
            atol=1e-5,
        )


def test_features_of_a_classifier_behind_a_rescaling():
    classifier = networks.small_cnn(input_shape=(8, 8, 1), width=4)
    rescaled = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Rescaling(2.0), classifier]
    )
    (images,) = random_inputs(classifier, 2)
    wrapped = keras.Sequential([keras.Input((8, 8, 1)), classifier])
    np.testing.assert_array_equal(
        run(networks.feature_extractor(wrapped), [images]),
        run(networks.feature_extractor(classifier), [images]),
    )
    np.testing.assert_allclose(
        run(networks.feature_extractor(rescaled), [images]),
        run(networks.feature_extractor(classifier), [2 * images]),
        rtol=1e-6,
    )


def test_features_of_models_without_a_feature_map_are_an_error():
    inputs = keras.Input((5,))
    dense = keras.Model(inputs, keras.layers.Dense(2, name="only")(inputs))
    with pytest.raises(ValueError, match="named 'features'.*only"):
        networks.feature_extractor(dense)

    class Subclassed(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ValueError, match="must be a functional model of one"):
        networks.feature_extractor(Subclassed())
    two = networks.implicit_generator((8, 8, 1), width_factor=TINY)
    with pytest.raises(ValueError, match="must be a functional model of one"):
        networks.feature_extractor(two)
    unbuilt = keras.Sequential([keras.layers.Flatten()])
    with pytest.raises(ValueError, match=r"keras\.Input"):
        networks.feature_extractor(unbuilt)


# Names and errors.


def test_get_passes_its_arguments_on():
    arguments = {"input_shape": (9, 8, 2), "num_classes": 7, "seed": 5}
    for name in ["wrn-10-2", "preact_resnet18", "small_cnn"]:
        classifier = networks.get(name, **arguments)
        assert classifier.name == name
        assert classifier.input_shape == (None, 9, 8, 2)
        assert classifier.output_shape == (None, 7)
    np.testing.assert_array_equal(
        networks.get("wrn-10-2", **arguments).get_weights()[0],
        networks.wide_resnet(10, 2, **arguments).get_weights()[0],
    )


@pytest.mark.parametrize("name", ["resnet", "wrn-28", "WRN-28-10", "", None])
def test_get_lists_the_known_names(name):
    with pytest.raises(ValueError, match="Received: name=") as error:
        networks.get(name)
    for known in ["wrn-<depth>-<widen_factor>", "preact_resnet18", "small_cnn"]:
        assert known in str(error.value)


@pytest.mark.parametrize(
    "build,message",
    [
        (lambda: networks.get("wrn-27-10"), r"6n \+ 4 .* depth=27"),
        (lambda: networks.wide_resnet(4, 1), "at least 10.* depth=4"),
        (lambda: networks.wide_resnet(10, 0), "widen_factor=0"),
        (lambda: networks.wide_resnet(10, 1, num_classes=1), "num_classes=1"),
        (lambda: networks.wide_resnet(10, 1, seed=-1), "seed=-1"),
        (lambda: networks.wide_resnet(10, 1, seed=None), "seed=None"),
        (lambda: networks.preact_resnet18(num_classes=2.5), "num_classes=2.5"),
        (lambda: networks.small_cnn(width=0), "width=0"),
        (
            lambda: networks.small_cnn(input_shape=(32, 32)),
            r"input_shape=\(32, 32\)",
        ),
        (lambda: networks.small_cnn(input_shape=32), "input_shape=32"),
        (
            lambda: networks.explicit_generator((None, 8, 1)),
            r"input_shape=\(None, 8, 1\)",
        ),
        (
            lambda: networks.point_generator((8, 8, 1), width_factor=0),
            "width_factor=0",
        ),
        (
            lambda: networks.implicit_generator((8, 8, 1), latent_size=0),
            "latent_size=0",
        ),
        (
            lambda: networks.posterior((8, 8, 1), width_factor="1"),
            "width_factor='1'",
        ),
        (lambda: networks.posterior((8, 8)), r"input_shape=\(8, 8\)"),
    ],
)
def test_errors_name_the_argument_and_what_was_passed(build, message):
    with pytest.raises(ValueError, match=f"Argument `.*{message}"):
        build()
