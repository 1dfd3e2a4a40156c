"""The outcome of an evaluation: a verdict on every example."""

from __future__ import annotations

import csv
import dataclasses
import io
from typing import Any

import numpy as np

from adt_tf.data.images import validate_labels
from adt_tf.evaluation import tables
from adt_tf.evaluation.classes import ClassAccuracy, by_class, checked_names
from adt_tf.evaluation.statistics import wilson_interval
from adt_tf.evaluation.verdicts import NATURAL, NOT_RUN, RIGHT, ROBUST, WRONG
from adt_tf.linting import OF_GRADIENT, Finding

#: The mark of a number that says nothing.
UNTRUSTED = "not to be trusted"

_SPOILED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_LETTERS = {RIGHT: "1", WRONG: "0", NOT_RUN: "-"}


@dataclasses.dataclass(frozen=True)
class Report:
    """The verdicts of an evaluation.

    Attributes:
        outcomes: For "natural" and for each attack, an int8 array over the
            examples: 1 where it is classified correctly, 0 where not, -1
            where the attack was not run: the example had fallen before, or
            the time was over.
        attacks: Full description of each attack.
        seed: Seed of the attacks' noise.
        independent: Whether each attack ran on all examples that are right
            when clean, rather than on those still standing.
        seconds: For "natural" and for each attack, its duration.
        examples: Adversarial images, if `keep_examples` was set: for each
            example the first misclassified image, or else the last one that was
            tried.
        digest: Hash of the clean images and labels; None in files of version
            0.1.0.
        warnings: Findings of `adt_tf.linting.quick_failures` on the classifier;
            None if the checks were not run.
        labels: Labels of the examples; None in files of version 0.1.0.
        class_names: Name of each class, or None.
        searches: For each attack, its `Attack.search`; one that is missing
            counts as "gradient".
    """

    outcomes: dict[str, np.ndarray]
    attacks: dict[str, str]
    seed: int
    independent: bool = False
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    examples: np.ndarray | None = None
    digest: str | None = None
    warnings: tuple[Finding, ...] | None = None
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] | None = None
    searches: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def unfinished(self) -> dict[str, tuple[int, int]]:
        """For each attack that was cut, the numbers of images done and due.

        If there is one, A_rob is an upper bound: further attacks can only lower
        it.
        """
        natural, *attacks = self.outcomes
        standing = self.outcomes[natural] == RIGHT
        numbers = {}
        for name in attacks:
            outcome = self.outcomes[name]
            missing = int(np.sum(standing & (outcome == NOT_RUN)))
            if missing:
                due = int(np.sum(standing))
                numbers[name] = (due - missing, due)
            if not self.independent:
                standing &= outcome != WRONG
        return numbers

    @property
    def failures(self) -> list[str]:
        """Faults of the classifier that make its accuracies unreliable."""
        return [warning.brief or warning.check for warning in self._faults]

    @property
    def _faults(self) -> list[Finding]:
        return [w for w in self.warnings or () if w.status == "fail"]

    @property
    def untrusted(self) -> list[str]:
        """Names of the attacks whose accuracy is not to be trusted.

        If only the gradient is faulty, these are the attacks that use it; after
        any other fault, they are all attacks.
        """
        if not self._faults:
            return []
        if any(fault.check not in OF_GRADIENT for fault in self._faults):
            return list(self.attacks)
        return [
            name
            for name in self.attacks
            if self.searches.get(name, "gradient") == "gradient"
        ]

    @property
    def caveat(self) -> str:
        """Text to show beside A_rob if it needs a caveat, or ""."""
        texts = []
        unfinished = self.unfinished
        if self._faults:
            queried = any(
                self.searches.get(name) == "queries"
                for name in self.attacks
                if name not in (*self.untrusted, *unfinished)
            )
            doubt = UNTRUSTED
            if queried:
                doubt = "an upper bound by query attacks alone"
            texts.append(f"{doubt}: {'; '.join(self.failures)}")
        if unfinished:
            texts.append("an upper bound: the time was over")
        return "; ".join(texts)

    def marks(self, name: str) -> list[str]:
        """Returns the notes that an attack's accuracy must be shown with.

        Args:
            name: Name of an attack, or of another row, which has no notes.
        """
        notes = [UNTRUSTED] if name in self.untrusted else []
        if name in self.unfinished:
            done, due = self.unfinished[name]
            notes.append(f"cut: {done} of {due} images" if done else "not run")
        return notes

    @property
    def classes(self) -> list[ClassAccuracy]:
        """Accuracies of each class; empty where the labels are not known."""
        if self.labels is None:
            return []
        natural = self.outcomes[NATURAL] == RIGHT
        return by_class(self.labels, natural, self.robust, self.class_names)

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.outcomes[NATURAL])

    @property
    def robust(self) -> np.ndarray:
        """Whether each example withstands every attack that was run on it."""
        return self._standing(len(self.outcomes))

    @property
    def accuracy(self) -> dict[str, float]:
        """Share of examples that are right, or still standing.

        In an independent evaluation, the accuracy under each attack alone;
        else the share that is still standing after it and all before it.
        """
        return {
            name: count / self.num_examples
            for name, count in self._counts().items()
        }

    def _counts(self) -> dict[str, int]:
        """Returns the numbers of examples that `accuracy` counts."""
        if self.independent:
            return {
                k: int(np.sum(v == RIGHT)) for k, v in self.outcomes.items()
            }
        return {
            name: int(np.sum(self._standing(i)))
            for i, name in enumerate(self.outcomes, start=1)
        }

    def _standing(self, num_rows: int) -> np.ndarray:
        """Returns the examples that the first rows have left standing [n]."""
        outcomes = np.stack(list(self.outcomes.values())[:num_rows])
        return (outcomes[0] == RIGHT) & np.all(outcomes != WRONG, axis=0)

    @property
    def robust_accuracy(self) -> float:
        """A_rob: share of examples that are right when clean and attacked."""
        return float(np.mean(self.robust))

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % Wilson intervals of all accuracies and of A_rob."""
        counts = self._counts()
        counts[ROBUST] = int(np.sum(self.robust))
        return {
            name: wilson_interval(count, self.num_examples)
            for name, count in counts.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON; `from_dict` reads it."""
        return {
            "num_examples": self.num_examples,
            "accuracy": self.accuracy,
            "A_rob": self.robust_accuracy,
            "unfinished": {k: list(v) for k, v in self.unfinished.items()},
            "intervals": {k: list(v) for k, v in self.intervals.items()},
            "independent": self.independent,
            "attacks": self.attacks,
            "searches": self.searches,
            "seed": self.seed,
            "warnings": None
            if self.warnings is None
            else [dataclasses.asdict(w) for w in self.warnings],
            "classes": [dataclasses.asdict(row) for row in self.classes],
            "class_names": self.class_names and list(self.class_names),
            "labels": None
            if self.labels is None
            else " ".join(map(str, self.labels)),
            "examples_sha256": self.digest,
            "seconds": {k: round(v, 3) for k, v in self.seconds.items()},
            "outcomes": {
                name: "".join(_LETTERS[int(value)] for value in outcome)
                for name, outcome in self.outcomes.items()
            },
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Report:
        """Returns the report that `to_dict` has written."""
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
                **_details(values),
            )
            lengths = {len(outcome) for outcome in report.outcomes.values()}
            if report.labels is not None:
                lengths.add(len(report.labels))
            if lengths != {report.num_examples} or 0 in lengths:
                raise TypeError(f"verdicts on {sorted(lengths)} examples")
            return report
        except _SPOILED as error:
            raise ValueError(
                "This is not a valid evaluation of this version. Missing or "
                f"invalid: {error}. Run adt-evaluate again."
            ) from error

    def to_csv(self) -> str:
        """Returns a row for each example: 1 right, 0 wrong, - not run.

        The header of a column contains its caveat, if there is one.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        notes = {name: "; ".join(self.marks(name)) for name in self.outcomes}
        notes[ROBUST] = self.caveat
        heads = [f"{k} ({v})" if v else k for k, v in notes.items()]
        writer.writerow(["example", *heads])
        columns = [*self.outcomes.values(), self.robust.astype(np.int8)]
        for index, row in enumerate(zip(*columns, strict=True)):
            writer.writerow([index, *(_LETTERS[int(value)] for value in row)])
        return text.getvalue()

    def to_markdown(self) -> str:
        """Returns a table with intervals and descriptions of the attacks."""
        return tables.markdown(self)

    def __str__(self) -> str:
        return tables.text(self)


def _details(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that an earlier version did not write."""
    warnings, labels = values.get("warnings"), values.get("labels")
    if warnings is not None:
        warnings = tuple(
            Finding(**{k: v for k, v in warning.items() if v is not None})
            for warning in warnings
        )
    if labels is not None:
        try:
            labels = validate_labels(np.array(labels.split(), np.int64))
        except ValueError as error:
            raise ValueError(f"field labels: {error}") from error
    names = values.get("class_names")
    if names is not None:
        names = checked_names(names, labels)
    return {
        "warnings": warnings,
        "labels": labels,
        "class_names": names,
        "searches": dict(values.get("searches") or {}),
    }
