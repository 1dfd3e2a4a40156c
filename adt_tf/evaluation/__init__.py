"""Robust accuracy: which examples withstand which attacks.

    report = evaluate(classifier, test, attacks=[pgd(8 / 255), cw(8 / 255)])
    print(report)
    report.accuracy["PGD-20"], report.robust_accuracy

    difference = compare(report, other_report)      # the same examples

Parts: `evaluate` runs attacks on the examples still standing; `evaluated` does
the same and keeps its state until the report is written; a `Report` holds the
verdict on each example; `compare` tests two reports against each other;
`wilson_interval` and `mcnemar` are the statistics.
"""

from adt_tf.evaluation.measurement import Settings, evaluate, evaluated
from adt_tf.evaluation.outcome import NATURAL, ROBUST, Report, compare
from adt_tf.evaluation.statistics import mcnemar, wilson_interval

__all__ = [
    "NATURAL",
    "ROBUST",
    "Report",
    "Settings",
    "compare",
    "evaluate",
    "evaluated",
    "mcnemar",
    "wilson_interval",
]
