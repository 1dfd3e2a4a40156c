"""Trains the runs of a study through `adt_tf.runs.experiment`."""

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
    """Tells whether a run is finished.

    Raises `ValueError` if its workdir holds another configuration.
    """
    workdir = Workdir(study.workdir(run, seed))
    if workdir.is_run:
        config = workdir.settled(study.config(run, seed))
        workdir.check_flags(config.to_flags())
    return workdir.is_finished


def train(study: Study, run: str, seed: int) -> None:
    """Trains the rest of a run and records the cost of its steps."""
    workdir = Workdir(study.workdir(run, seed))
    config = workdir.settled(study.config(run, seed))
    if is_trained(study, run, seed):
        return
    experiment = Experiment.from_config(config)
    # A resumed run does not know how many steps this process took.
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
    """Returns the attack of a finished run with its trained networks."""
    experiment = _experiment(study, run, seed)
    folder = Workdir(study.workdir(run, seed)).checkpoints
    store = Checkpoints(folder, experiment.trainer.checkpoint(), writes=False)
    if store.restore() is None:
        raise ValueError(
            f"{folder} holds no checkpoint, so the generator of this run is "
            "lost. Delete its workdir to train it again."
        )
    return experiment.trainer.attack


class Epochs:
    """The classifier of a finished run after each of its epochs.

    The run must have kept all its checkpoints (`--keep_checkpoints`).

    Args:
        study: Study of the run.
        run: Name of the run.
        seed: Seed of the run.
    """

    def __init__(self, study: Study, run: str, seed: int) -> None:
        self._experiment = _experiment(study, run, seed)
        self._folder = Workdir(study.workdir(run, seed)).checkpoints
        self._steps = data.steps_per_epoch(
            self._experiment.train_data, self._experiment.batch_size
        )

    @property
    def train_data(self) -> data.ImageData:
        """The training set."""
        return self._experiment.train_data

    def classifier(self, epoch: int) -> Any:
        """Returns the classifier after an epoch, counted from 1.

        Each call changes the weights of the one classifier of this object.
        """
        path = self._folder / f"step-{epoch * self._steps:08d}"
        if not path.is_dir():
            raise ValueError(
                f"{path} does not exist, so the classifier after epoch {epoch} "
                "is lost. Delete the workdir of this run to train it again."
            )
        trainer = self._experiment.trainer
        trainer.checkpoint().read(str(path / "state")).assert_consumed()
        return trainer.classifier


def epochs_done(workdir: pathlib.Path) -> int:
    """Returns the number of epochs that a run has logged."""
    return len(metrics.read(Workdir(workdir).metrics).get("epoch", ()))


def _experiment(study: Study, run: str, seed: int) -> Experiment:
    """Builds the experiment of a run with the settings of its workdir."""
    workdir = Workdir(study.workdir(run, seed))
    return Experiment.from_config(workdir.settled(study.config(run, seed)))
