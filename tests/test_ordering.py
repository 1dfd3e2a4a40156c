"""The order of strength that the field expects, on a robust classifier."""

import keras
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks, data, networks
from adt_tf.runs import evaluation_job

EPSILON = 0.15
PAPER = ["fgsm", "pgd-20", "pgd-100", "mim-random-20", "cw-30", "fea"]


@pytest.fixture(scope="module")
def robust():
    x, y = data.as_arrays(data.load("digits", split="train"))
    classifier = networks.get("small_cnn", input_shape=(8, 8, 1), width=16)
    method = adt_tf.methods.at_pgd(EPSILON)
    trainer = adt_tf.AdversarialTrainer(
        classifier, method.attack, method.loss, seed=0
    )
    trainer.compile(keras.optimizers.Adam(0.003))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(
        64, drop_remainder=True
    )
    trainer.fit(batches, epochs=12, verbose=0)
    return classifier


@pytest.mark.slow
def test_autoattack_paper_single_attacks_natural(robust):
    test = data.load("digits", split="test", num_examples=200)
    chosen = evaluation_job.build_attacks(PAPER, EPSILON, test)
    paper = adt_tf.evaluate(robust, test, chosen, independent=True)
    standing = adt_tf.evaluate(robust, test, chosen)
    auto = adt_tf.evaluate(robust, test, attacks.autoattack(EPSILON))
    # A classifier that all attacks break, or none, would show nothing.
    assert 0.3 < paper.robust_accuracy < 0.95
    assert auto.robust_accuracy <= paper.robust_accuracy
    for name, accuracy in paper.accuracy.items():
        assert paper.robust_accuracy <= accuracy, name
        assert accuracy <= paper.accuracy["natural"], name
    # Attacking the survivors only gives the same A_rob, but for rounding in
    # batches of another size.
    assert (standing.robust != paper.robust).sum() <= 1
