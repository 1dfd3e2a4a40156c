"""Probabilistic robustness: the probability that a sample fools.

report.share("uniform", 0.01)       # PR(0.01) under uniform noise
report.interval("uniform", 0.01)    # with its bounds
print(report)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from adt_tf.evaluation.failure_counts import BLOCK
from adt_tf.evaluation.outcome import Report
from adt_tf.evaluation.statistics import clopper_pearson
from adt_tf.evaluation.verdicts import NATURAL, RIGHT
from adt_tf.markdown import escape

#: Thresholds of the failure probability, rho.
THRESHOLDS = (0.001, 0.01, 0.05, 0.1)
# Confidence of the interval of PR(rho), over images.
_OVER_IMAGES = 0.95


def looks(max_samples: int) -> list[int]:
    """Returns the numbers of samples after which an image may be decided.

    They are few, since each further look widens the bounds.

    Example:

    >>> looks(8192)
    [32, 128, 512, 2048, 8192]
    """
    sizes = []
    size = BLOCK
    while size < max_samples:
        sizes.append(size)
        size *= 4
    return [*sizes, max_samples]


@dataclasses.dataclass(frozen=True)
class ProbabilisticReport:
    """Failure probabilities of each example under several distributions.

    An example that is wrong when clean fails with probability 1. The bounds of
    an example hold, with probability `confidence`, after all numbers of samples
    in `looks` at once, so that sampling may stop at any of them: Clopper and
    Pearson's, each at the confidence 1 - (1 - confidence) / (number of looks).

    PR(rho) is the share of examples whose failure probability is at most rho.
    PR(0) is A_rob, from verdicts: no sample of any distribution, and no
    attack, fools the example.

    Attributes:
        report: Verdicts under attacks and distributions: an example that any
            sample fools has fallen.
        failures: For each distribution, each example's number of samples that
            fool the classifier.
        samples: For each distribution, each example's number of samples; 0
            where it is wrong when clean.
        thresholds: Values of rho.
        max_samples: Largest number of samples of an example.
        confidence: Confidence of the bounds of one example.
    """

    report: Report
    failures: dict[str, np.ndarray]
    samples: dict[str, np.ndarray]
    thresholds: tuple[float, ...] = THRESHOLDS
    max_samples: int = 8192
    confidence: float = 0.99

    @property
    def examples(self) -> np.ndarray | None:
        """Adversarial images of the attacks, if they were kept."""
        return self.report.examples

    def rates(self, name: str) -> np.ndarray:
        """Returns each example's share of samples that fool."""
        samples = self.samples[name]
        shares = self.failures[name] / np.maximum(samples, 1)
        return np.where(samples > 0, shares, 1.0)

    def bounds(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds of each example's failure probability."""
        return failure_bounds(
            self.failures[name],
            self.samples[name],
            max_samples=self.max_samples,
            confidence=self.confidence,
        )

    def decisions(self, name: str, threshold: float) -> np.ndarray:
        """Compares each example's failure probability with a threshold.

        Returns:
            1 where it is at most the threshold, 0 where it is above, -1 where
            the samples do not decide.
        """
        low, high = self.bounds(name)
        return np.where(high <= threshold, 1, np.where(low > threshold, 0, -1))

    def share(self, name: str, threshold: float) -> float:
        """Returns PR(rho): the share of examples whose rate is at most rho.

        PR(0) is A_rob, whatever the distribution.
        """
        if threshold == 0:
            return self.report.robust_accuracy
        return float(np.mean(self.rates(name) <= threshold))

    def undecided(self, name: str, threshold: float) -> float:
        """Returns the share of examples that the samples do not decide."""
        return float(np.mean(self.decisions(name, threshold) == -1))

    def interval(self, name: str, threshold: float) -> tuple[float, float]:
        """Returns bounds of PR(rho) over images of the same kind, at 95 %.

        Of the examples that count as decided, a share of at most
        a = (1 - confidence) / 2 is decided wrongly in each direction. So
        PR(rho) lies, with the undecided on either side, between

            lower(k; n) - a   and   upper(k + u; n) + a,

        Clopper and Pearson's bounds for k of n examples decided as at most
        rho, and u of them undecided.
        """
        if threshold == 0:
            return self.report.intervals["A_rob"]
        decisions = self.decisions(name, threshold)
        total, slack = len(decisions), (1 - self.confidence) / 2
        for_it = int(np.sum(decisions == 1))
        possible = int(np.sum(decisions != 0))
        low = clopper_pearson(for_it, total, _OVER_IMAGES)[0]
        high = clopper_pearson(possible, total, _OVER_IMAGES)[1]
        return max(0.0, float(low) - slack), min(1.0, float(high) + slack)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it."""
        names = list(self.failures)
        curves = {
            name: [
                {
                    "rho": rho,
                    "share": self.share(name, rho),
                    "interval": list(self.interval(name, rho)),
                    "undecided": self.undecided(name, rho),
                }
                for rho in self.thresholds
            ]
            for name in names
        }
        return {
            **self.report.to_dict(),
            "probabilistic": {
                "thresholds": list(self.thresholds),
                "max_samples": self.max_samples,
                "confidence": self.confidence,
                "curves": curves,
                "failures": {k: _joined(v) for k, v in self.failures.items()},
                "samples": {k: _joined(v) for k, v in self.samples.items()},
            },
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ProbabilisticReport:
        """Returns the report that `to_dict` has written.

        Raises `ValueError` where the counts contradict each other or the
        verdicts.
        """
        report = Report.from_dict(values)
        counts = values["probabilistic"]
        failures, samples = (
            {name: _split(text, name) for name, text in counts[key].items()}
            for key in ("failures", "samples")
        )
        right = report.outcomes[NATURAL] == RIGHT
        for name, failed in failures.items():
            seen = samples.get(name)
            if (
                seen is None
                or name not in report.outcomes
                or not len(failed) == len(seen) == len(right)
                or (failed > seen).any()
                or (seen > counts["max_samples"]).any()
                or (seen[~right] > 0).any()
                or (report.outcomes[name][failed > 0] == RIGHT).any()
            ):
                raise ValueError(
                    "The failures must be counts of at most the samples, of "
                    "examples that are right when clean, and agree with the "
                    f"verdicts. Received: others for {name!r:.80}; measure "
                    "the model again."
                )
        return cls(
            report,
            failures,
            samples,
            tuple(map(float, counts["thresholds"])),
            int(counts["max_samples"]),
            float(counts["confidence"]),
        )

    def to_csv(self) -> str:
        """Returns a row of verdicts for each example, with failures/samples."""
        lines = self.report.to_csv().splitlines()
        names = list(self.failures)
        header = [f"failures of {name}".replace(",", "") for name in names]
        rows = [",".join([lines[0], *header])]
        for i, line in enumerate(lines[1:]):
            counts = [
                f"{self.failures[n][i]}/{self.samples[n][i]}" for n in names
            ]
            rows.append(",".join([line, *counts]))
        return "\n".join(rows) + "\n"

    def to_markdown(self) -> str:
        """Returns the table of PR(rho) and that of the verdicts."""
        heads = [f"PR({rho:g}) (%)" for rho in self.thresholds]
        lines = [
            f"| distribution | {' | '.join(heads)} | mean failure (%) |",
            "| --- |" + " --- |" * len(heads) + " ---: |",
        ]
        for name in self.failures:
            cells = [self._cell(name, rho) for rho in self.thresholds]
            mean = 100 * float(np.mean(self.rates(name)))
            lines.append(
                f"| {escape(name)} | {' | '.join(cells)} | {mean:.2f} |"
            )
        robust = 100 * self.report.robust_accuracy
        lines += ["", f"PR(0) = A_rob = {robust:.2f} %. {self._meaning}", ""]
        return "\n".join(lines) + "\n" + self.report.to_markdown()

    def __str__(self) -> str:
        width = max(map(len, self.failures))
        heads = "".join(f"{f'PR({rho:g})':>28}" for rho in self.thresholds)
        rows = [f"{'':<{width}}{heads}"]
        for name in self.failures:
            cells = [f"{self._cell(name, r):>28}" for r in self.thresholds]
            rows.append(f"{name:<{width}}{''.join(cells)}")
        return "\n".join([str(self.report), *rows, self._meaning])

    def _cell(self, name: str, rho: float) -> str:
        low, high = (100 * bound for bound in self.interval(name, rho))
        text = f"{100 * self.share(name, rho):.1f} [{low:.1f}, {high:.1f}]"
        undecided = self.undecided(name, rho)
        return f"{text} ?{100 * undecided:.1f}" if undecided else text

    @property
    def _meaning(self) -> str:
        return (
            "PR(rho): share of images, in %, that samples fool with a "
            "probability of at most rho; in brackets its 95 % bounds over "
            "images; after ? the share that "
            f"{self.max_samples} samples do not decide."
        )


def failure_bounds(
    failures: np.ndarray,
    samples: np.ndarray,
    *,
    max_samples: int,
    confidence: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns bounds that hold at all looks at once; 1, 1 without samples."""
    error = (1 - confidence) / len(looks(max_samples))
    low, high = clopper_pearson(failures, np.maximum(samples, 1), 1 - error)
    return np.where(samples > 0, low, 1.0), np.where(samples > 0, high, 1.0)


def is_decided(
    failures: np.ndarray,
    samples: np.ndarray,
    thresholds: tuple[float, ...],
    **settings: Any,
) -> np.ndarray:
    """Returns the examples that the samples decide at all thresholds."""
    low, high = failure_bounds(failures, samples, **settings)
    decided = [(high <= rho) | (low > rho) for rho in thresholds]
    return np.all(decided, axis=0)


def _joined(counts: np.ndarray) -> str:
    return " ".join(map(str, counts))


def _split(text: str, name: str) -> np.ndarray:
    try:
        counts = np.array(text.split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            "Counts must be whole numbers with blanks between them. Received: "
            f"{text!r:.60} for {name!r:.80}"
        ) from error
    if (counts < 0).any():
        raise ValueError(
            f"Counts must not be negative. Received: {counts.min()} for "
            f"{name!r:.80}"
        )
    return counts
