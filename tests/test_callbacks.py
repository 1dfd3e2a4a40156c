import hashlib
import json
import os
import pathlib
import re
import warnings

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, checks, configs, data, methods
from adt_tf.callbacks import (
    CatastrophicOverfitting,
    EpsilonWarmup,
    RobustCheckpoint,
    warn_if_test_set,
)
from adt_tf.optimizers import SGD
from tests.support.models import make_convolutional

EPSILON = 0.1
ATTACK = attacks.pgd(EPSILON, num_steps=10)


# Tsipras et al., Robustness May Be at Odds with Accuracy, 2019: one pixel is
# robust but right nine times in ten only, the others are right always but move
# less than epsilon. Training on clean images trades the first for the others.
def make_dilemma(size=100):
    labels = np.arange(size, dtype="int32") % 2
    sign = 2.0 * labels - 1.0
    images = np.repeat(0.5 + 0.02 * sign[:, None], 16, axis=1)
    images[:, 0] = 0.5 + np.where(np.arange(size) % 20 < 2, -0.3, 0.3) * sign
    return images.reshape(size, 4, 4, 1).astype("float32"), labels


def make_classifier(robust=1.0, fragile=0.0):
    """Linear, with weights on the robust pixel and on the fragile ones."""
    classifier = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Rescaling(1.0, offset=-0.5),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
    )
    classifier.set_weights(linear_weights(robust, fragile))
    return classifier


def linear_weights(robust, fragile):
    kernel = np.full([16, 2], fragile, "float32")
    kernel[0] = robust
    return [kernel * [-1, 1], np.zeros(2)]


ROBUST, FRAGILE = (1.0, 0.0), (0.0, 1.0)


def robust_accuracy_by_hand(weights, images, labels):
    """Of a linear classifier: the margin falls by epsilon * |w|_1."""
    kernel, bias = weights
    flat = images.reshape(len(images), -1) - 0.5
    kernel, bias = kernel[:, 1] - kernel[:, 0], bias[1] - bias[0]
    margin = (2 * labels - 1) * (flat @ kernel + bias)
    return np.mean(margin > EPSILON * np.abs(kernel).sum())


def make_trainer(classifier, optimizer=None, method=None):
    method = method or methods.standard()
    trainer = adt_tf.AdversarialTrainer(classifier, method.attack, method.loss)
    trainer.compile(optimizer or keras.optimizers.Adam(0.01))
    return trainer


def fit(trainer, dataset, callbacks, epochs=1, **arguments):
    return trainer.fit(
        *dataset,
        batch_size=20,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
        shuffle=False,
        **arguments,
    ).history


class Record(keras.callbacks.Callback):
    """Keeps the classifier's weights after each epoch and each batch."""

    def __init__(self):
        super().__init__()
        self.epochs, self.batches = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(self.model.classifier.get_weights())

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(self.model.classifier.get_weights())


@pytest.fixture
def dilemma():
    return make_dilemma()


def assert_same_weights(ours, theirs, **tolerance):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, **{"rtol": 0, **tolerance})


@pytest.fixture(scope="module")
def trainer():
    """For `play`: traced once for all, and never trained."""
    return make_trainer(make_classifier())


def play(trainer, callback, scenes, steps=1):
    """Runs a callback through epochs of given weights and accuracies.

    `steps` is how many the optimiser has taken: none in a run that is new.
    """
    trainer.optimizer.iterations.assign(steps)
    trainer.stop_training = False
    callback.set_model(trainer)
    trainer.classifier.set_weights(linear_weights(*ROBUST))
    callback.on_train_begin()
    for epoch, (weights, accuracy) in enumerate(scenes):
        trainer.classifier.set_weights(linear_weights(*weights))
        callback.on_epoch_end(epoch, {"accuracy": accuracy})
        if trainer.stop_training:
            return epoch + 1
    return len(scenes)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_keeps_the_most_robust_epoch_of_a_real_training(dilemma, tmp_path):
    path = tmp_path / "new" / "best.keras"
    checkpoint = RobustCheckpoint(dilemma, EPSILON, path, batch_size=30)
    record = Record()
    history = fit(
        make_trainer(make_classifier()), dilemma, [checkpoint, record], epochs=8
    )
    by_hand = [robust_accuracy_by_hand(w, *dilemma) for w in record.epochs]
    np.testing.assert_allclose(history["val_robust_accuracy"], by_hand)
    assert by_hand[0] > 0.8 > 0.2 > by_hand[-1]
    best = int(np.argmax(by_hand))
    saved = keras.saving.load_model(path)
    assert_same_weights(saved.get_weights(), record.epochs[best], atol=0)
    assert json.loads(path.with_suffix(".json").read_text()) == {
        "format": 1,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "epoch": best + 1,
        "natural_accuracy": history["val_natural_accuracy"][best],
        "robust_accuracy": by_hand[best],
        "attack": repr(ATTACK),
        "fingerprint": configs.fingerprint(ATTACK),
        "num_examples": 100,
        "seed": 0,
        "examples_sha256": checks.digest(*checkpoint.data),
        "replaces": None,
    }
    assert set(files(path.parent)) == {"best.json", "best.keras"}


def test_numbers_are_those_of_evaluate_on_the_file(tmp_path):
    digits = data.load("digits", split="train", validation_examples=97)
    held_out = data.load("digits", split="validation", validation_examples=97)
    assert warn_if_test_set(held_out.images, digits.images) == 0
    classifier = adt_tf.networks.small_cnn(input_shape=(8, 8, 1), width=4)
    trainer = make_trainer(
        classifier, SGD(0.2, l2=2e-4), methods.at_pgd(EPSILON, num_steps=1)
    )
    path = tmp_path / "best.keras"
    checkpoint = RobustCheckpoint(held_out, ATTACK, path)
    fit(trainer, (digits.images[:400], digits.labels[:400]), [checkpoint], 2)
    report = adt_tf.evaluate(
        keras.saving.load_model(path), held_out, [ATTACK], verbose=False
    )
    assert checkpoint.best["robust_accuracy"] == report.robust_accuracy
    assert checkpoint.best["natural_accuracy"] == report.accuracy["natural"]


def test_callbacks_after_it_see_the_numbers(dilemma, tmp_path):
    csv = [tmp_path / "before.csv", tmp_path / "after.csv"]
    before, after = (keras.callbacks.CSVLogger(str(path)) for path in csv)
    checkpoint = RobustCheckpoint(dilemma, ATTACK, tmp_path / "best.keras")
    trainer = make_trainer(make_classifier())
    fit(trainer, dilemma, [before, checkpoint, after])
    assert "val_robust_accuracy" not in csv[0].read_text()
    header, row = csv[1].read_text().split()
    values = dict(zip(header.split(","), row.split(","), strict=True))
    assert float(values["val_robust_accuracy"]) == 0.9
    assert float(values["val_natural_accuracy"]) == 0.9


def test_a_resumed_run_keeps_the_better_one(trainer, dilemma, tmp_path):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    before = files(tmp_path)
    # Worse ones, and others as good, leave the files alone.
    resumed = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, resumed, [(FRAGILE, 1.0), ((2.0, 0.0), 0.9)])
    assert files(tmp_path) == before
    assert resumed.best["epoch"] == 1


def test_a_resumed_run_replaces_a_worse_one(trainer, dilemma, tmp_path):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(FRAGILE, 1.0)])
    assert json.loads(path.with_suffix(".json").read_text())["epoch"] == 1
    resumed = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, resumed, [(FRAGILE, 1.0), (ROBUST, 0.9)])
    best = json.loads(path.with_suffix(".json").read_text())
    assert (best["epoch"], best["robust_accuracy"]) == (2, 0.9)
    saved = keras.saving.load_model(path).get_weights()
    assert_same_weights(saved, linear_weights(*ROBUST), atol=0)


def test_a_new_run_is_told_of_the_files_of_another(trainer, dilemma, tmp_path):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    before = files(tmp_path)
    again = RobustCheckpoint(dilemma, ATTACK, path)
    with pytest.warns(
        UserWarning, match="earlier run .*90.00 %.* replaces it only"
    ):
        play(trainer, again, [(FRAGILE, 1.0)], steps=0)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "step", ["keras.Model.save", "adt_tf.files.write_text", "os.replace"]
)
def test_a_failed_write_leaves_the_last_best(
    step, trainer, dilemma, tmp_path, monkeypatch
):
    checkpoint = RobustCheckpoint(dilemma, ATTACK, tmp_path / "best.keras")
    play(trainer, checkpoint, [(FRAGILE, 1.0)])
    before = files(tmp_path)

    def fail(*arguments, **_):
        for path in arguments:
            if isinstance(path, pathlib.Path) and "partial" in str(path):
                path.write_bytes(b"half a file")
        raise OSError("No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match="No space left"):
        play(trainer, checkpoint, [(ROBUST, 0.9)])
    assert files(tmp_path) == before


@pytest.mark.parametrize("earlier", [[], [(FRAGILE, 1.0)]])
def test_a_run_killed_between_the_renames_goes_on(
    earlier, trainer, dilemma, tmp_path, monkeypatch
):
    path = tmp_path / "best.keras"
    checkpoint = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, checkpoint, earlier)
    before = checkpoint.best
    rename, done = os.replace, []

    def once(source, target):
        if done:
            raise KeyboardInterrupt
        done.append(rename(source, target))

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", once)
        play(trainer, checkpoint, [(ROBUST, 0.9)])
    # The best before it counts, and the epoch that is run again replaces it.
    resumed = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, resumed, [])
    assert resumed.best == before
    play(trainer, resumed, [(ROBUST, 0.9)])
    again = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, again, [(FRAGILE, 1.0), ((2.0, 0.0), 0.9)])
    assert again.best["robust_accuracy"] == 0.9
    assert set(files(tmp_path)) == {"best.json", "best.keras"}
    saved = keras.saving.load_model(path).get_weights()
    assert_same_weights(saved, linear_weights(*ROBUST), atol=0)


def test_a_diverged_classifier_is_an_error_and_leaves_the_best(
    trainer, dilemma, tmp_path
):
    checkpoint = RobustCheckpoint(dilemma, ATTACK, tmp_path / "best.keras")
    play(trainer, checkpoint, [(ROBUST, 0.9)])
    before = files(tmp_path)
    with pytest.raises(ValueError, match="did training diverge"):
        play(trainer, checkpoint, [((np.nan, np.nan), 0.5)])
    assert files(tmp_path) == before


OTHER = (
    '{"attack": "", "num_examples": 100, "robust_accuracy": 0, "sha256": ""}'
)


@pytest.mark.parametrize("record", [None, "{", "{}", "[]", OTHER])
def test_a_file_of_unknown_origin_is_not_overwritten(
    record, trainer, dilemma, tmp_path
):
    path = tmp_path / "best.keras"
    path.write_bytes(b"precious")
    if record is not None:
        path.with_suffix(".json").write_text(record)
    with pytest.raises(ValueError, match="does not state its robust accuracy"):
        play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("changed", ["labels", "seed"])
def test_other_examples_or_noise_cannot_be_compared(
    changed, trainer, dilemma, tmp_path
):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    (x, y), seed = dilemma, 0
    if changed == "labels":
        y = 1 - y
    else:
        seed = 1
    other = RobustCheckpoint((x, y), ATTACK, path, seed=seed)
    with pytest.raises(ValueError, match="cannot be compared"):
        play(trainer, other, [(ROBUST, 0.9)])


def test_a_record_without_its_examples_goes_on(trainer, dilemma, tmp_path):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    record = json.loads(path.with_suffix(".json").read_text())
    for name in ("seed", "examples_sha256"):
        del record[name]
    path.with_suffix(".json").write_text(json.dumps(record))
    resumed = RobustCheckpoint(dilemma, ATTACK, path)
    play(trainer, resumed, [(FRAGILE, 1.0)])
    assert resumed.best["epoch"] == 1


def test_another_attack_cannot_be_compared(trainer, dilemma, tmp_path):
    path = tmp_path / "best.keras"
    play(trainer, RobustCheckpoint(dilemma, ATTACK, path), [(ROBUST, 0.9)])
    other = RobustCheckpoint(dilemma, 2 * EPSILON, path)
    with pytest.raises(ValueError, match="cannot be compared"):
        play(trainer, other, [(ROBUST, 0.9)])


def test_notices_a_real_collapse(dilemma):
    """Clean training from a robust start: each step is one of gradients."""
    record = Record()
    callback = CatastrophicOverfitting(dilemma, EPSILON)
    with pytest.warns(UserWarning, match="Catastrophic") as caught:
        history = fit(
            make_trainer(make_classifier()), dilemma, [callback, record], 8
        )
    by_hand = [robust_accuracy_by_hand(w, *dilemma) for w in record.epochs]
    first = next(i for i, r in enumerate(by_hand) if r < 0.9 / 2)
    assert 0 < first < 7 and history["accuracy"][first] > 0.89
    messages = [str(w.message) for w in caught if "Catas" in str(w.message)]
    assert len(messages) == 1
    for part in (
        f"in epoch {first + 1}:",
        f"under PGD-10 is {100 * by_hand[first]:.2f} %",
        "was 90.00 % at its best",
        f"training accuracy is {100 * history['accuracy'][first]:.2f} %",
        "RobustCheckpoint",
        "smaller step size, more steps, a random start, or a smaller learning",
    ):
        assert part in messages[0]


SCENES = {
    "healthy": ([(ROBUST, 0.5), (ROBUST, 0.7), (ROBUST, 0.9)], []),
    "collapse": ([(ROBUST, 0.5), (FRAGILE, 0.8), (FRAGILE, 0.9)], [2]),
    "stays within noise": ([(ROBUST, 0.5), (FRAGILE, 0.49)], [2]),
    "from the start": ([(FRAGILE, 0.3)], [1]),
    "training falls too": ([(ROBUST, 0.5), (FRAGILE, 0.3)], []),
    "training recovers": (
        [(ROBUST, 0.5), (FRAGILE, 0.3), (FRAGILE, 0.6), (FRAGILE, 0.4)],
        [3],
    ),
    "twice": (
        [(ROBUST, 0.5), (FRAGILE, 0.8), (ROBUST, 0.5), (FRAGILE, 0.9)],
        [2, 4],
    ),
}


def collapses(trainer, dataset, scenes, **arguments):
    """Returns the epochs with a warning, and the number of epochs."""
    callback = CatastrophicOverfitting(dataset, ATTACK, **arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epochs = play(trainer, callback, scenes)
    matches = (re.search(r"in epoch (\d+):", str(w.message)) for w in caught)
    return [int(match[1]) for match in matches if match], epochs


@pytest.mark.parametrize("name", SCENES)
def test_tells_each_collapse_once(name, trainer, dilemma):
    scenes, epochs = SCENES[name]
    assert collapses(trainer, dilemma, scenes) == (epochs, len(scenes))


def test_patience_waits_for_a_lasting_collapse(trainer, dilemma):
    scenes = [(FRAGILE, 0.9), (ROBUST, 0.9), *[(FRAGILE, 0.9)] * 3]
    assert collapses(trainer, dilemma, scenes, patience=2) == ([4], 5)


def test_a_small_fall_is_no_collapse(trainer, dilemma):
    scenes = [(ROBUST, 0.5), (FRAGILE, 0.9)]
    assert collapses(trainer, dilemma, scenes, drop=0.95) == ([], 2)


def test_stops_training_where_asked(trainer, dilemma):
    scenes = [(ROBUST, 0.5), *[(FRAGILE, 0.9)] * 4]
    assert collapses(trainer, dilemma, scenes, stop_training=True) == ([2], 2)


def test_training_accuracy_is_needed(trainer, dilemma):
    callback = CatastrophicOverfitting(dilemma, ATTACK)
    with pytest.raises(ValueError, match=r'metrics=\["accuracy"\]'):
        play(trainer, callback, [(ROBUST, None)])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda d: RobustCheckpoint(d, "pgd", "a.keras"), "must be an attack"),
        (lambda d: RobustCheckpoint(d, ATTACK, "a.h5"), "end in '.keras'"),
        (lambda d: RobustCheckpoint(d[0], ATTACK, "a.keras"), "images, labels"),
        (lambda d: CatastrophicOverfitting(d, ATTACK, drop=20), "`drop`"),
        (
            lambda d: CatastrophicOverfitting(d, ATTACK, patience=0),
            "`patience`",
        ),
        (
            lambda d: CatastrophicOverfitting(d, attacks.fgsm(EPSILON)),
            "many steps",
        ),
    ],
)
def test_bad_arguments_are_refused(make, message, dilemma):
    with pytest.raises(ValueError, match=message):
        make(dilemma)


def test_a_model_that_is_no_trainer_is_refused(dilemma):
    classifier = make_classifier()
    classifier.compile("sgd", "mse")
    with pytest.raises(ValueError, match="`fit` of an `AdversarialTrainer`"):
        fit(classifier, dilemma, [CatastrophicOverfitting(dilemma, EPSILON)])


@pytest.mark.parametrize(
    "scale",
    [
        np.asarray,
        lambda x: x / 255,
        lambda x: data.scale_images(x).numpy(),
        lambda x: np.nextafter((x / 255).astype("float32"), np.float32(0)),
    ],
)
@pytest.mark.parametrize("shared", [1, 5])
def test_warns_of_test_images(shared, scale):
    pixels = np.arange(20 * 16).astype("uint8").reshape(20, 4, 4, 1)
    validation, test = pixels[:5], pixels[5:15]
    assert warn_if_test_set(validation, scale(test)) == 0
    # Scaled in any of the usual ways, an image is still the same.
    test = np.concatenate([test, validation[:shared]])
    with pytest.warns(UserWarning, match=f"{shared} of 5 .* the test set"):
        assert warn_if_test_set(validation, scale(test)) == shared


OPTIMIZERS = {
    "keras": lambda **ema: keras.optimizers.SGD(0.05, momentum=0.9, **ema),
    "l2": lambda **ema: SGD(0.05, momentum=0.9, l2=1e-3, **ema),
}


def train(optimizer, dataset, callbacks):
    """Three epochs of adversarial training of a network with batch norm."""
    method = methods.at_pgd(EPSILON, num_steps=1)
    trainer = make_trainer(make_convolutional(), optimizer, method)
    fit(trainer, dataset, callbacks, epochs=3, validation_data=dataset)
    return trainer.classifier


@pytest.fixture(scope="module")
def plain():
    """Images, and a run on them without any callback but a recorder."""
    generator = np.random.default_rng(1)
    images = generator.uniform(size=(40, 8, 8, 1)).astype("float32")
    dataset = images, generator.integers(0, 10, 40).astype("int32")
    record = Record()
    train(OPTIMIZERS["l2"](), dataset, [record])
    return dataset, record


def test_training_is_the_same_with_and_without(plain, tmp_path):
    dataset, expected = plain
    record = Record()
    checkpoint = RobustCheckpoint(dataset, ATTACK, tmp_path / "best.keras")
    watch = CatastrophicOverfitting(dataset, ATTACK)
    train(OPTIMIZERS["l2"](), dataset, [checkpoint, watch, record])
    for ours, theirs in zip(record.epochs, expected.epochs, strict=True):
        assert_same_weights(ours, theirs, atol=0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_averaged_weights_are_what_is_measured_and_kept(name, plain, tmp_path):
    dataset, without = plain
    optimizer = OPTIMIZERS[name](use_ema=True, ema_momentum=0.8)
    before, after = Record(), Record()
    checkpoint = RobustCheckpoint(dataset, ATTACK, tmp_path / "best.keras")
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    classifier = train(optimizer, dataset, [before, swap, after, checkpoint])

    trained = [weight.trainable for weight in classifier.weights]
    averages = average_by_hand(before.batches, trained, momentum=0.8)
    steps = len(averages) // 3
    for epoch in range(3):
        expected = averages[(epoch + 1) * steps - 1]
        assert_same_weights(after.epochs[epoch], expected, atol=1e-5)
        assert distance(before.epochs[epoch], expected) > 1e-3
    assert_same_weights(classifier.get_weights(), averages[-1], atol=1e-5)
    saved = keras.saving.load_model(checkpoint.path).get_weights()
    best = after.epochs[checkpoint.best["epoch"] - 1]
    assert_same_weights(saved, best, atol=0)
    if name == "l2":
        # The swap adds and subtracts, so it leaves a rounding behind.
        for ours, theirs in zip(before.epochs, without.epochs, strict=True):
            assert_same_weights(ours, theirs, atol=1e-4)


def average_by_hand(steps, trained, momentum):
    """a <- momentum * a + (1 - momentum) * w, from the w after step 1.

    What is not trained, batch norm's statistics, is as the step left it.
    """
    averages = [steps[0]]
    for weights in steps[1:]:
        averages.append(
            [
                momentum * a + (1 - momentum) * w if is_trained else w
                for a, w, is_trained in zip(
                    averages[-1], weights, trained, strict=True
                )
            ]
        )
    return averages


def distance(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return max(np.abs(a - b).max() for a, b in pairs)


@pytest.mark.parametrize("name", ["at_pgd", "adt_exp"])
def test_epsilon_warms_up(name, images):
    x, y = images
    logged = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logged.append(
                (
                    float(self.model.epsilon_share),
                    logs["perturbation"],
                    logs["val_perturbation"],
                )
            )

    method = methods.get(name, epsilon=0.2, num_steps=3)
    trainer = adt_tf.AdversarialTrainer(
        make_convolutional(), method.attack, method.loss
    )
    trainer.compile(keras.optimizers.SGD(0.0))
    trainer.fit(
        x,
        y,
        epochs=4,
        validation_data=(x, y),
        verbose=0,
        callbacks=[EpsilonWarmup(3), Watch()],
    )
    np.testing.assert_allclose(
        [row[0] for row in logged], [1 / 3, 2 / 3, 1.0, 1.0], rtol=1e-6
    )
    # Steps grow with epsilon, so the share of the ball that is used stays.
    shares = [share for row in logged for share in row[1:]]
    assert max(shares) - min(shares) < 0.15 and max(shares) <= 1.00001
    assert method.attack.threat_model.epsilon == 0.2
    with pytest.raises(ValueError, match="num_epochs"):
        EpsilonWarmup(0)


@pytest.mark.parametrize("name", ["at_pgd", "adt_exp", "adt_imp_am"])
def test_half_of_an_epsilon_is_the_epsilon_of_half_the_size(name, images):
    x, y = images
    sizes = {"num_steps": 2}
    if name == "adt_imp_am":
        sizes = {"input_shape": x.shape[1:], "width_factor": 0.1}

    def trained(epsilon, callbacks):
        method = methods.get(name, epsilon=epsilon, **sizes)
        trainer = adt_tf.AdversarialTrainer(
            make_convolutional(), method.attack, method.loss
        )
        trainer.compile(keras.optimizers.SGD(0.01))
        history = trainer.fit(
            x, y, shuffle=False, verbose=0, callbacks=callbacks
        )
        return history.history, trainer.get_weights()

    ours, weights = trained(0.2, [EpsilonWarmup(2)])
    theirs, others = trained(0.1, [])
    for metric in theirs:
        np.testing.assert_allclose(ours[metric], theirs[metric], rtol=1e-4)
    for weight, other in zip(weights, others, strict=True):
        np.testing.assert_allclose(weight, other, atol=1e-5)


def test_a_warm_up_is_traced_once(images):
    x, y = images
    attack = methods.get("at_pgd", epsilon=0.2, num_steps=1).attack
    scaled, traces = attack.scaled, []
    attack.scaled = lambda share: traces.append(share) or scaled(share)
    trainer = adt_tf.AdversarialTrainer(make_convolutional(), attack)
    trainer.compile(keras.optimizers.SGD(0.0))
    trainer.fit(x, y, verbose=0)
    assert not traces
    # The step above is there already, and does not read the share.
    trainer.fit(
        x,
        y,
        epochs=3,
        validation_data=(x, y),
        verbose=0,
        callbacks=[EpsilonWarmup(4)],
    )
    assert len(traces) == 2
    assert float(trainer.epsilon_share) == 1.0
