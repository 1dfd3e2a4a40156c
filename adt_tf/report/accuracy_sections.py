"""The page's sections on accuracy: cards, tables, comparison and chart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adt_tf import evaluation
from adt_tf.evaluation.outcome import NATURAL, RIGHT, ROBUST
from adt_tf.report import svg_charts
from adt_tf.report.evaluated_runs import EvaluatedRun
from adt_tf.report.wording import SIGNIFICANT, interval, percent, verdict

# With more models, each is compared only with the most robust one.
_ALL_PAIRS = 4


def verdict_cards(runs: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns a card for each model: A_rob, its parts, and one sentence."""
    cards = []
    for run in runs:
        natural = run.report.accuracy[NATURAL]
        robust = run.report.robust_accuracy
        cards.append(
            {
                "name": run.name,
                "robust": robust,
                "bounds": run.report.intervals[ROBUST],
                "caveat": run.report.caveat,
                "shares": (
                    ("robust", robust, "withstand every attack"),
                    ("fooled", natural - robust, "fall to an attack"),
                    ("wrong", 1 - natural, "are misclassified when clean"),
                ),
                "sentence": verdict(run),
                "lint": run.lint,
            }
        )
    return cards


def attack_table(runs: Sequence[EvaluatedRun]) -> dict[str, Any]:
    """Returns the table with a row for each attack, a column for each model."""
    return {
        "independent": runs[0].report.independent,
        "rows": [
            {"name": name, "cells": _cells(runs, name)}
            for name in runs[0].report.outcomes
        ],
        "robust": _cells(runs, ROBUST),
    }


def _cells(runs: Sequence[EvaluatedRun], name: str) -> list[dict[str, Any]]:
    return [
        {
            "percent": 100 * run.accuracy[name],
            "bounds": run.report.intervals[name],
            "caveat": run.report.caveat
            if name == ROBUST
            else "; ".join(run.report.marks(name)),
        }
        for run in runs
    ]


def class_table(runs: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns a row for each class; no rows if the labels are unknown."""
    columns = [run.report.classes for run in runs]
    if [] in columns or len({len(column) for column in columns}) > 1:
        return []
    return [
        {
            "name": row[0].name,
            "num_examples": row[0].num_examples,
            "cells": [
                {
                    "percent": 100 * cell.robust,
                    "bounds": cell.interval,
                    "natural": cell.natural,
                }
                for cell in row
            ],
        }
        for row in zip(*columns, strict=True)
    ]


def comparison(runs: Sequence[EvaluatedRun]) -> dict[str, Any]:
    """Compares pairs of models on the same images, by McNemar's test.

    Returns:
        The `pairs`, or the `error` that says why there are none.
    """
    indices = list(itertools.combinations(range(len(runs)), 2))
    best = max(range(len(runs)), key=lambda i: runs[i].report.robust_accuracy)
    if len(runs) > _ALL_PAIRS:
        indices = [(best, i) for i in range(len(runs)) if i != best]
    try:
        pairs = [_pair(runs, i, j) for i, j in indices]
    except ValueError as error:
        return {"pairs": [], "error": str(error)}
    return {"pairs": pairs, "error": None, "significant": SIGNIFICANT}


def _pair(runs: Sequence[EvaluatedRun], i: int, j: int) -> dict[str, Any]:
    tests = evaluation.compare(runs[i].report, runs[j].report)
    counts = []
    for name in (ROBUST, NATURAL):
        first, second = (_right(runs[k], name) for k in (i, j))
        counts.append(
            {
                "name": name,
                "both": int(np.sum(first & second)),
                "neither": int(np.sum(~first & ~second)),
                "test": tests[name],
            }
        )
    return {
        "first": _model(runs, i),
        "second": _model(runs, j),
        "counts": counts,
        # If attacks ran in turn, each attack ran on other images.
        "tests": tests if len(tests) > 2 else {},
    }


def _model(runs: Sequence[EvaluatedRun], index: int) -> dict[str, Any]:
    return {
        "index": index,
        "name": runs[index].name,
        "caveat": runs[index].report.caveat,
    }


def _right(run: EvaluatedRun, name: str) -> np.ndarray:
    if name == ROBUST:
        return run.report.robust
    return run.report.outcomes[name] == RIGHT


def attack_chart(runs: Sequence[EvaluatedRun]) -> list[dict[str, Any]]:
    """Returns a track for each attack, with a dot for each model."""
    rows = []
    for name in runs[0].accuracy:
        dots = [
            svg_charts.Dot(
                run.name, i, run.accuracy[name], run.report.intervals[name]
            )
            for i, run in enumerate(runs)
        ]
        values = "; ".join(
            f"{d.name} {percent(d.share)} ({interval(d.bounds)})" for d in dots
        )
        track = svg_charts.dot_track(dots, label=f"{name}: {values}")
        rows.append({"name": name, "track": track})
    return rows
