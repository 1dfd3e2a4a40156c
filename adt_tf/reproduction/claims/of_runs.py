"""Answers the claims about evaluations of runs, image by image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adt_tf.evaluation.outcome import RIGHT
from adt_tf.reproduction import attack_runs, paired_differences
from adt_tf.reproduction.claims.answers import (
    NO,
    UNCLEAR,
    YES,
    combine,
    sign,
)
from adt_tf.reproduction.registry import FIVE
from adt_tf.reproduction.study import Study


def robust(
    study: Study,
    values: dict[str, Any],
    *,
    pairs: Mapping[str, tuple[str, str]],
    wanted: int,
    what: str,
) -> tuple[str, str]:
    """Tells whether differences of A_rob have the sign of a claim.

    Args:
        study: Study of the runs.
        values: Values of the target, which are not used.
        pairs: Mapping from a label to a run and the run that it is compared
            with.
        wanted: Sign of the differences that the claim states, +1 or -1.
        what: The difference in words.
    """
    (seed,) = study.seeds
    names = {run for pair in pairs.values() for run in pair}
    if not all(
        attack_runs.is_evaluated(study, run, seed, "paper") for run in names
    ):
        return UNCLEAR, "its runs have not been evaluated"
    right = {
        run: 100
        * (attack_runs.report(study, run, seed, "paper").robust == RIGHT)
        for run in names
    }
    answers, reasons = [], []
    for label, (run, other) in pairs.items():
        answer, gap = sign(right[run], right[other], wanted, len(pairs))
        answers.append(answer)
        reasons.append(f"{label} {gap} ({answer})")
    count = len(next(iter(right.values())))
    return combine(answers), (
        f"{what}, points, {count} images: {', '.join(reasons)}"
    )


def attacks(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether EXP-20 fools at least as many images as PGD-20."""
    (seed,) = study.seeds
    gaps = {}
    for label, run in FIVE.items():
        # `--rows` may have selected some of the rows.
        if attack_runs.is_evaluated(study, run, seed, "distributional"):
            report = attack_runs.report(study, run, seed, "distributional")
            pgd, exp = (
                report.outcomes[k] == RIGHT for k in ("PGD-20", "EXP-20")
            )
            gaps[label] = exp.astype(float) - pgd
    if not gaps:
        return UNCLEAR, "its runs have not been evaluated"
    # All models see the same images, so an image is one observation.
    mean = 100 * np.mean(list(gaps.values()), axis=0)
    gap = paired_differences.difference(mean, np.zeros_like(mean))
    answer = YES if gap.high <= 0 else UNCLEAR
    if gap.low > 0:
        answer = NO
    reasons = [f"{k} {100 * gap.mean():+.1f}" for k, gap in gaps.items()]
    return answer, (
        f"accuracy under EXP-20 minus under PGD-20, points, {len(mean)} "
        f"images: mean of the models {gap}; {', '.join(reasons)}"
    )
