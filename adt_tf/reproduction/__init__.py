"""The tables and figures of the paper, by name and at four scales.

    reproduction.reproduce(["table1", "figure2"], study)

A target is data: the rows of a table (`tables`) are runs and its columns are
attacks; a figure (`figures`) names an analysis; `claims` are read from both.
A scale (`scales`) is data too: the flagfiles of the runs, the number of images
and the strength of the attacks. `steps` lists the trainings, evaluations and
measurements of a target; only missing results are computed.
`adt_tf.runs.experiment` trains, `adt_tf.runs.evaluation_job` evaluates and
`adt_tf.analysis` measures: this package has no loop of its own for any of them.

Modules by role:

- Targets: `catalogue` of `tables`, `figures` and `claims`, whose docstrings
  explain how to add one; `paper_numbers` holds the paper's numbers.
- Runs: `registry` of runs at `scales`, in a `study`.
- Work: `plan` of `steps`: `train_runs`, `attack_runs`, `measurements`; `costs`
  estimates times with a `stopwatch`.
- Output: `documents`, with `paired_differences` and their intervals.
"""

from adt_tf.reproduction.catalogue import choose
from adt_tf.reproduction.plan import describe, reproduce
from adt_tf.reproduction.study import Study

__all__ = ["Study", "choose", "describe", "reproduce"]
