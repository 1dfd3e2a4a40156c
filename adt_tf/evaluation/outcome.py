"""The outcome of an evaluation: a verdict on every example."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import numpy as np

from adt_tf.evaluation.statistics import PairedTest, mcnemar, wilson_interval

NATURAL = "natural"
ROBUST = "A_rob"
RIGHT, WRONG, NOT_RUN = 1, 0, -1
_LETTERS = {RIGHT: "1", WRONG: "0", NOT_RUN: "-"}


@dataclasses.dataclass(frozen=True)
class Report:
    """The verdicts of an evaluation.

    Attributes:
        outcomes: For "natural" and for each attack, an int8 array over the
            examples: 1 where it is classified correctly, 0 where not, -1
            where the attack was not run because the example had fallen.
        attacks: For each attack, its full description.
        seed: Of the attacks' noise.
        independent: Whether each attack ran on all examples that are right
            when clean, rather than on those still standing.
        seconds: For "natural" and for each attack, how long it took.
        examples: The adversarial images, if they were asked for: for each
            example the first that is misclassified, else the last one tried.
        digest: A hash of the clean images and labels; None of an evaluation
            that was written without.
    """

    outcomes: dict[str, np.ndarray]
    attacks: dict[str, str]
    seed: int
    independent: bool = False
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    examples: np.ndarray | None = None
    digest: str | None = None

    @property
    def num_examples(self) -> int:
        """How many examples were evaluated."""
        return len(self.outcomes[NATURAL])

    @property
    def robust(self) -> np.ndarray:
        """Whether each example withstands every attack."""
        return np.all(np.stack(list(self.outcomes.values())) == RIGHT, axis=0)

    @property
    def accuracy(self) -> dict[str, float]:
        """The share of examples that are right, or still standing.

        Of an independent evaluation, the accuracy under each attack alone;
        else the share still standing after it and those before it.
        """
        return {
            name: float(np.mean(outcome == RIGHT))
            for name, outcome in self.outcomes.items()
        }

    @property
    def robust_accuracy(self) -> float:
        """A_rob: the share that no attack (nor nature) gets wrong."""
        return float(np.mean(self.robust))

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % Wilson intervals of all accuracies, A_rob's included."""
        counts = {k: np.sum(v == RIGHT) for k, v in self.outcomes.items()}
        counts[ROBUST] = np.sum(self.robust)
        return {
            name: wilson_interval(count, self.num_examples)
            for name, count in counts.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns what JSON can hold; `from_dict` reads it back."""
        return {
            "num_examples": self.num_examples,
            "accuracy": self.accuracy,
            "A_rob": self.robust_accuracy,
            "intervals": {k: list(v) for k, v in self.intervals.items()},
            "independent": self.independent,
            "attacks": self.attacks,
            "seed": self.seed,
            "examples_sha256": self.digest,
            "seconds": {k: round(v, 3) for k, v in self.seconds.items()},
            "outcomes": {
                name: "".join(_LETTERS[int(value)] for value in outcome)
                for name, outcome in self.outcomes.items()
            },
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        """Reads what `to_dict` wrote."""
        numbers = {letter: value for value, letter in _LETTERS.items()}
        try:
            report = cls(
                outcomes={
                    name: np.array([numbers[c] for c in letters], np.int8)
                    for name, letters in values["outcomes"].items()
                },
                attacks=dict(values["attacks"]),
                seed=int(values["seed"]),
                independent=bool(values["independent"]),
                seconds=dict(values["seconds"]),
                digest=values.get("examples_sha256"),
            )
            lengths = {len(outcome) for outcome in report.outcomes.values()}
            if lengths != {report.num_examples} or 0 in lengths:
                raise TypeError(f"verdicts on {sorted(lengths)} examples")
            return report
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                "This is no evaluation of this version: it lacks or spoils "
                f"{error}. Run adt-evaluate again."
            ) from error

    def to_csv(self) -> str:
        """The outcome matrix: a row an example, 1 right, 0 wrong, - not run."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["example", *self.outcomes, ROBUST])
        columns = [*self.outcomes.values(), self.robust.astype(np.int8)]
        for index, row in enumerate(zip(*columns, strict=True)):
            writer.writerow([index, *(_LETTERS[int(value)] for value in row)])
        return text.getvalue()

    def to_markdown(self) -> str:
        """A table with intervals, and what each name means."""
        accuracy = {**self.accuracy, ROBUST: self.robust_accuracy}
        lines = [
            f"| attack | {self._meaning} (%) | 95 % interval | s |",
            "| --- | ---: | --- | ---: |",
        ]
        for name, value in accuracy.items():
            low, high = self.intervals[name]
            seconds = self.seconds.get(name)
            lines.append(
                f"| {name} | {100 * value:.2f} | {100 * low:.1f} to "
                f"{100 * high:.1f} | "
                f"{'' if seconds is None else f'{seconds:.0f}'} |"
            )
        lines += ["", f"{self.num_examples} examples, seed {self.seed}."]
        lines += [f"- {name}: `{text}`" for name, text in self.attacks.items()]
        return "\n".join(lines) + "\n"

    @property
    def _meaning(self) -> str:
        return "accuracy" if self.independent else "still standing"

    def __str__(self) -> str:
        accuracy = {**self.accuracy, ROBUST: self.robust_accuracy}
        width = max(len(name) for name in accuracy)
        rows = []
        for name, value in accuracy.items():
            low, high = self.intervals[name]
            rows.append(
                f"{name:<{width}}  {100 * value:6.2f} %   "
                f"[{100 * low:5.1f}, {100 * high:5.1f}]"
            )
        rule = "-" * max(map(len, rows))
        told = "accuracy under each attack alone"
        if not self.independent:
            told = "share still standing after each attack in turn"
        return "\n".join(
            [
                rule,
                *rows[:-1],
                rule,
                rows[-1],
                rule,
                f"{told}; 95 % intervals",
                f"{self.num_examples} examples, seed {self.seed}",
                *(f"  {description}" for description in self.attacks.values()),
            ]
        )


def compare(first: Report, second: Report) -> dict[str, PairedTest]:
    """Tests two classifiers against each other, example by example.

    Args:
        first: Of one classifier.
        second: Of another, under the same attacks on the same examples.

    Returns:
        The McNemar test of the natural verdicts, of each attack's where both
        evaluations are independent, and of A_rob.
    """
    # Evaluations of earlier versions have no digest.
    known = None not in (first.digest, second.digest)
    if known and first.digest != second.digest:
        raise ValueError(
            "Two evaluations can be compared only if the examples are the "
            "same, and these were made of other images or labels; evaluate "
            "both on the same data (--dataset, --test_examples)."
        )
    settings = [
        (
            report.attacks,
            report.independent,
            report.num_examples,
        )
        for report in (first, second)
    ]
    if settings[0] != settings[1] or first.seed != second.seed:
        remedy = "the same protocol"
        if settings[0] == settings[1]:
            remedy = f"the same seed, such as --seed={first.seed}"
        raise ValueError(
            "Two evaluations can be compared only if the examples, the seed "
            "and the attacks are the same. Received: "
            f"{first.num_examples} and {second.num_examples} examples, seeds "
            f"{first.seed} and {second.seed}, "
            f"{json.dumps(first.attacks)} and {json.dumps(second.attacks)}; "
            f"evaluate both with {remedy}."
        )
    names = list(first.outcomes) if first.independent else [NATURAL]
    tests = {
        name: mcnemar(
            first.outcomes[name] == RIGHT, second.outcomes[name] == RIGHT
        )
        for name in names
    }
    return {**tests, ROBUST: mcnemar(first.robust, second.robust)}
