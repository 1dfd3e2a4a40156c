"""What the paper says in words: is it seen in what was run here?

    verdicts = judge(study)
    verdicts[0].answer, verdicts[0].statistic

Each claim is answered yes, no or cannot be told, from the files that the
targets have written, by a statistic with its uncertainty: "yes" and "no" need
a 95 % interval, or a two-sided test at 5 %, that excludes the other; of several
comparisons one refutes at Bonferroni's level. Nothing is trained.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adt_tf import workdir as workdirs
from adt_tf.evaluation.report import RIGHT
from adt_tf.reproduction import documents, evaluations, paired
from adt_tf.reproduction.figures import diversity
from adt_tf.reproduction.study import Study

YES, NO, UNCLEAR = "yes", "no", "cannot be told"
_OURS = ("ADT-EXP", "ADT-EXP-AM", "ADT-IMP-AM")
#: EXP has converged when it has done this share of its climb.
_CONVERGED, _NOT_CONVERGED = 0.95, 0.9
#: Points of accuracy by which EXP may be weaker and still "as well".
_MARGIN = 1.0
_ALPHA = 0.05
#: Of the bootstrap over images.
_RESAMPLES = 2000


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


def _sign(
    first: Any, second: Any, wanted: int, among: int = 1
) -> tuple[str, paired.Difference]:
    """On which side of zero first - second lies, and how far.

    Args:
        first: Measurements.
        second: Of the same images or rounds.
        wanted: +1 or -1, the side that the claim says.
        among: How many comparisons the claim is about. One no refutes it, so
            a no is at Bonferroni's level: equal models shall not fail for
            being compared often. A yes needs them all, and no such care.
    """
    gap = paired.difference(first, second)
    wide = paired.difference(first, second, level=1 - _ALPHA / among)
    if min(wanted * gap.low, wanted * gap.high) > 0:
        return YES, gap
    refuted = max(wanted * wide.low, wanted * wide.high) < 0
    return NO if refuted else UNCLEAR, gap


def _all(answers: Iterable[str]) -> str:
    """One no is a no; a yes needs nothing but yes."""
    found = set(answers)
    if NO in found:
        return NO
    return YES if found == {YES} else UNCLEAR


def _diverse(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    distances = found["distances"]
    restarts, samples = distances[diversity.PGD], distances[diversity.SAMPLES]
    answer, gap = _sign(samples, restarts, +1)
    said = (
        f"distance of samples minus that of restarts, {len(samples)} images: "
        f"{gap}"
    )
    if diversity.SUMMED in distances:
        other = paired.difference(distances[diversity.SUMMED], restarts)
        said += f"; with the entropy summed, as Eq. 11 has it, {other}"
    return answer, said


def _flatter(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    values = found["eigenvalues"]
    pairs = list(itertools.product(_OURS, ("AT-PGD", "Standard")))
    answers, said = [], []
    for ours, other in pairs:
        answer, gap = _sign(values[ours], values[other], -1, len(pairs))
        answers.append(answer)
        said.append(f"{ours} minus {other} {gap} ({answer})")
    count = len(values["AT-PGD"])
    return _all(answers), f"mean eigenvalue, {count} images: {'; '.join(said)}"


def _grows(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    entropy = found["entropy"]
    tau, p_value = stats.kendalltau(
        found["entropy_weight"], entropy, method="exact"
    )
    answer = UNCLEAR
    if p_value < _ALPHA:
        answer = YES if tau > 0 else NO
    values = ", ".join(f"{value:.3f}" for value in entropy)
    return answer, (
        f"entropies {values}: Kendall's tau {tau:.2f}, two-sided p "
        f"{p_value:.2g}; one run for each lambda"
    )


def _converges(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    if "climb" not in found:
        return UNCLEAR, "figure6 has no image's own loss: make it again"
    answers, said = [], []
    for name, climb in found["climb"].items():
        climb = np.asarray(climb)
        # The same images are drawn for every model.
        drawn = np.random.default_rng(0).integers(
            len(climb), size=[_RESAMPLES, len(climb)]
        )
        shares = [_share(climb[rows]) for rows in drawn]
        low, high = np.quantile(shares, [_ALPHA / 2, 1 - _ALPHA / 2])
        highest = np.quantile(shares, 1 - _ALPHA / 2 / len(found["climb"]))
        answers.append(YES if low >= _CONVERGED else UNCLEAR)
        if highest < _NOT_CONVERGED:
            answers[-1] = NO
        said.append(
            f"{name} {100 * _share(climb):.1f} % "
            f"[{100 * low:.1f}, {100 * high:.1f}]"
        )
    return _all(answers), (
        f"share of the loss's climb over 100 steps done after 20, "
        f"{len(climb)} images: {', '.join(said)}; yes from {_CONVERGED:.0%} "
        f"on, no below {_NOT_CONVERGED:.0%}"
    )


def _share(climb: np.ndarray) -> float:
    """How much of the climb is done, of images' start, middle and end."""
    start, middle, end = climb.mean(axis=0)
    return (middle - start) / (end - start)


def _faster(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    names = ("ADT-EXP-AM", "ADT-IMP-AM")
    answers, said = [], []
    for name in names:
        ratios = np.log(found["ratios"][name])
        answer, gap = _sign(ratios, np.zeros_like(ratios), -1, len(names))
        answers.append(answer)
        mean, low, high = np.exp(gap)
        said.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
    return _all(answers), (
        f"step over AT-PGD's, {len(ratios)} rounds: {', '.join(said)}"
    )


def _reports(study: Study, protocol: str) -> dict[str, Any]:
    """The verdicts on the five models, of those that were evaluated.

    A table may have been asked for some of its rows.
    """
    (seed,) = study.seeds
    runs = {
        label: label.lower().replace("-", "_")
        for label in ("Standard", "AT-PGD", *_OURS)
    }
    return {
        label: evaluations.read(study, run, seed, protocol)["report"]
        for label, run in runs.items()
        if evaluations.is_evaluated(study, run, seed, protocol)
    }


def _robust(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    reports = _reports(study, "paper")
    if not {"AT-PGD", *_OURS} <= reports.keys():
        return UNCLEAR, "table1 has not been run"
    right = {k: 100 * (v.robust == RIGHT) for k, v in reports.items()}
    answers, said = [], []
    for ours in _OURS:
        answer, gap = _sign(right[ours], right["AT-PGD"], +1, len(_OURS))
        answers.append(answer)
        said.append(f"{ours} {gap} ({answer})")
    return _all(answers), (
        f"A_rob minus AT-PGD's, points, {len(right['AT-PGD'])} images: "
        f"{', '.join(said)}"
    )


def _attacks(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    gaps = {}
    for label, report in _reports(study, "distributional").items():
        pgd, exp = (report.outcomes[k] == RIGHT for k in ("PGD-20", "EXP-20"))
        gaps[label] = exp.astype(float) - pgd
    if not gaps:
        return UNCLEAR, "table4 has not been run"
    # The models share their images, so an image is one observation.
    mean = 100 * np.mean(list(gaps.values()), axis=0)
    gap = paired.difference(mean, np.zeros_like(mean))
    answer = YES if gap.high < _MARGIN else UNCLEAR
    if gap.low > _MARGIN:
        answer = NO
    said = [f"{k} {100 * values.mean():+.1f}" for k, values in gaps.items()]
    return answer, (
        f"accuracy under EXP-20 minus under PGD-20, points, {len(mean)} "
        f"images: mean of the models {gap}; {', '.join(said)}; yes if "
        f"the interval ends below a margin of {_MARGIN:g} point, no if it "
        "begins above"
    )


CLAIMS = (
    Claim("ADT is more robust than AT-PGD", "table1", _robust),
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
        found = json.loads(path.read_text()) if path.is_file() else {}
        # A table's claim is read from its rows' evaluations.
        if not _is_current(study, found):
            answer, statistic = (
                UNCLEAR,
                (
                    f"{claim.target} is of classifiers that have been trained "
                    "again since: make it again"
                ),
            )
        elif found or claim.target.startswith("table"):
            answer, statistic = claim.judge(study, found)
        else:
            answer, statistic = UNCLEAR, f"{claim.target} has not been run"
        verdicts.append(Verdict(claim.text, claim.target, answer, statistic))
    return verdicts


def _is_current(study: Study, found: dict[str, Any]) -> bool:
    """Whether a figure is of the classifiers that are there now."""
    return all(
        workdirs.fingerprint(study.workdir(run, study.seeds[0])) == measured
        for run, measured in found.get("classifiers", {}).items()
    )


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
        "rounds; for convergence a bootstrap over images) or a two-sided test "
        "at 5 % that excludes the other. A claim about several comparisons is "
        "yes if all of them are, and no if one of them is at Bonferroni's "
        "level, 5 % divided by their number. The intervals do not tell how "
        "much another training run would differ.",
    ]
    documents.write(
        study,
        name,
        "The paper's claims in words",
        lines,
        {"verdicts": [verdict._asdict() for verdict in verdicts]},
    )
