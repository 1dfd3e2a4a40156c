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
            classifier, (x, y), [attack], directory=directory, verbose=False
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
    pieces = Pieces(attacks.pgd(0.02, num_steps=3), classifier, x, y)
    kept = state.State(
        ["natural"], images[0], keep_examples=False, directory=tmp_path, key="k"
    )
    kept.resumed, kept._batch_saved_at = True, -1e9
    kept.save_batch(np.array([1, 2]), pieces.progress)
    start = pieces.progress
    pieces.advance(2)
    later = pieces.progress
    for key, expected in (([1, 2], start), ([1, 3], later), ([1], later)):
        found = kept.load_batch(np.array(key), later)
        assert int(found.step) == int(expected.step)
