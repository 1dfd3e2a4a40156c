"""Saves the state of a run, so that the same command goes on from it."""

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

# What a shell reports of a process that SIGTERM has ended.
TERMINATED = 128 + 15


@dataclasses.dataclass(frozen=True)
class Policy:
    """When a run saves its state besides the end of each epoch, and how much.

    Args:
        steps: Save after every so many steps; 0 does not.
        minutes: Save when so long has passed since the last time; 0 does not.
        keep: How many checkpoints stay on the disk.
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
    """The rest of an epoch that was begun elsewhere is done and saved."""


class NotFinite(ArithmeticError):
    """A step has given what is no number, and cannot be gone on from.

    Args:
        what: Is not finite.
        step: Counted from 0, as `adt_tf.data.batch_indices` does.
    """

    def __init__(self, what: str, step: int):
        super().__init__(f"{what} of step {step + 1} is not finite.")
        self.step = step


class SaveState(keras.callbacks.Callback):
    """Saves the state after each epoch, and in between as a policy has it.

    In mid-epoch that includes the running metrics, so that the epoch's row in
    a log is the same whether or not the run was stopped. The state after an
    epoch is saved when the next one begins, and at the end: after all that an
    epoch leaves behind is on the disk, and after averaged weights have been
    swapped back for those that are trained. So it comes after
    `callbacks.AveragedWeights` in the list, and before all others.

    Weights that are not finite are neither saved nor measured: `NotFinite`.

    Args:
        store: Where to save.
        policy: When to save in mid-epoch.
        steps_per_epoch: Of a whole epoch.
        step: How many steps the run has taken.
        metrics: Of the epoch in which the run goes on, from the record that
            `store.restore()` has given; None for those of a new epoch.
        stop_asked: Whether to save now and exit, as after SIGTERM.
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
        """Saves the start of a new run: a full disk is noticed here."""
        self.begun_in_mid_epoch = self.step % self.steps_per_epoch > 0
        self.first_epoch = True
        self.saved_at = time.monotonic()
        if self.step == 0:
            self._save()

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Saves what the epoch before has left, or takes up its metrics."""
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
        """Saves if it is time to; after an epoch's last step that waits."""
        self.step += 1
        step, policy = self.step, self.policy
        if step % self.steps_per_epoch == 0:
            self._check()  # before validation and the best epoch's measure
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
        """Saves the end."""
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
        """Raises where the last step has left what cannot be gone on from."""
        trainer = self.model
        for model in [trainer.classifier, *trainer.attack_networks]:
            if not all(np.isfinite(v).all() for v in model.variables):
                raise NotFinite("A weight", self.step - 1)
        for optimizer in [trainer.optimizer, trainer.attack_optimizer]:
            if not has_usable_scale(optimizer):
                what = "The loss scale, or one divided by it,"
                raise NotFinite(what, self.step - 1)

    def _any_worker(self, *flags: bool) -> list[bool]:
        """What one worker wants all do, so that all are at the same step."""
        strategy = self.model.distribute_strategy
        return strategies.any_worker(strategy, *flags)

    def _stop_if(self, asked: bool) -> None:
        if asked:
            print(
                f"\nStopped by SIGTERM after step {self.step}. The state is "
                f"saved in {self.store.directory}; repeat the command to go "
                "on.",
                file=sys.stderr,
            )
            raise SystemExit(TERMINATED)


def _as_json(variable: Any) -> Any:
    """Returns a variable's numbers; as text where JSON has none for them."""
    value = variable.numpy()
    if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
        value = value.astype(str)
    return value.tolist()
