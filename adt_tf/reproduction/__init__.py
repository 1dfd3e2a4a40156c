"""The tables and figures of the paper, by name and at three scales.

    reproduction.reproduce(["table1", "figure2"], study)

A target is data (`targets`): its rows are runs, its columns attacks, or it
names an analysis. A scale is data too (`scales`): which flagfiles the runs
have, and how many images are attacked how hard. `plan` puts both together into
runs, evaluations and results, each of which is made only if it is missing.
Training is `adt_tf.runs.experiment`, evaluation
`adt_tf.runs.evaluation_job`, the figures are `adt_tf.analysis`:
there is no second path for any of them.

Parts: `study` is where all of it lies; `runs` trains, `evaluations` attacks,
`figures` analyses, `tables` writes, `costs` estimates times, `claims` asks
whether what the paper says in words is seen. `paper` has the paper's numbers.
"""

from adt_tf.reproduction.plan import describe, reproduce
from adt_tf.reproduction.study import Configuration, Study
from adt_tf.reproduction.targets import choose

__all__ = ["Configuration", "Study", "choose", "describe", "reproduce"]
