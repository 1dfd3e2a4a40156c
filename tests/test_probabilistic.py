"""Probabilistic robustness: closed forms, calibration, batches, resumption."""

import keras
import numpy as np
import pytest
from scipy import stats

import adt_tf
from adt_tf import attacks
from adt_tf.evaluation import (
    ProbabilisticReport,
    Report,
    clopper_pearson,
    failure_counts,
    probabilistic,
)
from adt_tf.evaluation.probabilistic_report import is_decided, looks
from tests.support.models import make_convolutional

EPSILON = 0.2


def linear(weights, offset):
    """Class 1 where <weights, x> + offset is above 0."""
    weights = np.asarray(weights, "float32")
    model = keras.Sequential(
        [keras.Input((1, len(weights), 1)), keras.layers.Flatten()]
    )
    model.add(keras.layers.Dense(2))
    kernel = np.stack([0 * weights, weights], axis=-1)
    model.layers[-1].set_weights([kernel, np.array([0.0, offset])])
    return model


def crossing(margin):
    """P(u_1 + u_2 < -margin) of two uniform numbers on [-1, 1]."""
    # The sum has the triangular density (2 - |s|) / 4.
    return stats.triang.cdf(-margin, c=0.5, loc=-2, scale=4)


def test_uniform_noise_crosses_a_plane_as_often_as_the_closed_form_says():
    """x_1 + x_2 > 1 under noise in a square: a triangle's corner."""
    margins = np.array([0.1, 0.9, 1.5, 1.9, 1.99, 2.5])
    x = np.full([6, 1, 2, 1], 0.5, "float32")
    x += (EPSILON * margins / 2)[:, None, None, None].astype("float32")
    y = np.ones(6, int)
    report = adt_tf.evaluate_probabilistic(
        linear([1.0, 1.0], -1.0),
        (x, y),
        [attacks.uniform(EPSILON)],
        verbose=False,
    )
    expected = crossing(margins)
    low, high = report.bounds("uniform")
    assert ((low <= expected) & (expected <= high)).all()
    # The corner of 1.9 has a probability of 0.00125; one of 2.5 has none.
    assert expected[3] == pytest.approx(0.00125)
    decided = np.array(
        [report.decisions("uniform", rho) for rho in report.thresholds]
    )
    truth = expected <= np.array(report.thresholds)[:, None]
    assert (decided[:, :3] == truth[:, :3]).all()
    assert (decided[:, 5] == 1).all()
    assert ((decided == -1) | (decided == truth)).all()
    # It is sampled no longer than it must be.
    samples = report.samples["uniform"]
    assert samples[0] == 32 and samples[5] == 8192
    assert set(samples) <= set(looks(8192))
    # What a sample fools has fallen.
    fooled = report.failures["uniform"] > 0
    assert (report.report.robust == ~fooled).all()
    assert report.share("uniform", 0) == report.report.robust_accuracy
    assert report.share("uniform", 0.1) >= report.share("uniform", 0)
    assert "PR(0.001)" in str(report) and "uniform" in report.to_markdown()
    again = ProbabilisticReport.from_dict(report.to_dict())
    assert again.to_dict() == report.to_dict()
    assert again.to_csv().count("\n") == 7


def test_the_worst_case_is_the_last_of_the_curve():
    """Distributions from mild to bad; the attack finds what no sample does."""
    x = np.full([2, 1, 2, 1], 0.5, "float32")
    x[0] += EPSILON * 0.98  # a margin of 1.96: noise fools 1 in 5000
    x[1] += EPSILON * 1.2  # beyond the ball
    report = adt_tf.evaluate_probabilistic(
        linear([1.0, 1.0], -1.0),
        (x, np.ones(2, int)),
        probabilistic.from_noise_to_worst(EPSILON, [10.0, 0.0]),
        [attacks.pgd(EPSILON, num_steps=10)],
        max_samples=128,
        verbose=False,
    )
    assert list(report.failures) == ["uniform", "EXP-20 at 10", "EXP-20 at 0"]
    rates = [report.rates(name)[0] for name in report.failures]
    assert rates[0] < 0.05 and rates[2] > 0.9 and rates[1] < rates[2]
    assert report.report.outcomes["PGD-10"].tolist() == [0, 1]
    assert report.report.robust_accuracy == 0.5
    # Two hundred samples cannot show one in a thousand.
    assert report.undecided("uniform", 0.001) > 0
    low, high = report.interval("uniform", 0.001)
    assert low <= report.report.robust_accuracy <= high


def test_an_image_that_is_wrong_when_clean_fails():
    x = np.full([2, 1, 2, 1], 0.5, "float32") + 0.3
    report = adt_tf.evaluate_probabilistic(
        linear([1.0, 1.0], -1.0),
        (x, np.array([1, 0])),
        [attacks.uniform(0.1)],
        max_samples=32,
        verbose=False,
    )
    assert report.rates("uniform").tolist() == [0.0, 1.0]
    assert report.samples["uniform"].tolist() == [32, 0]
    assert report.decisions("uniform", 0.1)[1] == 0
    assert report.report.outcomes["uniform"].tolist() == [1, -1]


@pytest.mark.parametrize("probability", [0.0005, 0.008, 0.05, 0.12, 0.6])
def test_bounds_hold_though_sampling_stops_when_it_likes(probability):
    """Of 4,000 simulated images, at most 1 % decided wrongly."""
    random = np.random.default_rng(7)
    thresholds, steps = (0.001, 0.01, 0.05, 0.1), looks(8192)
    rules = {"max_samples": 8192, "confidence": 0.99}
    failures = np.zeros(4000, int)
    samples = np.zeros(4000, int)
    missed = np.zeros(4000, bool)
    going = np.ones(4000, bool)
    for before, now in zip([0, *steps], steps, strict=False):
        failures[going] += random.binomial(
            now - before, probability, going.sum()
        )
        samples[going] = now
        going &= ~is_decided(failures, samples, thresholds, **rules)
    low, high = probabilistic_bounds(failures, samples, rules)
    missed = (probability < low) | (probability > high)
    # Three deviations of a count of 1 % in 4,000 are 0.5 %.
    assert missed.mean() <= 0.015


def probabilistic_bounds(failures, samples, rules):
    from adt_tf.evaluation.probabilistic_report import failure_bounds

    return failure_bounds(failures, samples, **rules)


def test_bounds_over_images_hold():
    """PR(0.05) of a population is 0.7; 100 images of it, 300 times."""
    random = np.random.default_rng(3)
    rates = np.array([0.0, 0.02, 0.3])
    missed = 0
    for _ in range(300):
        chosen = random.choice(3, size=100, p=[0.4, 0.3, 0.3])
        failures = random.binomial(512, rates[chosen])
        report = ProbabilisticReport(
            Report({"natural": np.ones(100, np.int8)}, {}, 0),
            {"noise": failures},
            {"noise": np.full(100, 512)},
            max_samples=512,
        )
        low, high = report.interval("noise", 0.05)
        missed += not low <= 0.7 <= high
    assert missed <= 0.05 * 300 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_clopper_pearson_is_scipys():
    for successes, total in ((0, 10), (10, 10), (3, 50), (1, 8192)):
        exact = stats.binomtest(successes, total).proportion_ci(0.99, "exact")
        found = clopper_pearson(successes, total, 0.99)
        np.testing.assert_allclose(found, exact, rtol=1e-9)


@pytest.fixture(scope="module")
def examples():
    random = np.random.default_rng(5)
    return random.uniform(size=[12, 8, 8, 1]).astype("float32")


@pytest.fixture(scope="module")
def classifier():
    return make_convolutional()


@pytest.fixture(scope="module")
def sources():
    learned = attacks.exp(0.1, num_steps=2, num_samples=2)
    return [attacks.uniform(0.1), learned]


@pytest.fixture(scope="module")
def counted(classifier, examples, sources):
    y = np.argmax(classifier(examples), -1)
    report = adt_tf.evaluate_probabilistic(
        classifier, (examples, y), sources, max_samples=128, verbose=False
    )
    return y, report


def test_counts_do_not_depend_on_the_batch(
    classifier, examples, sources, counted
):
    y, report = counted
    order = np.arange(12)[::-1]
    other = adt_tf.evaluate_probabilistic(
        classifier,
        (examples[order], y[order]),
        sources,
        max_samples=128,
        batch_size=5,
        verbose=False,
    )
    for name in report.failures:
        assert 0 < report.rates(name).mean() < 1
        np.testing.assert_array_equal(
            report.failures[name][order], other.failures[name]
        )
        np.testing.assert_array_equal(
            report.samples[name][order], other.samples[name]
        )


class Killed(Exception):
    pass


def test_a_killed_count_goes_on_and_ends_the_same(
    classifier, examples, sources, counted, tmp_path, monkeypatch
):
    y, report = counted
    saved = []
    real = failure_counts.FailureCounts.save

    def save(self, *, now=False):
        real(self, now=True)
        saved.append(self.samples.sum())
        if len(saved) == 4:
            raise Killed

    def run(**arguments):
        return adt_tf.evaluate_probabilistic(
            classifier,
            (examples, y),
            sources,
            max_samples=128,
            directory=tmp_path,
            verbose=False,
            **arguments,
        )

    monkeypatch.setattr(failure_counts.FailureCounts, "save", save)
    with pytest.raises(Killed):
        run(batch_size=8)
    monkeypatch.undo()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("unfinished-failures-")
    before = saved[-1]
    drawn = []

    def count(self, *, now=False):
        drawn.append(self.samples.sum())
        real(self, now=now)

    monkeypatch.setattr(failure_counts.FailureCounts, "save", count)
    again = run(batch_size=8)
    assert drawn[0] > before  # it did not start anew
    for name in report.failures:
        np.testing.assert_array_equal(
            report.failures[name], again.failures[name]
        )
    assert not list(tmp_path.iterdir())
    # Counts that no evaluation can have left are worked out again.
    path.write_bytes(b"no archive")
    assert run().failures.keys() == report.failures.keys()


def test_spoiled_counts_are_refused(counted):
    _, report = counted
    values = report.to_dict()
    name = next(iter(report.failures))
    counts = values["probabilistic"]
    for key, text in (
        ("failures", "9999 " * 12),
        ("failures", "x " * 12),
        ("failures", "-1 " * 12),
        ("samples", "1"),
    ):
        spoiled = {**counts, key: {**counts[key], name: text}}
        with pytest.raises(ValueError, match="ounts"):
            ProbabilisticReport.from_dict({**values, "probabilistic": spoiled})


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"max_samples": 100}, "multiple of 32"),
        ({"thresholds": [0.0]}, "thresholds=0.0"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"distributions": []}, r"distributions=\[\]"),
        ({"distributions": ["pgd"]}, "distributions="),
        ({"distributions": [attacks.uniform(0.1)] * 2}, "names that differ"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, told, classifier, examples):
    arguments = {"distributions": 0.1, **arguments}
    with pytest.raises(ValueError, match=told):
        adt_tf.evaluate_probabilistic(
            classifier, (examples, np.zeros(12, int)), **arguments
        )
