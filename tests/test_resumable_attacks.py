"""An attack that runs in pieces has the same result."""

import numpy as np
import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks
from adt_tf.attacks.resumable import Pieces
from adt_tf.evaluation import loop, state
from adt_tf.threat_models import L2, Linf
from tests.support.models import make_convolutional
from tests.support.tables import make_attack

# One or more of each class of attack; names of the table.
NAMES = (
    "pgd",
    "mim",
    "exp",
    "spsa",
    "langevin",
    "uniform",
    "apgd_t",
    "fab_t",
    "square",
    "restarts",
    "transfer",
    "l2l",
)
# More than one block of Square's noise.
MORE = {"square": {"num_queries": 120}}


@pytest.fixture(scope="module")
def classifier():
    return make_convolutional()


@pytest.mark.parametrize("ball", [Linf(0.02), L2(0.1)], ids=["linf", "l2"])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_end_as_the_whole(classifier, images, name, ball):
    attack = make_attack(name, ball, **MORE.get(name, {}))
    part = attack.num_parts - 1
    whole = attack(classifier, *images, seed=5, part=part)
    pieces = Pieces(attack, classifier, *images, seed=5, part=part)
    sizes = iter([1, 2, 50] + [7] * 100)
    calls = 0
    while not pieces.done:
        pieces.advance(next(sizes))
        calls += 1
    assert calls >= min(2, attack.length) or name == "square"
    for one, other in zip(whole, pieces.finish(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_evaluation_goes_on_within_a_batch(
    classifier, images, monkeypatch, tmp_path
):
    """What was done of a batch before an end is not done again."""
    x, _ = images
    y = classifier(x).numpy().argmax(-1).astype("int32")
    monkeypatch.setattr(loop, "_PIECE_SECONDS", 0.0)
    monkeypatch.setattr(state, "_SAVE_EVERY", 0.0)
    taken = []

    class Counted(Pieces):
        def advance(self, num_steps):
            if len(taken) == 6:
                raise KeyboardInterrupt
            super().advance(num_steps)
            taken.append(self.step)

    def run(directory):
        attack = attacks.pgd(0.001, num_steps=10)
        return adt_tf.evaluate(
            classifier,
            (x, y),
            [attack],
            batch_size=12,
            directory=directory,
            verbose=False,
        )

    whole = run(None)
    monkeypatch.setattr(loop, "Pieces", Counted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert taken == [1, 2, 3, 4, 5, 6]
    taken.clear()
    report = run(tmp_path)
    assert taken == [7, 8, 9, 10]
    assert report.outcomes.keys() == whole.outcomes.keys()
    for name in whole.outcomes:
        np.testing.assert_array_equal(
            report.outcomes[name], whole.outcomes[name]
        )
    assert list(tmp_path.iterdir()) == []


def test_a_batch_saved_for_others_is_left_alone(classifier, images, tmp_path):
    x, y = map(tf.constant, images)
    rows = np.arange(len(y))
    pieces = Pieces(attacks.pgd(0.02, num_steps=3), classifier, x, y)
    kept = state.State(
        ["natural"], images[0], keep_examples=False, directory=tmp_path, key="k"
    )
    start = pieces.progress
    pieces.advance(2)
    kept.save_batch((1, 2), rows, pieces.progress)
    assert kept.load_batch((1, 2), rows, start) is None  # nothing to go on with
    kept.resumed = True
    np.testing.assert_array_equal(kept.batch_rows((1, 2)), rows)
    assert int(kept.load_batch((1, 2), rows, start).step) == 2
    assert kept.batch_rows((1, 3)).size == 0
    assert kept.load_batch((1, 3), rows, start) is None
    assert kept.load_batch((1, 2), rows + 1, start) is None
    other = Pieces(attacks.apgd_ce(0.02, num_steps=3), classifier, x, y)
    assert kept.load_batch((1, 2), rows, other.progress) is None


def test_a_part_of_a_saved_batch_is_found_by_its_examples(
    classifier, images, tmp_path
):
    x, y = images
    pieces = Pieces(attacks.pgd(0.02, num_steps=3), classifier, x, y)
    pieces.advance(2)
    kept = state.State(
        ["natural"], x, keep_examples=False, directory=tmp_path, key="k"
    )
    kept.save_batch((1, 0), np.arange(len(y)) + 10, pieces.progress)
    kept.resumed = True
    some = Pieces(attacks.pgd(0.02, num_steps=3), classifier, x[:2], y[:2])
    saved = kept.load_batch((1, 0), np.array([12, 10]), some.progress)
    np.testing.assert_array_equal(
        saved.best.x_adv, pieces.progress.best.x_adv.numpy()[[2, 0]]
    )
