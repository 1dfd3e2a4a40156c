"""Answers the claims about the values of figures."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import stats

from adt_tf.reproduction import paired_differences
from adt_tf.reproduction.claims.answers import (
    ALPHA,
    NO,
    UNCLEAR,
    YES,
    combine,
    sign,
)
from adt_tf.reproduction.figures import diversity
from adt_tf.reproduction.registry import OURS
from adt_tf.reproduction.study import Study

#: Shares of the increase of the loss from which EXP counts as converged, and
#: below which it counts as not converged.
_CONVERGED, _NOT_CONVERGED = 0.95, 0.9
#: Number of resamples of the bootstrap over images.
_RESAMPLES = 2000


def diverse(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether samples are farther apart than restarts."""
    distances = values["distances"]
    restarts, samples = distances[diversity.PGD], distances[diversity.SAMPLES]
    answer, gap = sign(samples, restarts, +1)
    reason = (
        "distance between samples minus distance between restarts, "
        f"{len(samples)} images: {gap}"
    )
    if diversity.SUMMED in distances:
        other = paired_differences.difference(
            distances[diversity.SUMMED], restarts
        )
        reason += f"; with the entropy summed, as in Eq. 11, {other}"
    return answer, reason


def flatter(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether ADT's eigenvalues are smaller than other methods'."""
    eigenvalues = values["eigenvalues"]
    pairs = list(itertools.product(OURS, ("AT-PGD", "Standard")))
    answers, reasons = [], []
    for ours, other in pairs:
        answer, gap = sign(
            eigenvalues[ours], eigenvalues[other], -1, len(pairs)
        )
        answers.append(answer)
        reasons.append(f"{ours} minus {other} {gap} ({answer})")
    count = len(eigenvalues["AT-PGD"])
    return combine(answers), (
        f"mean eigenvalue, {count} images: {'; '.join(reasons)}"
    )


def grows(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether the entropy grows with its weight."""
    entropy = values["entropy"]
    tau, p_value = stats.kendalltau(
        values["entropy_weight"], entropy, method="exact"
    )
    answer = UNCLEAR
    if p_value < ALPHA:
        answer = YES if tau > 0 else NO
    entropies = ", ".join(f"{value:.3f}" for value in entropy)
    return answer, (
        f"entropies {entropies}: Kendall's tau {tau:.2f}, two-sided p "
        f"{p_value:.2g}; one run for each lambda"
    )


def converges(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether EXP's loss has almost reached its end after 20 steps."""
    if "climb" not in values:
        return UNCLEAR, "figure6 lacks the loss of each image: make it again"
    answers, reasons = [], []
    for name, climb in values["climb"].items():
        climb = np.asarray(climb)
        # The same resamples of images for every model.
        samples = np.random.default_rng(0).integers(
            len(climb), size=[_RESAMPLES, len(climb)]
        )
        shares = [_share(climb[rows]) for rows in samples]
        tail = ALPHA / 2 / len(values["climb"])
        low, high = np.quantile(shares, [tail, 1 - tail])
        answers.append(YES if low >= _CONVERGED else UNCLEAR)
        if high < _NOT_CONVERGED:
            answers[-1] = NO
        reasons.append(
            f"{name} {100 * _share(climb):.1f} % "
            f"[{100 * low:.1f}, {100 * high:.1f}]"
        )
    return combine(answers), (
        "share of the loss's increase over 100 steps that 20 steps reach, "
        f"{len(climb)} images: {', '.join(reasons)}; yes from {_CONVERGED:.0%} "
        f"on, no below {_NOT_CONVERGED:.0%}"
    )


def _share(climb: np.ndarray) -> float:
    """Returns (middle - start) / (end - start) of the images' mean losses."""
    start, middle, end = climb.mean(axis=0)
    return (middle - start) / (end - start)


def faster(study: Study, values: dict[str, Any]) -> tuple[str, str]:
    """Tells whether an amortised step takes less time than AT-PGD's."""
    names = ("ADT-EXP-AM", "ADT-IMP-AM")
    answers, reasons = [], []
    for name in names:
        ratios = np.log(values["ratios"][name])
        answer, gap = sign(ratios, np.zeros_like(ratios), -1, len(names))
        answers.append(answer)
        mean, low, high = np.exp(gap)
        reasons.append(f"{name} {mean:.2f} [{low:.2f}, {high:.2f}]")
    return combine(answers), (
        f"step over AT-PGD's, {len(ratios)} rounds: {', '.join(reasons)}"
    )
