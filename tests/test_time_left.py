"""A long attack says how long it may take, and is not slower than that."""

import contextlib
import re

import pytest
import tensorflow as tf

import adt_tf
from adt_tf import attacks
from adt_tf.evaluation import measurement
from adt_tf.threat_models import Linf
from tests.support.models import predicted
from tests.support.tables import make_attack
from tests.test_resumable_attacks import NAMES

FRAME = re.compile(r"(\d+)/(\d+) [^[]*\[(\d\d):(\d\d)\], (.*)")


def seconds_left(text):
    """What a frame of the bar promises, in seconds, or None."""
    promise = re.search(r"at most ([\d.]+) (s|min|h) left", text)
    if promise is None:
        return None
    return float(promise[1]) * {"s": 1, "min": 60, "h": 3600}[promise[2]]


def test_the_time_left_is_an_upper_bound(honest, digits, capsys):
    """Of attacks to which examples fall, which ends them sooner."""
    x, y = (part[:96] for part in digits)
    chosen = [
        attacks.square(0.15, num_queries=2000),
        attacks.Restarts(attacks.pgd(0.05, num_steps=20), 3),
    ]
    report = adt_tf.evaluate(
        honest, (x, y), chosen, batch_size=32, independent=True
    )
    for attack in chosen:
        assert 0 < report.accuracy[attack.name] < report.accuracy["natural"]
    frames = re.split(r"[\r\n]", capsys.readouterr().err)
    for attack in chosen:
        of_attack = [f for f in frames if f.startswith(f"{attack.name} ")]
        seen = [FRAME.search(frame) for frame in of_attack]
        seen = [match for match in seen if match]
        assert f"up to {attack.passes:,} passes an image" in of_attack[1]
        elapsed = [60 * int(m[3]) + int(m[4]) for m in seen]
        promised = [seconds_left(m[5]) for m in seen]
        # A step with its tracing does not count as any other.
        assert max(filter(None, promised)) < 600
        # At the latest after the first batch.
        done = [int(m[1]) for m in seen]
        after = [
            promise
            for number, promise in zip(done, promised, strict=True)
            if 32 <= number < done[-1]
        ]
        assert after and None not in after[1:]
        for now, promise in zip(elapsed, promised, strict=True):
            if promise is not None:
                # The bar shows whole seconds.
                assert now + promise + 1 >= elapsed[-1]


class Counting(tf.Module):
    """A linear classifier that counts the images it is shown."""

    def __init__(self):
        generator = tf.random.Generator.from_seed(0)
        self.weights = generator.normal([64, 10])
        self.seen = tf.Variable(0)

    def __call__(self, x, training=False):
        self.seen.assign_add(tf.shape(x)[0])
        return tf.matmul(tf.reshape(x, [-1, 64]), self.weights)


@pytest.mark.parametrize("name", NAMES)
def test_passes_are_those_that_the_classifier_sees(name, images):
    x, _ = images
    classifier = Counting()
    y = predicted(classifier, x)
    # So little room that nothing falls, which would end it.
    attack = make_attack(name, Linf(1e-4))
    if isinstance(attack, attacks.Transfer):
        attack = attacks.Transfer(classifier, attack.attack)
    classifier.seen.assign(0)
    attack(classifier, x, y)
    passes = int(classifier.seen) / len(x)
    # The clean image and the result of each part, and two parts compared.
    judging = 6 * attack.num_parts
    assert attack.passes <= passes <= attack.passes + judging


def test_finished_attacks_and_tries_are_named(honest, digits, capsys, tmp_path):
    """A resumed evaluation has no bars of what is done."""
    x, y = (part[:16] for part in digits)
    chosen = [
        attacks.pgd(0.02, num_steps=2),
        attacks.Restarts(attacks.pgd(0.03, num_steps=9), 3),
    ]
    settings = measurement.Settings(directory=tmp_path)
    for ends in (False, True):
        with (
            contextlib.suppress(KeyboardInterrupt),
            measurement.evaluated(honest, (x, y), chosen, settings) as report,
        ):
            if not ends:  # as if the files could not be written
                raise KeyboardInterrupt
        text = capsys.readouterr().err
        if not ends:
            natural = int(16 * report.accuracy["natural"])
            assert f"0/{3 * natural} tries, 3 an image [" in text
            assert "step 9 of 9" in text
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    assert [name for name, _ in lines[:2]] == ["natural", "PGD-2"]
    for (_, said), share in zip(lines, report.accuracy.values(), strict=False):
        assert "finished before" in said and f"{100 * share:.2f} %" in said
    assert "0/0" not in text
