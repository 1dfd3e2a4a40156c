"""Findings of the checks, as a printed table and as a dictionary.

report = LintReport(findings, num_examples=128, epsilon=8 / 255, seed=0)
print(report)
report.ok, report["black_box"].status, report.to_dict()
"""

from __future__ import annotations

import collections
import dataclasses
import textwrap
from typing import Any

from adt_tf.checks import arguments

#: Statuses from the worst to the best, in the order of the printed table.
STATUSES = ("fail", "warn", "skipped", "pass")

#: Return value of a check: status, evidence and advice. A quick check adds a
#: brief description of the fault.
Verdict = tuple[str, str, str] | tuple[str, str, str, str]

_WIDTH = 80


@dataclasses.dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: Name of the check.
        status: "pass", "warn" (inspect the model), "fail" (trust no robustness
            number of this model) or "skipped" (the check could not run).
        evidence: One sentence with the measured figures.
        advice: What to do; empty if the check passed.
        brief: The fault in a few words, shown beside A_rob; empty if the check
            passed or is not among the quick ones.
    """

    check: str
    status: str
    evidence: str
    advice: str = ""
    brief: str = ""

    def __post_init__(self):
        arguments.one_of(
            STATUSES,
            f"The check {self.check!r} must return one of these.",
            status=self.status,
        )

    def lines(self, width: int = 0) -> list[str]:
        """Returns the finding as lines of the printed table.

        Args:
            width: Width of the column with the check's name.
        """
        start = f"{self.status:<8} {self.check:<{width}}  "
        indent = " " * len(start)
        lines = textwrap.wrap(
            self.evidence,
            _WIDTH,
            initial_indent=start,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        if self.advice:
            lines += textwrap.wrap(
                self.advice,
                _WIDTH,
                initial_indent=f"{indent}  -> ",
                subsequent_indent=f"{indent}     ",
                break_on_hyphens=False,
            )
        return lines


@dataclasses.dataclass(frozen=True)
class LintReport:
    """All findings of one call of `lint`.

    Args:
        findings: Findings in the order in which the checks ran.
        num_examples: Number of examples that were checked.
        epsilon: Radius of the attacks.
        seed: Seed of the choice of examples and of all noise.
        norm: Norm of the attacks' ball.

    Example:

    >>> report = LintReport(
    ...     [Finding("state", "pass", "No variable changes."),
    ...      Finding("logits", "fail", "Rows sum to one.", "Drop softmax.")],
    ...     num_examples=128, epsilon=0.1, seed=0)
    >>> report.ok
    False
    >>> print(report)
    --------------------------------------------------------------------------------
    fail     logits  Rows sum to one.
                       -> Drop softmax.
    pass     state   No variable changes.
    --------------------------------------------------------------------------------
    1 fail, 0 warn, 0 skipped, 1 pass; 128 examples, linf epsilon 0.1, seed 0
    """

    findings: list[Finding]
    num_examples: int
    epsilon: float
    seed: int
    norm: str = "linf"

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(finding.status != "fail" for finding in self.findings)

    def __getitem__(self, check: str) -> Finding:
        """Returns the finding of a check."""
        for finding in self.findings:
            if finding.check == check:
                return finding
        raise KeyError(
            f"No finding of {check!r}; this report has "
            f"{[finding.check for finding in self.findings]}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that JSON can represent."""
        return {
            "ok": self.ok,
            "num_examples": self.num_examples,
            "norm": self.norm,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "findings": [dataclasses.asdict(f) for f in self.findings],
        }

    def __str__(self) -> str:
        rule = "-" * _WIDTH
        counts = collections.Counter(f.status for f in self.findings)
        summary = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
        width = max((len(f.check) for f in self.findings), default=0)
        ordered = sorted(self.findings, key=lambda f: STATUSES.index(f.status))
        lines = [line for f in ordered for line in f.lines(width)]
        return "\n".join(
            [
                rule,
                *lines,
                rule,
                f"{summary}; {self.num_examples} examples, "
                f"{self.norm} epsilon {self.epsilon:.4g}, seed {self.seed}",
            ]
        )
