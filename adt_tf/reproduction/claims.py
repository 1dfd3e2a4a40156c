"""What the paper says in words: is it seen in what was run here?

    verdicts = judge(study)
    verdicts[0].answer, verdicts[0].statistic

Each claim is answered yes, no or cannot be told, from the files that the
targets have written, by a statistic with its uncertainty: "yes" and "no" need
a 95 % interval, or a two-sided test at 5 %, that excludes the other, at
Bonferroni's level where a claim is about several comparisons. Nothing is
trained.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from adt_tf.evaluation.outcome import RIGHT
from adt_tf.reproduction import documents, evaluations, paired
from adt_tf.reproduction.figures import diversity
from adt_tf.reproduction.registry import FIVE, OURS
from adt_tf.reproduction.study import Study
from adt_tf.runs import workdir as workdirs

YES, NO, UNCLEAR = "yes", "no", "cannot be told"
#: EXP has converged when it has done this share of its climb.
_CONVERGED, _NOT_CONVERGED = 0.95, 0.9
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
            the interval is at Bonferroni's level: equal models shall not fail
            for being compared often.
    """
    gap = paired.difference(first, second, level=1 - _ALPHA / among)
    ends = wanted * gap.low, wanted * gap.high
    if min(ends) > 0:
        return YES, gap
    return NO if max(ends) < 0 else UNCLEAR, gap


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
    pairs = list(itertools.product(OURS, ("AT-PGD", "Standard")))
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
        tail = _ALPHA / 2 / len(found["climb"])
        low, high = np.quantile(shares, [tail, 1 - tail])
        answers.append(YES if low >= _CONVERGED else UNCLEAR)
        if high < _NOT_CONVERGED:
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


def _robust(
    study: Study,
    found: dict[str, Any],
    *,
    pairs: Mapping[str, tuple[str, str]],
    wanted: int,
    what: str,
) -> tuple[str, str]:
    """On which side of zero the differences of two runs' A_rob lie."""
    (seed,) = study.seeds
    names = {run for pair in pairs.values() for run in pair}
    if not all(
        evaluations.is_evaluated(study, run, seed, "paper") for run in names
    ):
        return UNCLEAR, "its runs have not been evaluated"
    right = {
        run: 100
        * (
            evaluations.read(study, run, seed, "paper")["report"].robust
            == RIGHT
        )
        for run in names
    }
    answers, said = [], []
    for label, (run, other) in pairs.items():
        answer, gap = _sign(right[run], right[other], wanted, len(pairs))
        answers.append(answer)
        said.append(f"{label} {gap} ({answer})")
    count = len(next(iter(right.values())))
    return _all(answers), f"{what}, points, {count} images: {', '.join(said)}"


def _attacks(study: Study, found: dict[str, Any]) -> tuple[str, str]:
    (seed,) = study.seeds
    gaps = {}
    for label, run in FIVE.items():
        # A table may have been asked for some of its rows.
        if evaluations.is_evaluated(study, run, seed, "distributional"):
            read = evaluations.read(study, run, seed, "distributional")
            pgd, exp = (
                read["report"].outcomes[k] == RIGHT
                for k in ("PGD-20", "EXP-20")
            )
            gaps[label] = exp.astype(float) - pgd
    if not gaps:
        return UNCLEAR, "its runs have not been evaluated"
    # The models share their images, so an image is one observation.
    mean = 100 * np.mean(list(gaps.values()), axis=0)
    gap = paired.difference(mean, np.zeros_like(mean))
    answer = YES if gap.high <= 0 else UNCLEAR
    if gap.low > 0:
        answer = NO
    said = [f"{k} {100 * values.mean():+.1f}" for k, values in gaps.items()]
    return answer, (
        f"accuracy under EXP-20 minus under PGD-20, points, {len(mean)} "
        f"images: mean of the models {gap}; {', '.join(said)}"
    )


_TRADES_PAIRS = {
    f"{label}, beta {beta}": (
        f"trades-{run}-beta{beta}",
        f"trades-trades-beta{beta}",
    )
    for beta in (1, 6)
    for label, run in OURS.items()
}

CLAIMS = (
    Claim(
        "ADT is more robust than AT-PGD",
        "table1",
        functools.partial(
            _robust,
            pairs={label: (run, "at_pgd") for label, run in OURS.items()},
            wanted=+1,
            what="A_rob minus AT-PGD's",
        ),
    ),
    Claim(
        "With TRADES' loss, ADT is more robust than TRADES",
        "table5",
        functools.partial(
            _robust,
            pairs=_TRADES_PAIRS,
            wanted=+1,
            what="A_rob minus TRADES'",
        ),
    ),
    Claim(
        "The amortised methods are more robust than L2L",
        "table11",
        functools.partial(
            _robust,
            pairs={
                label: (OURS[label], "l2l")
                for label in ("ADT-EXP-AM", "ADT-IMP-AM")
            },
            wanted=+1,
            what="A_rob minus L2L's",
        ),
    ),
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
    Claim(
        "A too large lambda reduces robustness",
        "figure5",
        functools.partial(
            _robust,
            pairs={"lambda 1": ("adt_exp_am-lambda1", "adt_exp_am")},
            wanted=-1,
            what="A_rob minus that with lambda 0.01",
        ),
    ),
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
    study = dataclasses.replace(study, seeds=study.seeds[:1])
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
        "yes if all of them are, and no if one of them is; their intervals "
        "are then at Bonferroni's level, 5 % divided by their number. All are "
        f"of the runs with seed {study.seeds[0]}: the intervals do not tell "
        "how much another training run would differ.",
    ]
    documents.write(
        study,
        name,
        "The paper's claims in words",
        lines,
        {"verdicts": [verdict._asdict() for verdict in verdicts]},
    )
