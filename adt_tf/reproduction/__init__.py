"""The tables and figures of the paper, by name and at three scales.

    reproduction.reproduce(["table1", "figure2"], study)

A target is data: the rows of a table (`tables`) are runs, its columns attacks;
a figure (`figures`) names an analysis; `claims` are answered from both. A scale
is data too (`scales`): which flagfiles the runs have, and how many images are
attacked how hard. `steps` puts both together into runs, evaluations and
measurements, each of which is made only if it is missing. Training is
`adt_tf.runs.experiment`, evaluation `adt_tf.runs.evaluation_job`, the figures
are `adt_tf.analysis`: there is no second path for any of them.

Modules by role:

- What is made: `catalogue` of `tables`, `figures` and `claims`; `paper_numbers`
  has the paper's own numbers. Their docstrings tell how to add one.
- What it is made of: `registry` of runs at `scales`, all in one `study`.
- Making it: `plan` of `steps`: `train_runs`, `attack_runs`, `measurements`;
  `costs` estimates times with a `stopwatch`.
- Writing it: `documents`, and `paired_differences` with their intervals.
"""

from adt_tf.reproduction.catalogue import choose
from adt_tf.reproduction.plan import describe, reproduce
from adt_tf.reproduction.study import Study

__all__ = ["Study", "choose", "describe", "reproduce"]
