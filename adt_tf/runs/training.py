"""Trains a run until its last epoch, with resumption and rollbacks.

A run is a sequence of calls of `fit`, each of which starts from the newest
checkpoint: one when the command starts, one after the rest of an epoch that an
earlier process began, and one with other noise after a loss that is not finite,
if rollbacks are allowed. Every start restores a checkpoint if there is one, so
resumption is not a special case.
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
    """Trains an experiment, from the newest checkpoint of the workdir on.

    Args:
        experiment: An `adt_tf.runs.experiment.Experiment`.
        workdir: Directory of the run.
        make_callbacks: Function that returns the callbacks of a `fit`,
            including the given one.
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

    def restore() -> dict[str, Any]:
        record = store.restore() or {"step": 0, "metrics": None}
        # All workers must have read before the chief writes again.
        strategies.check_equal(strategy, "checkpoint", record["step"])
        return record

    record = restore()
    if record["step"]:
        print(
            f"Resuming after step {record['step']} of "
            f"{steps * experiment.epochs}."
        )
    _build_metrics(experiment)
    with _sigterm() as stop_event:
        while record["step"] < steps * experiment.epochs:
            if experiment.is_chief:
                metrics.drop_epochs(workdir.metrics, record["step"] // steps)
            save = SaveState(
                store,
                experiment.policy,
                steps_per_epoch=steps,
                step=record["step"],
                metrics=record["metrics"],
                stop_asked=stop_event.is_set,
            )
            try:
                _fit(experiment, save, make_callbacks(save))
            except EpochDone:
                pass
            except NotFinite as error:
                _go_back(experiment, store, error)
            # The chief must have written before the other workers read.
            strategies.check_equal(strategy, "step", save.step)
            record = restore()


def _build_metrics(experiment: Any) -> None:
    """Builds the compiled metrics now, so that a checkpoint can restore them.

    Keras would build them in the first step.
    """
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
    """Calls `fit` once, from the step of `save` on."""
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
        # Keras calls `on_train_end` only if training ends without an error.
        for callback in callbacks:
            if callback is not save:
                # The callback may not have started; `error` is what matters.
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
                f"{what}. The checkpoint in {save.store.directory} is kept; "
                "free some space, then repeat the command."
            ) from error
        raise


def _raise_if_checked(error: Exception, attack: Any, step: int) -> None:
    """Raises a readable error if a check inside the graph has failed."""
    for text, what in (
        (checks.NOT_FINITE, "The loss or a gradient"),
        (checks.IMAGE_NOT_FINITE, f"An adversarial image ({attack.name})"),
    ):
        if text in str(error):
            raise NotFinite(what, step) from error
    if checks.ESCAPED in str(error):
        raise ValueError(
            f"{attack.name} left its threat model {attack.threat_model} in "
            f"step {step + 1}, so the run has stopped before updating the "
            "weights. If the attack is your own, let it return "
            "`threat_model.project(x, x_adv)`."
        ) from error


def _go_back(experiment: Any, store: Checkpoints, error: NotFinite) -> None:
    """Saves the end of the last epoch as the newest state, with other noise.

    It takes the end of an epoch, not the newest checkpoint: that one depends on
    the clock and on signals, which must not affect the results.
    """
    trainer, bound = experiment.trainer, experiment.max_rollbacks
    num_rollbacks = int(trainer.rollbacks.numpy())
    indices = experiment.batch_indices(error.step)
    message = (
        f"{error} The batch holds the examples {', '.join(map(str, indices))} "
        "of the training set, counted from 0."
    )
    if num_rollbacks >= bound:
        advice = (
            f"{num_rollbacks} rollbacks did not help."
            if bound
            else "Repeat the command with --on_nonfinite=rollback."
        )
        raise ValueError(
            f"{message} The last good state is kept in {store.directory}. "
            f"{advice} Or start in another --workdir with a smaller "
            "--learning_rate, with --epsilon_warmup or with --label_smoothing."
        ) from None
    record = store.restore(milestone=True)
    if record is None:
        raise ValueError(
            f"{message} {store.directory} holds no checkpoint to go back to."
        ) from None
    trainer.rollbacks.assign(num_rollbacks + 1)
    store.save(step=record["step"], rollbacks=num_rollbacks + 1, record=record)
    print(
        f"\nwarning: {message} Rolling back to step {record['step']} with "
        f"other noise: rollback {num_rollbacks + 1} of at most {bound}.",
        file=sys.stderr,
    )


@contextlib.contextmanager
def _sigterm() -> Iterator[threading.Event]:
    """Yields an event that SIGTERM sets instead of ending the process."""
    stop_event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop_event  # Only the main thread can handle signals.
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stop_event.set())
    try:
        yield stop_event
    finally:
        signal.signal(signal.SIGTERM, before)
