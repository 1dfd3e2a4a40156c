"""`fit` with every batch split over the replicas of the trainer's strategy.

distributed_fit.fit(trainer, batches, steps_per_epoch=100, epochs=3)
"""

from __future__ import annotations

import json
from typing import Any

import keras
import tensorflow as tf

from adt_tf import checks, replication
from adt_tf.runs import strategies


def fit(
    trainer: keras.Model,
    train: tf.data.Dataset,
    *,
    validation_data: tf.data.Dataset | None = None,
    **arguments: Any,
) -> keras.callbacks.History:
    """Calls `trainer.fit` with each batch split over the trainer's replicas.

    Keras' `fit` cannot work with other processes. There a loop of our own
    drives the same train_step and test_step, metrics and callbacks. Every
    worker runs the callbacks that it is given: give those that write to the
    chief alone.

    Args:
        trainer: Built and compiled in the scope of its strategy.
        train: Endless batches of all replicas together.
        validation_data: Such batches that end.
        **arguments: `steps_per_epoch`, `initial_epoch`, `epochs`, `callbacks`.
    """
    strategy = trainer.distribute_strategy
    if strategy.num_replicas_in_sync > 1:
        train = strategies.split(strategy, train)
        if validation_data is not None:
            validation_data = strategies.split(strategy, validation_data)
    if not strategies.is_multiworker(strategy):
        return _keras_loop(trainer, train, validation_data, **arguments)
    with strategies.lost_workers_told(), checks.failures_told():
        return _loop(trainer, train, validation_data, **arguments)


def _keras_loop(trainer, train, validation_data, **arguments):
    return trainer.fit(
        train, validation_data=validation_data, shuffle=False, **arguments
    )


def _loop(
    trainer,
    train,
    validation_data,
    *,
    steps_per_epoch,
    initial_epoch=0,
    epochs=1,
    callbacks=None,
):
    strategy = trainer.distribute_strategy
    calls = keras.callbacks.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=strategies.is_chief(strategy),
        verbose=1 if strategies.is_chief(strategy) else 0,
        epochs=epochs,
        steps=steps_per_epoch,
        model=trainer,
    )
    steps = _Steps(trainer)
    batches = iter(train)
    logs: dict[str, Any] = {}
    trainer.stop_training = False
    calls.on_train_begin()
    for epoch in range(initial_epoch, epochs):
        trainer.reset_metrics()
        calls.on_epoch_begin(epoch)
        for step in range(steps_per_epoch):
            calls.on_train_batch_begin(step)
            logs = steps.train(next(batches))
            calls.on_train_batch_end(step, logs)
            if trainer.stop_training:
                break
        epoch_logs = dict(logs)
        if validation_data is not None:
            trainer.reset_metrics()
            calls.on_test_begin()
            for batch in validation_data:
                logs = steps.test(batch)
            calls.on_test_end(logs)
            epoch_logs |= {f"val_{name}": logs[name] for name in logs}
        calls.on_epoch_end(epoch, epoch_logs)
        if trainer.stop_training:
            break
    trainer.optimizer.finalize_variable_values(trainer.trainable_weights)
    calls.on_train_end(epoch_logs)
    return trainer.history


class _Steps:
    """The trainer's steps as functions on all replicas, with one log of all.

    A callback that calls `trainer.make_train_function(force=True)`, as
    `scale_epsilon` does, has them traced anew.
    """

    def __init__(self, trainer: keras.Model):
        self.trainer = trainer
        self.functions = {}

    def train(self, batch):
        self.trainer.make_train_function()
        version = self.trainer.train_function
        return self._run("train", version, self.trainer.train_step, batch)

    def test(self, batch):
        self.trainer.make_test_function()
        version = self.trainer.test_function
        return self._run("test", version, self.trainer.test_step, batch)

    def _run(self, name, version, step, batch):
        if self.functions.get(name, (None,))[0] is not version:
            self.functions[name] = (version, self._function(step))
        names, values = self.functions[name][1](batch)
        names = json.loads(names.numpy())
        return dict(zip(names, values.numpy().tolist(), strict=True))

    def _function(self, step):
        strategy = self.trainer.distribute_strategy

        @tf.function(reduce_retracing=True, autograph=False)
        def run(batch):
            logs = {}

            def replica(batch):
                found = step(batch)
                logs["names"] = json.dumps(list(found))
                values = tf.stack(
                    [tf.cast(v, tf.float32) for v in found.values()]
                )
                return replication.sum_over_replicas(values)

            total = strategy.run(replica, args=(batch,))
            mean = strategy.experimental_local_results(total)[0]
            mean /= strategy.num_replicas_in_sync
            return tf.constant(logs["names"]), mean

        return run
