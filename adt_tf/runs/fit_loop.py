"""`fit` with each batch split over the replicas of the trainer's strategy.

fit_loop.fit(trainer, batches, steps_per_epoch=100, epochs=3)
"""

from __future__ import annotations

import json
from collections.abc import Callable
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

    Keras' `fit` does not support several processes. With several, a loop of
    this module calls the same train_step, test_step, metrics and callbacks.
    Each worker runs the callbacks that are passed to it; pass those that write
    files to the chief only.

    Args:
        trainer: Trainer that was built and compiled in its strategy's scope.
        train: Infinite data set of global batches.
        validation_data: Finite data set of global batches, or None.
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


def _keras_loop(
    trainer: keras.Model,
    train: tf.data.Dataset,
    validation_data: tf.data.Dataset | None,
    **arguments: Any,
) -> keras.callbacks.History:
    return trainer.fit(
        train, validation_data=validation_data, shuffle=False, **arguments
    )


def _loop(
    trainer: keras.Model,
    train: tf.data.Dataset,
    validation_data: tf.data.Dataset | None,
    *,
    steps_per_epoch: int,
    initial_epoch: int = 0,
    epochs: int = 1,
    callbacks: list[keras.callbacks.Callback] | None = None,
) -> keras.callbacks.History:
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
    """The trainer's steps as functions over all replicas, with common logs.

    They are traced again when a callback calls
    `trainer.make_train_function(force=True)`, as `scale_epsilon` does.
    """

    def __init__(self, trainer: keras.Model):
        self.trainer = trainer
        self.functions: dict[str, Any] = {}

    def train(self, batch: Any) -> dict[str, float]:
        self.trainer.make_train_function()
        version = self.trainer.train_function
        return self._run("train", version, self.trainer.train_step, batch)

    def test(self, batch: Any) -> dict[str, float]:
        self.trainer.make_test_function()
        version = self.trainer.test_function
        return self._run("test", version, self.trainer.test_step, batch)

    def _run(
        self,
        name: str,
        version: Callable[..., Any],
        step: Callable[..., Any],
        batch: Any,
    ) -> dict[str, float]:
        if self.functions.get(name, (None,))[0] is not version:
            self.functions[name] = (version, self._function(step))
        names, values = self.functions[name][1](batch)
        names = json.loads(names.numpy())
        return dict(zip(names, values.numpy().tolist(), strict=True))

    def _function(self, step: Callable[..., Any]) -> Callable[..., Any]:
        strategy = self.trainer.distribute_strategy

        @tf.function(reduce_retracing=True, autograph=False)
        def run(batch):
            logs = {}

            def replica(batch):
                results = step(batch)
                logs["names"] = json.dumps(list(results))
                values = tf.stack(
                    [tf.cast(v, tf.float32) for v in results.values()]
                )
                return replication.sum_over_replicas(values)

            total = strategy.run(replica, args=(batch,))
            mean = strategy.experimental_local_results(total)[0]
            mean /= strategy.num_replicas_in_sync
            return tf.constant(logs["names"]), mean

        return run
