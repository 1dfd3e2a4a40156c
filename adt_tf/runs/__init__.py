"""Training runs: configuration, resumption, evaluation and export.

- Configuration: `config` (fields in `flag_table`, rules in `flag_rules`),
  `flagfiles`, `protocols`.
- Building: `experiment` builds a run from its configuration, with the data and
  models of `inputs`, the parts of `recipes` and the devices of `strategies`.
- Training: `training` trains a run until its end by `fit_loop`;
  `checkpoint_schedule` decides when `checkpoints` are written.
- Files: `workdir` names the files of a run, `lock` keeps other processes out,
  `provenance` records the code and the data.
- Measuring: `evaluation_job` builds attacks and evaluates, `generators` trains
  the generators of attacks, `evaluation_files` stores the results, and
  `evaluation_settings` tells whether they are current; `artifact_job`
  evaluates exported files, `lint_job` stores lint results.
- Export: `export_job`.
"""
