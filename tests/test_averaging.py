"""The averaged weights beside NumPy; who sees which weights."""

import keras
import numpy as np
import pytest

import adt_tf
from adt_tf import callbacks, methods
from adt_tf.training.averaging import WeightAverage
from tests.support.models import make_convolutional


def make_trainer(momentum, classifier=None):
    method = methods.at_pgd(0.1, num_steps=1)
    trainer = adt_tf.AdversarialTrainer(
        classifier or make_convolutional(),
        method.attack,
        method.loss,
        average=momentum if momentum is None else WeightAverage(momentum),
    )
    trainer.compile(keras.optimizers.SGD(0.1))
    return trainer


def values(average):
    return [v.numpy() for v in average.variables]


def test_an_average_by_hand(images):
    trainer = make_trainer(0.3)
    expected = [w.astype("float64") for w in trainer.classifier.get_weights()]
    for t in range(6):
        trainer.train_on_batch(*images)
        m = min(0.3, (1 + t) / (10 + t))
        expected = [
            m * a + (1 - m) * w
            for a, w in zip(
                expected, trainer.classifier.get_weights(), strict=True
            )
        ]
    for got, right in zip(values(trainer.average), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)


def test_it_changes_nothing_of_the_training(images):
    ends = []
    for momentum in (None, 0.9):
        trainer = make_trainer(momentum)
        for _ in range(2):
            trainer.train_on_batch(*images)
        ends.append(trainer.classifier.get_weights())
    for plain, averaged in zip(*ends, strict=True):
        np.testing.assert_array_equal(plain, averaged)


def test_a_momentum_of_0_is_the_last_weights(images):
    trainer = make_trainer(0.0)
    trainer.train_on_batch(*images)
    for a, w in zip(
        values(trainer.average), trainer.classifier.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(a, w)


def test_what_measures_and_keeps_sees_the_average(images, tmp_path):
    seen = {}

    class Watch(keras.callbacks.Callback):
        def weights(self):
            return self.model.classifier.get_weights()

        def on_epoch_begin(self, epoch, logs=None):
            seen[f"begin {epoch}"] = self.weights()

        def on_train_batch_end(self, batch, logs=None):
            seen["trained"] = self.weights()
            seen["average"] = values(self.model.average)

        def on_test_batch_end(self, batch, logs=None):
            seen["tested"] = self.weights()

        def on_epoch_end(self, epoch, logs=None):
            seen[f"end {epoch}"] = self.weights(), seen["average"]

    trainer = make_trainer(0.9)
    path = tmp_path / "best.keras"
    trainer.fit(
        *images,
        validation_data=images,
        epochs=2,
        verbose=0,
        callbacks=[
            callbacks.AveragedWeights(),
            callbacks.RobustCheckpoint(images, 0.1, path),
            Watch(),
        ],
    )

    def same(ours, theirs):
        return all(map(np.array_equal, ours, theirs))

    assert same(seen["tested"], seen["average"])
    assert all(same(*seen[f"end {epoch}"]) for epoch in (0, 1))
    assert same(trainer.classifier.get_weights(), seen["trained"])
    assert not same(seen["trained"], seen["average"])
    best = keras.models.load_model(path).get_weights()
    assert any(same(best, seen[f"end {epoch}"][1]) for epoch in (0, 1))
    trainer.average.swap()
    assert same(trainer.classifier.get_weights(), seen["average"])


def test_saved_with_the_trainer(images, tmp_path):
    trainer = make_trainer(0.9)
    trainer.fit(*images, verbose=0)
    trainer.save(tmp_path / "trainer.keras")
    again = keras.models.load_model(tmp_path / "trainer.keras")
    for a, b in zip(
        values(trainer.average), values(again.average), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    for each in (trainer, again):
        each.train_on_batch(*images)
    for a, b in zip(
        values(trainer.average), values(again.average), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_nonsense_is_refused(momentum):
    with pytest.raises(ValueError, match="`momentum` must be"):
        WeightAverage(momentum)


def test_the_callback_needs_an_average(images):
    with pytest.raises(ValueError, match="average=WeightAverage"):
        make_trainer(None).fit(
            *images, verbose=0, callbacks=[callbacks.AveragedWeights()]
        )


def test_an_average_belongs_to_one_classifier():
    average = WeightAverage(0.9)
    average.build(make_convolutional())
    with pytest.raises(ValueError, match="already averages another classifier"):
        average.build(make_convolutional())
