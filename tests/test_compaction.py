"""Examples that are decided leave a batch early, with the same verdicts."""

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks
from adt_tf.attacks.resumable import Pieces
from adt_tf.evaluation import cohort, loop, state

LONG = {
    "PGD": lambda: attacks.pgd(0.2, num_steps=40),
    "PGD, last": lambda: attacks.pgd(0.2, num_steps=16, last_iterate=True),
    "EXP": lambda: attacks.exp(0.2, num_steps=16, num_samples=2),
    "APGD-T": lambda: attacks.apgd_t(0.3, num_steps=30, num_targets=2),
    "FAB-T": lambda: attacks.fab_t(0.3, num_steps=20, num_targets=2),
    "Square": lambda: attacks.square(0.3, num_queries=300),
    "restarts": lambda: attacks.Restarts(attacks.cw(0.2, num_steps=20), 2),
}
AT_THEIR_END = ("PGD, last", "EXP")


@pytest.fixture(scope="module")
def classifier():
    return adt_tf.from_preset("digits_small_cnn_at_pgd")


@pytest.fixture
def examples(digits):
    return tuple(array[:64] for array in digits)


def evaluated(classifier, examples, attack, **settings):
    return adt_tf.evaluate(
        classifier,
        examples,
        [attack],
        batch_size=64,
        verbose=False,
        **settings,
    )


@pytest.fixture
def sizes(monkeypatch):
    """The numbers of examples that steps are taken with."""
    sizes, advance = [], Pieces.advance

    def counted(self, num_steps):
        sizes.append(self.size)
        advance(self, num_steps)

    monkeypatch.setattr(Pieces, "advance", counted)
    return sizes


@pytest.mark.parametrize("name", LONG)
def test_verdicts_are_those_of_whole_batches(
    name, classifier, examples, sizes, monkeypatch
):
    # Between right and wrong for about half of the images.
    attack = LONG[name]()
    report = evaluated(classifier, examples, attack)
    compact = list(sizes)
    monkeypatch.setattr(cohort.Cohort, "_pays", lambda self: False)
    whole = evaluated(classifier, examples, LONG[name]())
    np.testing.assert_array_equal(
        report.outcomes[attack.name], whole.outcomes[attack.name]
    )
    assert set(compact) <= {64, 16, 4}
    if name not in AT_THEIR_END:
        assert report.robust_accuracy < report.accuracy["natural"]
        assert min(compact[: len(compact) // attack.num_parts]) < 64


def test_attacks_decided_by_their_end_keep_every_example(classifier, examples):
    x, y = examples
    source = adt_tf.from_preset("digits_small_cnn_adt_exp")
    transfer = attacks.Transfer(source, attacks.pgd(0.3, num_steps=2))
    for attack in (*(LONG[name]() for name in AT_THEIR_END), transfer):
        pieces = Pieces(attack, classifier, x, y)
        right = ~pieces.progress.best.wrong.numpy()
        pieces.advance(attack.length)
        decided = attack.decided(pieces.x, pieces.progress)
        assert not np.any(decided.fallen.numpy() & right)
        assert not np.any(decided.standing)


def test_no_example_leaves_where_images_are_kept(classifier, examples, sizes):
    """A kept image is the strongest one, for which the search must end."""
    x, y = examples
    attack = attacks.pgd(0.2, num_steps=20)
    report = evaluated(classifier, examples, attack, keep_examples=True)
    assert set(sizes) == {64}
    x_adv = attacks.pgd(0.2, num_steps=20)(classifier, x, y).x_adv
    right = report.outcomes["natural"] == 1
    np.testing.assert_allclose(
        report.examples[right], x_adv.numpy()[right], atol=1e-6
    )


def test_an_unconfirmed_example_stays(classifier, examples, monkeypatch):
    """The classifier's own answer decides, not that of the search."""
    x, y = examples
    rows = np.arange(64)

    def begin(rows, size, progress):
        index = rows[np.minimum(np.arange(size), len(rows) - 1)]
        return Pieces(attack, classifier, x[index], y[index], progress=progress)

    attack = attacks.apgd_ce(0.3, num_steps=50)
    group = cohort.Cohort(attack, rows, y, begin, largest=64)
    group.advance(10)
    answers = np.eye(10, dtype="float32")[y]

    class Answer:
        """Logits that are right for every image."""

        def __init__(self, x_adv):
            self.size = len(x_adv)

        def numpy(self):
            return answers[: self.size]

    assert list(group.take_out(Answer)) == []
    np.testing.assert_array_equal(group.rows, rows)


@pytest.mark.parametrize("stop_after", [2, 4, 6])
def test_goes_on_after_examples_have_left(
    stop_after, classifier, examples, monkeypatch, tmp_path
):
    monkeypatch.setattr(loop, "_PIECE_SECONDS", 0.05)
    monkeypatch.setattr(state, "_SAVE_EVERY", 0.0)
    steps, advance = [], Pieces.advance

    def counted(self, num_steps):
        if len(steps) == stop_after:
            raise KeyboardInterrupt
        advance(self, num_steps)
        steps.append((self.step, self.size))

    expected = evaluated(
        classifier, examples, attacks.apgd_ce(0.2, num_steps=60)
    )
    monkeypatch.setattr(Pieces, "advance", counted)
    with pytest.raises(KeyboardInterrupt):
        evaluated(
            classifier,
            examples,
            attacks.apgd_ce(0.2, num_steps=60),
            directory=tmp_path,
        )
    last = steps[-1][0]
    monkeypatch.setattr(Pieces, "advance", advance)
    begun = []

    def noted(self, num_steps):
        begun.append(self.step)
        advance(self, num_steps)

    monkeypatch.setattr(Pieces, "advance", noted)
    report = evaluated(
        classifier,
        examples,
        attacks.apgd_ce(0.2, num_steps=60),
        directory=tmp_path,
    )
    assert begun[0] >= 1 and begun[0] <= last
    np.testing.assert_array_equal(
        report.outcomes["APGD-CE"], expected.outcomes["APGD-CE"]
    )
    assert list(tmp_path.iterdir()) == []
