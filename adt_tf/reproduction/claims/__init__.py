"""The paper's claims in words, tested on the runs of a study.

    verdicts = judge(study)
    verdicts[0].answer, verdicts[0].statistic

The answer to each claim is yes, no or cannot be told. It is read from the files
of the targets, by a statistic with its uncertainty: "yes" and "no" need a 95 %
interval, or a two-sided test at 5 %, that excludes the other answer, at
Bonferroni's level where a claim makes several comparisons. Nothing is trained.

To add a claim, write a function in `of_figures` or `of_runs` that answers it,
and an entry in `CLAIMS`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from adt_tf.json_files import Each, Maybe, read_json
from adt_tf.reproduction import documents
from adt_tf.reproduction.claims import of_figures, of_runs
from adt_tf.reproduction.claims.answers import UNCLEAR
from adt_tf.reproduction.registry import OURS
from adt_tf.reproduction.study import Study
from adt_tf.reproduction.target import Target
from adt_tf.runs.workdir import Workdir

# The values of a figure's file that `of_figures` reads.
_SCHEMA = {
    "classifiers": Maybe(Each(Maybe(str))),
    "distances": Maybe(Each([float])),
    "eigenvalues": Maybe(Each([float])),
    "entropy": Maybe([float]),
    "entropy_weight": Maybe([float]),
    "climb": Maybe(Each([[float]])),
    "ratios": Maybe(Each([float])),
}


class Verdict(NamedTuple):
    """The answer to a claim.

    Attributes:
        claim: The claim in words.
        target: Name of the table or figure that holds the evidence.
        answer: Yes, no, or cannot be told.
        statistic: The statistic that decides the answer.
    """

    claim: str
    target: str
    answer: str
    statistic: str


class Claim(NamedTuple):
    """A claim, its target, and the function that answers it.

    Attributes:
        text: The claim in words.
        target: Name of the table or figure that holds the evidence.
        judge: Function from the study and the target's values to the answer
            and its statistic.
    """

    text: str
    target: str
    judge: Callable[[Study, dict[str, Any]], tuple[str, str]]


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
            of_runs.robust,
            pairs={label: (run, "at_pgd") for label, run in OURS.items()},
            wanted=+1,
            what="A_rob minus AT-PGD's",
        ),
    ),
    Claim(
        "With TRADES' loss, ADT is more robust than TRADES",
        "table5",
        functools.partial(
            of_runs.robust,
            pairs=_TRADES_PAIRS,
            wanted=+1,
            what="A_rob minus TRADES'",
        ),
    ),
    Claim(
        "The amortised methods are more robust than L2L",
        "table11",
        functools.partial(
            of_runs.robust,
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
        of_figures.diverse,
    ),
    Claim(
        "ADT's loss surface is flatter (smaller eigenvalue) than AT-PGD's and "
        "Standard's",
        "figure2",
        of_figures.flatter,
    ),
    Claim("The entropy grows with lambda", "figure5", of_figures.grows),
    Claim(
        "A too large lambda reduces robustness",
        "figure5",
        functools.partial(
            of_runs.robust,
            pairs={"lambda 1": ("adt_exp_am-lambda1", "adt_exp_am")},
            wanted=-1,
            what="A_rob minus A_rob with lambda 0.01",
        ),
    ),
    Claim(
        "EXP converges within about 20 iterations",
        "figure6",
        of_figures.converges,
    ),
    Claim(
        "Amortised training is faster than AT-PGD", "figure7", of_figures.faster
    ),
    Claim("EXP attacks at least as well as PGD-20", "table4", of_runs.attacks),
)


def judge(study: Study) -> list[Verdict]:
    """Answers every claim from the files of the targets."""
    # Figures show the first seed, and their file names hold it.
    study = dataclasses.replace(study, seeds=study.seeds[:1])
    verdicts = []
    for claim in CLAIMS:
        path = study.file(f"{claim.target}.json")
        values = read_json(path, _SCHEMA) if path.exists() else {}
        # The claims of tables read the evaluations of the rows.
        if not _is_current(study, values):
            answer = UNCLEAR
            statistic = (
                f"the classifiers of {claim.target} have been trained again "
                "since: make it again"
            )
        elif values or claim.target.startswith("table"):
            answer, statistic = claim.judge(study, values)
        else:
            answer, statistic = UNCLEAR, f"{claim.target} has not been run"
        verdicts.append(Verdict(claim.text, claim.target, answer, statistic))
    return verdicts


def _is_current(study: Study, values: dict[str, Any]) -> bool:
    """Tells whether a figure shows the present classifiers."""
    return all(
        Workdir(study.workdir(run, study.seeds[0])).fingerprint() == fingerprint
        for run, fingerprint in values.get("classifiers", {}).items()
    )


def write(study: Study, name: str, target: Target) -> None:
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
        "at 5 % that excludes the other answer. A claim with several "
        "comparisons is yes if all of them are yes, and no if one of them is "
        "no; their intervals are at Bonferroni's level, 5 % divided by their "
        f"number. All runs are those with seed {study.seeds[0]}: the intervals "
        "do not show how much another training run would differ.",
    ]
    documents.write(
        study,
        name,
        "The paper's claims in words",
        lines,
        {"verdicts": [verdict._asdict() for verdict in verdicts]},
    )
