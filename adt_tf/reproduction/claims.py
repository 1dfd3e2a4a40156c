"""What the paper says in words: is it seen in what was run here?

    verdicts = judge(study)
    verdicts[0].answer, verdicts[0].statistic

Each claim is answered yes, no or cannot be told, from the files that the
targets have written, by a statistic with its uncertainty: "yes" and "no" need
a 95 % interval, or a test at 5 %, that excludes the other. Nothing is trained.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adt_tf.evaluation.report import RIGHT
from adt_tf.reproduction import documents, evaluations, paired
from adt_tf.reproduction.study import Study

YES, NO, UNCLEAR = "yes", "no", "cannot be told"
_OURS = ("ADT-EXP", "ADT-EXP-AM", "ADT-IMP-AM")
#: EXP has converged when it has done this share of its climb.
_CONVERGED, _NOT_CONVERGED = 0.95, 0.9


class Verdict(NamedTuple):
    """The answer to a claim.

    Attributes:
        claim: In words.
        target: What it is read from.
        answer: Yes, no, or cannot be told.
        statistic: On which grounds.
    """

    claim: str
    target: str
    answer: str
    statistic: str


class Claim(NamedTuple):
    """A claim, and the function that reads a target's file about it."""

    text: str
    target: str
    judge: Callable[[Study, dict[str, Any]], tuple[str, str]]


def _sign(gap: paired.Difference, wanted: int) -> str:
    """Whether an interval lies on the wanted side of zero."""
    low, high = sorted((wanted * gap.low, wanted * gap.high))
    if low > 0:
        return YES
    return NO if high < 0 else UNCLEAR


def _all(answers: Iterable[str]) -> str:
    """One no is a no; a yes needs nothing but yes."""
    found = set(answers)
    if NO in found:
        return NO
    return YES if found == {YES} else UNCLEAR


def _diverse(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    restarts, samples = found["distances"].values()
    gap = paired.difference(samples, restarts)
    return _sign(gap, +1), (
        f"distance of samples minus that of restarts, {len(samples)} images: "
        f"{gap}"
    )


def _flatter(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    values = found["eigenvalues"]
    answers, said = [], []
    for ours in _OURS:
        for other in ("AT-PGD", "Standard"):
            gap = paired.difference(values[ours], values[other])
            answers.append(_sign(gap, -1))
            said.append(f"{ours} minus {other} {gap} ({answers[-1]})")
    count = len(values["AT-PGD"])
    return _all(answers), f"mean eigenvalue, {count} images: {'; '.join(said)}"


def _grows(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    entropy = found["entropy"]
    tau, p_value = stats.kendalltau(
        found["entropy_weight"], entropy, method="exact"
    )
    # Two-sided; the direction is tested at 5 %.
    answer = UNCLEAR
    if p_value / 2 < 0.05:
        answer = YES if tau > 0 else NO
    values = ", ".join(f"{value:.3f}" for value in entropy)
    return answer, (
        f"entropies {values}: Kendall's tau {tau:.2f}, one-sided p "
        f"{p_value / 2:.2g}; one run for each lambda"
    )


def _converges(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    answers, said = [], []
    for name, loss in found["loss"].items():
        # Samples make the curve noisy: the end is a mean over ten steps.
        share = (np.mean(loss[18:23]) - loss[0]) / (
            np.mean(loss[-10:]) - loss[0]
        )
        answers.append(YES if share >= _CONVERGED else UNCLEAR)
        if share < _NOT_CONVERGED:
            answers[-1] = NO
        said.append(f"{name} {100 * share:.1f} %")
    return _all(answers), (
        f"share of the loss's climb over 100 steps done after 20: "
        f"{', '.join(said)}; yes from {_CONVERGED:.0%} on, no below "
        f"{_NOT_CONVERGED:.0%}"
    )


def _faster(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    answers, said = [], []
    for name in ("ADT-EXP-AM", "ADT-IMP-AM"):
        ratios = np.log(found["ratios"][name])
        gap = paired.difference(ratios, np.zeros_like(ratios))
        answers.append(_sign(gap, -1))
        mean, low, high = np.exp(gap)
        said.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
    return _all(answers), (
        f"step over AT-PGD's, {len(ratios)} rounds: {', '.join(said)}"
    )


def _attacks(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    rows = {"Standard": "standard", "AT-PGD": "at_pgd"} | {
        name: name.lower().replace("-", "_") for name in _OURS
    }
    gaps, said = [], []
    for label, run in rows.items():
        report = evaluations.read(study, run, study.seeds[0], "distributional")[
            "report"
        ]
        pgd, exp = (report.outcomes[k] == RIGHT for k in ("PGD-20", "EXP-20"))
        gaps.append(exp.astype(float) - pgd)
        said.append(f"{label} {100 * gaps[-1].mean():+.1f}")
    # The models share their images, so an image is one observation.
    mean = np.mean(gaps, axis=0)
    gap = paired.difference(mean, np.zeros_like(mean))
    answer = _sign(gap, -1)
    if gap.low == gap.high == 0:
        answer = YES
    points = paired.Difference(*(100 * value for value in gap))
    return answer, (
        f"accuracy under EXP-20 minus under PGD-20, points, {len(mean)} "
        f"images: mean of the models {points}; {', '.join(said)}"
    )


CLAIMS = (
    Claim(
        "Samples of the distribution are more diverse than PGD's restarts",
        "figure1",
        _diverse,
    ),
    Claim(
        "ADT's loss surface is flatter (smaller eigenvalue) than AT-PGD's and "
        "Standard's",
        "figure2",
        _flatter,
    ),
    Claim("The entropy grows with lambda", "figure5", _grows),
    Claim("EXP converges within about 20 iterations", "figure6", _converges),
    Claim("Amortised training is faster than AT-PGD", "figure7", _faster),
    Claim("EXP attacks at least as well as PGD-20", "table4", _attacks),
)


def judge(study: Study) -> list[Verdict]:
    """Answers every claim from what the targets have written."""
    # Figures are about the first seed, and their files are named after it.
    study = dataclasses.replace(study, seeds=study.seeds[:1])
    verdicts = []
    for claim in CLAIMS:
        path = study.file(f"{claim.target}.json")
        if path.is_file():
            answer, statistic = claim.judge(study, json.loads(path.read_text()))
        else:
            answer, statistic = UNCLEAR, f"{claim.target} has not been run"
        verdicts.append(Verdict(claim.text, claim.target, answer, statistic))
    return verdicts


def write(study: Study, name: str, target: Any) -> None:
    """Writes the answers as a table."""
    verdicts = judge(study)
    for verdict in verdicts:
        print(f"{verdict.answer:<15} {verdict.claim}\n{'':<16}", end="")
        print(verdict.statistic)
    lines = [
        "| claim | answer | from | statistic |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {v.claim} | **{v.answer}** | {v.target} | {v.statistic} |"
        for v in verdicts
    ]
    lines += [
        "",
        "Yes and no need a 95 % interval (Student's, over paired images or "
        "rounds) or a test at 5 % that excludes the other. The intervals do "
        "not tell how much another training run would differ.",
    ]
    documents.write(
        study,
        name,
        "The paper's claims in words",
        lines,
        {"verdicts": [verdict._asdict() for verdict in verdicts]},
    )
