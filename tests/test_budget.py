"""An evaluation with a limit of time gives an upper bound, and goes on."""

import json

import numpy as np
import pytest

import adt_tf
from adt_tf import attacks, evaluation
from adt_tf.attacks.resumable import Pieces
from adt_tf.evaluation import measurement
from adt_tf.runs import protocols
from tests.support import in_process

NAMES = ("PGD-4", "APGD-T", "Square")


# The same objects in all tests, so that they are traced once.
ATTACKS = [
    attacks.pgd(0.2, num_steps=4),
    attacks.apgd_t(0.2, num_steps=10, num_targets=2),
    attacks.square(0.2, num_queries=60),
]


@pytest.fixture(scope="module")
def classifier():
    return adt_tf.from_preset("digits_small_cnn_at_pgd")


@pytest.fixture(scope="module")
def examples(digits):
    return tuple(array[:48] for array in digits)


@pytest.fixture
def stop_after(monkeypatch):
    """Lets the time be over after some pieces."""
    count, advance = [0, None], Pieces.advance

    def counted(self, num_steps):
        count[0] += 1
        advance(self, num_steps)

    def deadline(settings, state):
        count[0] = 0
        return lambda: count[1] is not None and count[0] >= count[1]

    def stop(number):
        count[1] = number

    monkeypatch.setattr(Pieces, "advance", counted)
    monkeypatch.setattr(measurement, "_deadline", deadline)
    return stop


def run(classifier, examples, **settings):
    return adt_tf.evaluate(
        classifier, examples, ATTACKS, verbose=False, batch_size=16, **settings
    )


def test_a_cut_evaluation_is_an_upper_bound_and_goes_on(
    classifier, examples, stop_after, tmp_path
):
    whole = run(classifier, examples)
    assert not whole.unfinished and not whole.caveat
    bounds, seen = [], []
    for number in (0, 6, 6, 8, 8, None):
        stop_after(number)
        report = run(classifier, examples, directory=tmp_path, minutes=10)
        bounds.append(report.robust_accuracy)
        seen.append(report.unfinished)
        if not report.unfinished:
            break
        assert list(tmp_path.iterdir())
        assert "an upper bound" in report.caveat
        low, high = report.intervals["A_rob"]
        assert low < report.robust_accuracy < high
    assert len(seen) > 3
    right = int(np.sum(whole.outcomes["natural"]))
    assert seen[0] == dict.fromkeys(NAMES, (0, right))
    assert "PGD-4" in seen[1] and seen[1]["PGD-4"][0] > 0
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == whole.accuracy["natural"]
    for name in whole.outcomes:
        np.testing.assert_array_equal(
            report.outcomes[name], whole.outcomes[name]
        )
    assert not list(tmp_path.iterdir())


def test_a_part_that_is_missing_is_a_missing_verdict(
    classifier, examples, stop_after
):
    """An image counts as attacked when all targets have been tried."""
    reports = []
    for number in range(6, 30, 3):
        stop_after(number)
        reports.append(run(classifier, examples, minutes=1))
    cut = [r for r in reports if "APGD-T" in r.unfinished]
    assert any(r.unfinished["APGD-T"][0] > 0 for r in cut)
    for report in cut:
        again = evaluation.Report.from_dict(
            json.loads(json.dumps(report.to_dict()))
        )
        assert again.unfinished == report.unfinished
        assert again.accuracy == report.accuracy
        done, due = report.unfinished["APGD-T"]
        told = f"cut: {done} of {due} images" if done else "not run"
        assert told in str(report) and told in report.to_markdown()


def test_the_clock_counts_earlier_calls():
    settings = evaluation.Settings(minutes=1)

    class Earlier:
        seconds = np.array([20.0, 41.0])

    assert measurement._deadline(settings, Earlier())()
    Earlier.seconds = np.array([20.0, 10.0])
    assert not measurement._deadline(settings, Earlier())()


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf"), "ten"])
def test_nonsense_is_refused(minutes, classifier, examples):
    with pytest.raises(ValueError, match="`minutes` must be a finite number"):
        run(classifier, examples, minutes=minutes)
    with pytest.raises(ValueError, match="`minutes` needs attacks that run"):
        run(classifier, examples, minutes=1, independent=True)


BAD_FLAGS = {
    "none": ([], "needs --minutes, such as --minutes=10"),
    "zero": (["--minutes=0"], "--minutes must be a finite number above 0"),
    "nan": (["--minutes=nan"], "--minutes must be a finite number above 0"),
    "word": (["--minutes=ten"], "minutes"),
    "independent": (
        ["--minutes=1", "--independent"],
        "--minutes requires attacks that run in turn",
    ),
}


@pytest.mark.parametrize("kind", BAD_FLAGS)
def test_nonsense_on_the_command_line_is_one_line(kind, tmp_path):
    arguments, message = BAD_FLAGS[kind]
    process = in_process.run(
        "evaluate", f"--workdir={tmp_path}", "--protocol=budget", *arguments
    )
    assert process.returncode == 1 and message in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1


def test_the_protocol_goes_from_cheap_to_expensive():
    passes = [
        attacks.get(name, 0.1).passes for name in protocols.attacks_of("budget")
    ]
    assert passes[0] == min(passes)
    assert {"apgd-ce", "apgd-t", "fab-t", "square"} <= set(
        protocols.attacks_of("budget")
    )
