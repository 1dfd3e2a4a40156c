"""Training runs with a directory of their own: configured, resumed, measured.

Parts: `experiment` builds a run from its configuration; `training` drives it
to its end, through `fit_loop` and from `checkpoints` (`checkpoint_schedule`
says when they are written); `workdir` names the files that a run leaves, and
`lock` keeps other processes from them; `provenance` records what they came
from; `strategies` are the devices; `inputs` loads the data and the models that
flags name. `evaluation_job` measures the classifier of a run,
`evaluation_files` keep the verdicts, and `evaluation_settings` tell whether
they are current; `export_job` exports it, and `lint_job` keeps what lint finds.
"""
