"""Trains to the end, whatever happens on the way.

A run is a chain of `fit`s, each from the newest checkpoint: the first when the
command is repeated, another at the end of an epoch that was begun by a process
that is gone, and, where that is allowed, another with other noise after a step
that was not finite. So going on after a kill is the only way in, and every run
takes it.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks, data, files
from adt_tf.runs import fit_loop, metrics, strategies
from adt_tf.runs.checkpoint_schedule import EpochDone, NotFinite, SaveState
from adt_tf.runs.checkpoints import Checkpoints, SaveError
from adt_tf.runs.workdir import Workdir


def train_to_the_end(
    experiment: Any,
    workdir: Workdir,
    make_callbacks: Callable[[SaveState], list[keras.callbacks.Callback]],
) -> None:
    """Goes on with an experiment from what the workdir holds.

    Args:
        experiment: An `adt_tf.runs.experiment.Experiment`.
        workdir: Directory of the run.
        make_callbacks: Returns those of a `fit`, the given one among them.
    """
    steps = data.steps_per_epoch(experiment.train_data, experiment.batch_size)
    store = Checkpoints(
        workdir.checkpoints,
        experiment.trainer.checkpoint(),
        keep=experiment.policy.keep,
        milestone=steps,
        writes=experiment.is_chief,
    )
    strategy = experiment.trainer.distribute_strategy

    def restored():
        record = store.restore() or {"step": 0, "metrics": None}
        # All workers must have read before the chief writes again.
        strategies.check_equal(strategy, "checkpoint", record["step"])
        return record

    record = restored()
    if record["step"]:
        print(
            f"Going on after step {record['step']} of "
            f"{steps * experiment.epochs}."
        )
    _make_metrics(experiment)
    with _sigterm() as asked:
        while record["step"] < steps * experiment.epochs:
            if experiment.is_chief:
                metrics.drop_epochs(workdir.metrics, record["step"] // steps)
            save = SaveState(
                store,
                experiment.policy,
                steps_per_epoch=steps,
                step=record["step"],
                metrics=record["metrics"],
                stop_asked=asked.is_set,
            )
            try:
                _fit(experiment, save, make_callbacks(save))
            except EpochDone:
                pass
            except NotFinite as error:
                _go_back(experiment, store, error)
            # And the chief must have written before the others read.
            strategies.check_equal(strategy, "step", save.step)
            record = restored()


def _make_metrics(experiment: Any) -> None:
    """Keras makes those of `compile` at the first step: too late to restore."""
    logits = tf.zeros([1, experiment.train_data.num_classes])
    labels = tf.zeros([1], tf.int32)
    trainer = experiment.trainer
    with trainer.distribute_strategy.scope():
        trainer.distribute_strategy.run(
            trainer.compute_metrics, (None, labels, logits)
        )
    trainer.reset_metrics()


def _fit(
    experiment: Any, save: SaveState, callbacks: list[keras.callbacks.Callback]
) -> None:
    """One `fit`, from the step that `save` is at."""
    held_out, size = experiment.validation_data, experiment.batch_size
    epoch, position = divmod(save.step, save.steps_per_epoch)
    try:
        fit_loop.fit(
            experiment.trainer,
            experiment.batches(save.step),
            validation_data=held_out and data.eval_pipeline(held_out, size),
            steps_per_epoch=save.steps_per_epoch - position,
            initial_epoch=epoch,
            epochs=experiment.epochs,
            callbacks=callbacks,
        )
    except BaseException as error:
        # Keras tells callbacks of an end that is reached, not of this one.
        for callback in callbacks:
            if callback is not save:
                # It may never have begun; the error at hand is to be told.
                with contextlib.suppress(Exception):
                    callback.on_train_end()
        if isinstance(error, tf.errors.InvalidArgumentError | ValueError):
            _raise_if_checked(error, experiment.trainer.attack, save.step)
        reason = files.disk_error(error)
        if reason and not isinstance(error, SaveError):
            if isinstance(error, files.DiskError):
                what = str(error)
            else:
                what = f"{reason}: the files of the run cannot be written"
            raise files.DiskError(
                f"{what}. Its state in {save.store.directory} is kept; make "
                "room, then repeat the command."
            ) from error
        raise


def _raise_if_checked(error: Exception, attack: Any, step: int) -> None:
    """Says for people what a check in the graph has found, if one has."""
    for text, what in (
        (checks.NOT_FINITE, "The loss or a gradient"),
        (checks.IMAGE_NOT_FINITE, f"An adversarial image ({attack.name})"),
    ):
        if text in str(error):
            raise NotFinite(what, step) from error
    if checks.ESCAPED in str(error):
        raise ValueError(
            f"{attack.name} left its threat model {attack.threat_model} in "
            f"step {step + 1}, so the run has stopped before it learnt from "
            "it. If the attack is your own, return "
            "`threat_model.project(x, x_adv)`."
        ) from error


def _go_back(experiment: Any, store: Checkpoints, error: NotFinite) -> None:
    """Saves the last epoch's end as the newest state, with other noise.

    The end of an epoch, not the newest checkpoint: which one that is may
    depend on the clock and on signals, and the run would with it.
    """
    trainer, bound = experiment.trainer, experiment.max_rollbacks
    done = int(trainer.rollbacks.numpy())
    indices = experiment.batch_indices(error.step)
    message = (
        f"{error} Its batch: the examples {', '.join(map(str, indices))} of "
        "the training set, counted from 0."
    )
    if done >= bound:
        advice = (
            "try --on_nonfinite=rollback,"
            if not bound
            else (f"{done} rollbacks were of no help;")
        )
        raise ValueError(
            f"{message} The last good state is kept in {store.directory}. To "
            f"go on from there {advice} or in another --workdir a smaller "
            "--learning_rate, --epsilon_warmup, or --label_smoothing."
        ) from None
    record = store.restore(milestone=True)
    trainer.rollbacks.assign(done + 1)
    store.save(step=record["step"], rollbacks=done + 1, record=record)
    print(
        f"\nwarning: {message} Going back to step {record['step']} with other "
        f"noise: rollback {done + 1} of at most {bound}.",
        file=sys.stderr,
    )


@contextlib.contextmanager
def _sigterm() -> Iterator[threading.Event]:
    """Yields an event that SIGTERM sets, in place of ending the process."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # Python has signals for the main thread only
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
