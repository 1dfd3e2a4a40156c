import keras
import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, losses, methods, seeds
from adt_tf.training import trainer as trainer_module
from tests.support.models import make_convolutional, predicted

EPSILON = 0.1


def make_trainer(classifier, method=None, **arguments):
    method = method or methods.adt_exp(EPSILON, num_steps=2, num_samples=2)
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, **arguments
    )
    trainer.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"])
    return trainer


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(10)

    def call(self, x):  # no `training` argument, as many have none
        return self.dense(self.flatten(x))


def functional():
    inputs = keras.Input((8, 8, 1))
    outputs = keras.layers.Dense(10)(keras.layers.Flatten()(inputs))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("make", [make_convolutional, functional, Subclassed])
def test_fits_any_kind_of_keras_model(make, images):
    x, y = images
    trainer = make_trainer(make())
    history = trainer.fit(x, y, batch_size=6, epochs=2, verbose=0).history
    assert set(history) == {"accuracy", "entropy", "loss", "perturbation"}
    assert np.isfinite(list(history.values())).all()


@pytest.mark.parametrize("shape", ["(n,)", "(n, 1)", "dataset", "weighted"])
def test_takes_arrays_and_data_sets(shape, images):
    x, y = images
    trainer = make_trainer(make_convolutional())
    inputs = {
        "(n,)": (x, y),
        "(n, 1)": (x, y[:, None].astype("uint8")),
        "dataset": (tf.data.Dataset.from_tensor_slices((x, y)).batch(6),),
        "weighted": (x, y, 6, 1, 0),
    }[shape]
    if shape == "weighted":
        trainer.fit(x, y, sample_weight=np.ones(12), verbose=0)
    else:
        trainer.fit(*inputs, verbose=0)
    assert int(trainer.optimizer.iterations) >= 1


def test_validation_reports_clean_and_adversarial_accuracy(images):
    x, y = images
    classifier = make_convolutional()
    trainer = make_trainer(classifier, methods.at_pgd(EPSILON))
    results = trainer.evaluate(x, y, return_dict=True, verbose=0)
    clean = (predicted(classifier, x) == y).mean()
    np.testing.assert_allclose(results["clean_accuracy"], clean, atol=1e-6)
    assert results["accuracy"] <= results["clean_accuracy"]
    assert 0.5 < results["perturbation"] <= 1.0 + 1e-5


def test_inner_problem_leaves_batch_norm_alone(images):
    x, y = map(tf.constant, images)
    classifier = make_convolutional()
    trainer = make_trainer(classifier)
    before = classifier.get_weights()
    trainer._solve(trainer.attack, x, y, seeds.make(0))
    for old, new in zip(before, classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_outer_step_moves_batch_norm_once(images):
    x, y = images
    classifier = make_convolutional()
    trainer = make_trainer(classifier, methods.standard())
    layer = classifier.layers[1]
    moving = layer.moving_mean.numpy()
    outputs = classifier.layers[0](x).numpy()
    trainer.train_on_batch(x, y)
    expected = 0.99 * moving + 0.01 * outputs.mean((0, 1, 2))
    np.testing.assert_allclose(layer.moving_mean, expected, rtol=1e-4)


def test_standard_training_is_keras_own(images):
    x, y = images
    ours, theirs = make_convolutional(), make_convolutional()
    trainer = make_trainer(ours, methods.standard())
    theirs.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    for _ in range(3):
        trainer.train_on_batch(x, y)
        theirs.train_on_batch(x, y)
    for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_outer_gradient_is_that_of_the_adversarial_images(images):
    x, y = images
    classifier, twin = make_convolutional(), make_convolutional()
    method = methods.at_pgd(EPSILON, num_steps=2)
    trainer = make_trainer(classifier, method)
    seed = seeds.make(0)
    seed = seeds.fold(seed, trainer_module._TRAIN)
    seed = seeds.fold(seed, 0)
    solution = trainer._solve(
        trainer.attack, tf.constant(x), tf.constant(y), seed
    )
    trainer.train_on_batch(x, y)
    twin.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    twin.train_on_batch(solution, y)
    for a, b in zip(classifier.get_weights(), twin.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_regularizers_of_the_classifier_count(images):
    x, y = images
    weights = []
    for l2 in (0.0, 0.5):
        keras.utils.set_random_seed(0)
        classifier = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Flatten(),
                keras.layers.Dense(
                    10, kernel_regularizer=keras.regularizers.L2(l2)
                ),
            ]
        )
        start = classifier.get_weights()[0]
        make_trainer(classifier, methods.standard()).train_on_batch(x, y)
        weights.append(classifier.get_weights()[0])
    # One step of SGD(0.1) on l2 * |w|^2 takes 0.1 * 2 * 0.5 * w away.
    np.testing.assert_allclose(weights[0] - weights[1], 0.1 * start, atol=1e-5)


def test_activity_regularizers_do_not_leak_from_the_inner_loop(images):
    x, y = images
    classifier = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activity_regularizer="l2"),
        ]
    )
    loss = make_trainer(classifier).train_on_batch(x, y, return_dict=True)
    assert np.isfinite(loss["loss"])


def test_outer_samples_average_the_loss(images):
    x, y = images
    trainer = make_trainer(make_convolutional(), outer_samples=3)
    logs = trainer.train_on_batch(x, y, return_dict=True)
    assert np.isfinite(list(logs.values())).all()


def test_weights_of_examples_count_in_either_shape(images):
    x, y = images
    weights = np.zeros(12, "float32")
    weights[0] = 12.0
    results = [
        make_trainer(make_convolutional()).evaluate(
            x, y, sample_weight=w, return_dict=True, verbose=0
        )["loss"]
        for w in (weights, weights[:, None], None)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
    assert abs(results[0] - results[2]) > 1e-3


def test_loss_does_not_depend_on_the_batch_size(images):
    trainer = make_trainer(make_convolutional())
    whole, parts = (
        trainer.evaluate(*images, batch_size=n, return_dict=True, verbose=0)
        for n in (12, 8)
    )
    np.testing.assert_allclose(whole["loss"], parts["loss"], rtol=1e-3)


def test_noise_changes_from_step_to_step(images):
    x, y = images
    seen = []

    class Watch(type(attacks.pgd(EPSILON))):
        def sample(self, x, solution, **arguments):
            tf.py_function(
                lambda s: seen.append(s.numpy().copy()), [solution], []
            )
            return super().sample(x, solution, **arguments)

    plain = attacks.pgd(EPSILON, num_steps=1)
    attack = Watch(plain.family, plain.objective, plain.step_rule, num_steps=1)
    trainer = make_trainer(
        make_convolutional(), methods.Method(attack, losses.cross_entropy)
    )
    trainer.optimizer.learning_rate = 0.0
    trainer.train_on_batch(x, y)
    trainer.train_on_batch(x, y)
    assert np.abs(seen[0] - seen[1]).max() > EPSILON / 2


def softmax_sequential():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def softmax_layer():
    return keras.Sequential([*functional().layers, keras.layers.Softmax()])


class SoftmaxSubclassed(Subclassed):
    def call(self, x):
        return tf.nn.softmax(super().call(x))


@pytest.mark.parametrize("make", [softmax_sequential, softmax_layer])
def test_softmax_is_refused_at_once(make):
    with pytest.raises(ValueError, match="must return logits"):
        make_trainer(make())


def test_softmax_of_a_subclassed_model_is_refused_in_the_step(images):
    trainer = make_trainer(SoftmaxSubclassed())
    with pytest.raises(ValueError, match="softmax"):
        trainer.fit(*images, verbose=0)


BAD_BATCHES = {
    "above 1": (lambda x, y: (x * 255, y), "must be finite and lie in"),
    "below 0": (lambda x, y: (x - 1, y), "must be finite and lie in"),
    "nan": (lambda x, y: (x * np.nan, y), "must be finite and lie in"),
    "inf": (lambda x, y: (x / 0, y), "must be finite and lie in"),
    "int16": (lambda x, y: ((x * 255).astype("int16"), y), "dtype=int16"),
    "no channels": (lambda x, y: (x[..., 0], y), "add a channel axis"),
    "label 10": (lambda x, y: (x, y * 0 + 10), "Labels must lie in 0..9"),
    "label -1": (lambda x, y: (x, y * 0 - 1), "Labels must lie in 0..9"),
    "two-hot": (lambda x, y: (x, 2 * np.eye(10)[y]), "add up to 1"),
    "float labels": (lambda x, y: (x, y + 0.5), "or whole floats"),
}


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_bad_batches_are_refused(kind, images):
    change, message = BAD_BATCHES[kind]
    trainer = make_trainer(make_convolutional())
    with pytest.raises(ValueError, match=message):
        trainer.fit(*change(*images), verbose=0)


def test_unbatched_data_set_is_refused(images):
    trainer = make_trainer(make_convolutional())
    with pytest.raises(ValueError, match="batch the data set"):
        trainer.fit(tf.data.Dataset.from_tensor_slices(images), verbose=0)


def test_labels_are_needed(images):
    with pytest.raises(ValueError, match="needs labels"):
        make_trainer(make_convolutional()).fit(images[0], verbose=0)


def test_rounding_beyond_the_box_is_taken(images):
    x, y = images
    trainer = make_trainer(make_convolutional())
    trainer.fit(x * 0 + 1.0000001, y, verbose=0)
    assert int(trainer.optimizer.iterations) == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"classifier": "vgg"}, "must be a Keras 3 model"),
        ({"attack": "pgd"}, "must be an attack such as"),
        ({"outer_samples": 0}, "outer_samples"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    good = {"classifier": functional(), "attack": attacks.pgd(EPSILON)}
    with pytest.raises(ValueError, match=message):
        adt_tf.AdversarialTrainer(**{**good, **arguments})


def test_compile_refuses_a_loss():
    trainer = adt_tf.AdversarialTrainer(functional(), attacks.pgd(EPSILON))
    with pytest.raises(ValueError, match="does not belong in `compile`"):
        trainer.compile("sgd", loss="mse")


def test_a_frozen_classifier_is_refused(images):
    classifier = functional()
    classifier.trainable = False
    with pytest.raises(ValueError, match="all are frozen"):
        make_trainer(classifier).fit(*images, verbose=0)


def test_dropout_goes_on_after_a_checkpoint(images, tmp_path):
    x, y = images

    def make():
        dropout = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Dropout(0.5, seed=3),
                keras.layers.Flatten(),
                keras.layers.Dense(
                    10, kernel_initializer=keras.initializers.GlorotUniform(1)
                ),
            ]
        )
        return make_trainer(dropout, methods.at_pgd(EPSILON, num_steps=1))

    def losses_of(trainer):
        history = trainer.fit(x, y, epochs=2, shuffle=False, verbose=0)
        return history.history["loss"]

    first, resumed = make(), make()
    losses_of(first)
    path = first.checkpoint().write(str(tmp_path / "state"))
    resumed.checkpoint().read(path).assert_consumed()
    assert losses_of(resumed) == losses_of(first)
