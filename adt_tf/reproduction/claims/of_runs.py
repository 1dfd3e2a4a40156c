"""The claims that are read from the evaluations of runs, image by image."""

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
    """Tells on which side of zero the differences of two runs' A_rob lie.

    Args:
        study: Where the runs have been evaluated.
        values: The target's values, which are not needed.
        pairs: From a label to a run and the run that it is compared with.
        wanted: +1 or -1, the side that the claim names.
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
        # A table may have been asked for some of its rows.
        if attack_runs.is_evaluated(study, run, seed, "distributional"):
            report = attack_runs.report(study, run, seed, "distributional")
            pgd, exp = (
                report.outcomes[k] == RIGHT for k in ("PGD-20", "EXP-20")
            )
            gaps[label] = exp.astype(float) - pgd
    if not gaps:
        return UNCLEAR, "its runs have not been evaluated"
    # The models share their images, so an image is one observation.
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
