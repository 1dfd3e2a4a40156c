"""Decides when a run saves a checkpoint, and saves it."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from adt_tf.optimizers import has_usable_scale
from adt_tf.runs import strategies
from adt_tf.runs.checkpoints import Checkpoints

# Exit code that shells report for a process ended by SIGTERM.
TERMINATED = 128 + 15


@dataclasses.dataclass(frozen=True)
class Policy:
    """The times of checkpoints within an epoch, and the number to keep.

    A checkpoint is always saved at the end of an epoch.

    Args:
        steps: Number of steps between checkpoints; 0 saves none by steps.
        minutes: Number of minutes between checkpoints; 0 saves none by time.
        keep: Number of checkpoints to keep on disk.
    """

    steps: int = 0
    minutes: float = 10.0
    keep: int = 2

    def __post_init__(self) -> None:
        for name, value, least in (
            ("checkpoint_steps", self.steps, 0),
            ("checkpoint_minutes", self.minutes, 0),
            ("keep_checkpoints", self.keep, 1),
        ):
            if not value >= least:
                raise ValueError(
                    f"--{name} must be at least {least}. Received: {value}"
                )


class EpochDone(Exception):
    """Signals the end of an epoch that an earlier process began."""


class NotFinite(ArithmeticError):
    """Signals a step whose result is not finite.

    Args:
        what: Quantity that is not finite.
        step: Step, counted from 0 as in `adt_tf.data.batch_indices`.
    """

    def __init__(self, what: str, step: int):
        super().__init__(f"{what} of step {step + 1} is not finite.")
        self.step = step


class SaveState(keras.callbacks.Callback):
    """Saves a checkpoint after each epoch, and within epochs by a policy.

    A checkpoint within an epoch includes the running metrics, so that the logs
    are the same whether or not the run was interrupted. The checkpoint of an
    epoch's end is saved when the next epoch begins, or when training ends: by
    then the logs of the epoch are on disk, and averaged weights have been
    swapped back for the trained ones. In the list of callbacks it therefore
    comes after `callbacks.AveragedWeights` and before all others.

    Raises `NotFinite` if a weight is not finite, before it is saved.

    Args:
        store: Checkpoints of the run.
        policy: Times of checkpoints within an epoch.
        steps_per_epoch: Number of steps in a whole epoch.
        step: Number of steps that the run has taken.
        metrics: Values of the metrics in the unfinished epoch, from the record
            that `store.restore()` returned; None for a new epoch.
        stop_asked: Function that returns whether to save now and exit, as
            after SIGTERM.
    """

    def __init__(
        self,
        store: Checkpoints,
        policy: Policy,
        *,
        steps_per_epoch: int,
        step: int = 0,
        metrics: list[Any] | None = None,
        stop_asked: Callable[[], bool] = lambda: False,
    ):
        super().__init__()
        self.store = store
        self.policy = policy
        self.steps_per_epoch = steps_per_epoch
        self.step = step
        self.metrics = metrics
        self.stop_asked = stop_asked

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Saves the initial state of a new run, to detect a full disk now."""
        self.begun_in_mid_epoch = self.step % self.steps_per_epoch > 0
        self.first_epoch = True
        self.saved_at = time.monotonic()
        if self.step == 0:
            self._save()

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Saves the end of the last epoch, or restores its metrics."""
        if not self.first_epoch:
            self._save()
            self._stop_if(self._any_worker(self.stop_asked())[0])
            if self.begun_in_mid_epoch:
                raise EpochDone
        elif self.metrics:
            for variable, value in zip(
                self._metric_variables(), self.metrics, strict=True
            ):
                variable.assign(np.asarray(value, variable.dtype))
        self.first_epoch = False

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Saves if the policy says so, except after the last step."""
        self.step += 1
        step, policy = self.step, self.policy
        if step % self.steps_per_epoch == 0:
            self._check()  # Before validation and `RobustCheckpoint`.
            return
        waited = time.monotonic() - self.saved_at
        due = (policy.steps and step % policy.steps == 0) or (
            policy.minutes and waited >= 60 * policy.minutes
        )
        due, stop = self._any_worker(bool(due), self.stop_asked())
        if due or stop:
            self._save([_as_json(v) for v in self._metric_variables()])
            self._stop_if(stop)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Saves the final state."""
        self._save()

    def _metric_variables(self) -> list[Any]:
        return [v for metric in self.model.metrics for v in metric.variables]

    def _save(self, metrics: list[Any] | None = None) -> None:
        self._check()
        self.store.save(
            step=self.step,
            rollbacks=int(self.model.rollbacks.numpy()),
            record={"step": self.step, "metrics": metrics},
        )
        self.saved_at = time.monotonic()

    def _check(self) -> None:
        """Raises `NotFinite` if a weight or a loss scale is not finite."""
        trainer = self.model
        for model in [trainer.classifier, *trainer.attack_networks]:
            if not all(np.isfinite(v).all() for v in model.variables):
                raise NotFinite("A weight", self.step - 1)
        for optimizer in [trainer.optimizer, trainer.attack_optimizer]:
            if not has_usable_scale(optimizer):
                what = "The loss scale, or one divided by it,"
                raise NotFinite(what, self.step - 1)

    def _any_worker(self, *flags: bool) -> list[bool]:
        """Combines flags over all workers, so that they save the same step."""
        strategy = self.model.distribute_strategy
        return strategies.any_worker(strategy, *flags)

    def _stop_if(self, stop: bool) -> None:
        if stop:
            print(
                f"\nStopped by SIGTERM after step {self.step}. The state is "
                f"saved in {self.store.directory}; repeat the command to "
                "continue.",
                file=sys.stderr,
            )
            raise SystemExit(TERMINATED)


def _as_json(variable: Any) -> Any:
    """Returns the values of a variable, as text if some are not finite."""
    value = variable.numpy()
    if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
        value = value.astype(str)
    return value.tolist()
