"""Trains the runs of a study, each once, through `adt_tf.runs.experiment`."""

from __future__ import annotations

import gc
import pathlib
import time
from typing import Any

from adt_tf import data
from adt_tf.reproduction import costs
from adt_tf.reproduction.study import Study
from adt_tf.runs import metrics
from adt_tf.runs.checkpoints import Checkpoints
from adt_tf.runs.experiment import Experiment
from adt_tf.runs.workdir import Workdir


def is_trained(study: Study, run: str, seed: int) -> bool:
    """Whether a run is finished; one of another configuration is refused."""
    workdir = Workdir(study.workdir(run, seed))
    if workdir.is_run:
        config = workdir.settled(study.config(run, seed))
        workdir.check_flags(config.to_flags())
    return workdir.is_finished


def train(study: Study, run: str, seed: int) -> None:
    """Trains what is missing of a run; notes the seconds of its steps."""
    workdir = Workdir(study.workdir(run, seed))
    config = workdir.settled(study.config(run, seed))
    if is_trained(study, run, seed):
        return
    experiment = Experiment.from_config(config)
    # Of a run that goes on it is not known here how many steps were done.
    is_new = not workdir.checkpoints.exists()
    start = time.time()
    experiment.train(workdir.path, flags=experiment.flags)
    if is_new:
        steps = data.steps_per_epoch(experiment.train_data, config.batch_size)
        seconds = (time.time() - start) / (config.epochs * steps)
        costs.Book(study.output).note_step(
            config, seconds, f"run {workdir.path.name}"
        )
    del experiment
    gc.collect()


def load_attack(study: Study, run: str, seed: int) -> Any:
    """The attack of a finished run, with its networks as they were trained."""
    workdir = Workdir(study.workdir(run, seed))
    config = workdir.settled(study.config(run, seed))
    experiment = Experiment.from_config(config)
    folder = workdir.checkpoints
    store = Checkpoints(folder, experiment.trainer.checkpoint(), writes=False)
    if store.restore() is None:
        raise ValueError(
            f"{folder} holds no checkpoint, so the generator of this run is "
            "lost. Delete its workdir to train it again."
        )
    return experiment.trainer.attack


def epochs_done(workdir: pathlib.Path) -> int:
    """How many epochs a run has logged."""
    return len(metrics.read(Workdir(workdir).metrics).get("epoch", ()))
