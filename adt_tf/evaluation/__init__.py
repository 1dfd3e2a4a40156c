"""Robust accuracy: which examples withstand which attacks.

    report = evaluate(classifier, test, attacks=[pgd(8 / 255), cw(8 / 255)])
    print(report)
    report.accuracy["PGD-20"], report.robust_accuracy

    difference = compare(report, other_report)      # the same examples

    report = evaluate_probabilistic(classifier, test, 8 / 255)
    report.share("uniform", 0.01)                   # how rarely noise fools

Parts: `evaluate` runs attacks on the examples still standing; a `Report` holds
the verdict on each example; `compare` tests two reports against each other;
`evaluate_probabilistic` counts the samples of distributions that fool the
classifier, and returns a `ProbabilisticReport`; `evaluated` and
`evaluated_probabilistic` do the same in a block, and keep their state until the
report is written; `wilson_interval`, `clopper_pearson` and `mcnemar` are the
statistics.
"""

from adt_tf.evaluation.comparison import compare
from adt_tf.evaluation.measurement import Settings, evaluate, evaluated
from adt_tf.evaluation.outcome import NATURAL, ROBUST, Report
from adt_tf.evaluation.probabilistic import (
    evaluate_probabilistic,
    evaluated_probabilistic,
    from_noise_to_worst,
)
from adt_tf.evaluation.probabilistic_report import ProbabilisticReport
from adt_tf.evaluation.statistics import (
    clopper_pearson,
    mcnemar,
    wilson_interval,
)

__all__ = [
    "NATURAL",
    "ROBUST",
    "ProbabilisticReport",
    "Report",
    "Settings",
    "clopper_pearson",
    "compare",
    "evaluate",
    "evaluate_probabilistic",
    "evaluated",
    "evaluated_probabilistic",
    "from_noise_to_worst",
    "mcnemar",
    "wilson_interval",
]
