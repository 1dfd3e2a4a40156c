"""A program of a user, for the type checker: it is checked, never run."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, distributions, methods, threat_models


def build(input_shape: tuple[int, int, int]) -> keras.Model:
    """Returns a classifier from images in [0, 1] to logits."""
    classifier: keras.Model = adt_tf.networks.get(
        "small_cnn", input_shape=input_shape
    )
    return classifier


def train(classifier: keras.Model, images: data.ImageData) -> None:
    """Trains the classifier in place."""
    method: methods.Method = methods.adt_exp(epsilon=0.15, num_steps=3)
    trainer: adt_tf.AdversarialTrainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=0
    )
    trainer.compile(keras.optimizers.SGD(0.1), metrics=["accuracy"])
    trainer.fit(*data.as_arrays(images), batch_size=64, epochs=1)


def attack_of(ball: threat_models.ThreatModel) -> attacks.Attack:
    """Composes PGD from its parts."""
    return attacks.GradientAscent(
        distributions.Dirac(ball),
        adt_tf.objectives.cross_entropy,
        adt_tf.step_rules.steepest(ball.epsilon / 4),
        num_steps=20,
        name="PGD-20",
    )


def judge(classifier: keras.Model, images: data.ImageData) -> float:
    """Returns the accuracy under two attacks together."""
    ball = threat_models.Linf(0.15)
    report = adt_tf.evaluate(
        classifier, images, [attack_of(ball), attacks.fgsm(ball)]
    )
    accuracies: dict[str, float] = report.accuracy
    if accuracies["PGD-20"] > accuracies["natural"]:
        raise ValueError("An attack never helps.")
    findings = adt_tf.lint(classifier, images)
    print(report, findings)
    robust: float = report.robust_accuracy
    return robust


def perturbed(classifier: keras.Model, images: np.ndarray) -> tf.Tensor:
    """Returns adversarial images of one batch."""
    x = tf.constant(images)
    y = tf.argmax(classifier(x), axis=1)
    batch: attacks.AdversarialBatch = attacks.pgd(0.15)(classifier, x, y)
    return batch.x_adv


def main(folder: pathlib.Path) -> None:
    """Trains, judges and ships a classifier."""
    images = data.load("digits", split="train")
    classifier = build((8, 8, 1))
    train(classifier, images)
    print(judge(classifier, data.load("digits", split="test")))
    adt_tf.export(classifier, folder / "saved_model")
    version: str = adt_tf.__version__
    names: list[str] = list(adt_tf.presets())
    print(version, names)
    other = adt_tf.load_classifier(folder / "saved_model")
    print(other.input_shape, adt_tf.from_preset(names[0]).name)
