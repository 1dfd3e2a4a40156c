"""Schedules of the learning rate.

    schedules.get("cosine", 0.1, total_steps=7800, warmup_steps=390)
    schedules.get("steps", 0.1, total_steps=7800, drops=(5000,))

`Warmup` and `OneCycle` are Keras schedules; the others are Keras' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras

from adt_tf.checks import arguments

Schedule: TypeAlias = keras.optimizers.schedules.LearningRateSchedule

#: Names of the schedules.
NAMES = ("steps", "cosine", "one_cycle")
# Default position of the peak of one cycle, as a fraction of all steps.
_PEAK = 0.3


@keras.saving.register_keras_serializable("adt_tf")
class Warmup(Schedule):
    """A rate that rises linearly to that of another schedule.

        rate_t = schedule_t * min(1, (t + 1) / warmup_steps)

    Args:
        schedule: Number, or schedule of Keras.
        warmup_steps: Number of steps until the full rate.
    """

    def __init__(self, schedule: Any, warmup_steps: int):
        self.schedule = schedule
        self.warmup_steps = arguments.integer_at_least(
            1, warmup_steps=warmup_steps
        )

    def __call__(self, step: Any) -> Any:
        """Returns the rate of a step, counted from 0."""
        rate = self.schedule
        if callable(rate):
            rate = rate(step)
        step = keras.ops.cast(step, "float32")
        share = keras.ops.minimum(1.0, (step + 1.0) / self.warmup_steps)
        return rate * share

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        schedule = self.schedule
        if callable(schedule):
            schedule = keras.optimizers.schedules.serialize(schedule)
        return {"schedule": schedule, "warmup_steps": self.warmup_steps}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Warmup:
        """Returns the schedule that `get_config` describes."""
        schedule = config["schedule"]
        if isinstance(schedule, dict):
            schedule = keras.optimizers.schedules.deserialize(schedule)
        return cls(schedule, config["warmup_steps"])


@keras.saving.register_keras_serializable("adt_tf")
class OneCycle(Schedule):
    """A rate that rises linearly to its peak, then falls linearly to 0.

        rate_t = peak * (t + 1) / warmup_steps                    to the peak
        rate_t = peak * (total_steps - t) / (total_steps - warmup_steps)  then

    Args:
        peak: Largest rate.
        total_steps: Number of steps until the rate is 0.
        warmup_steps: Number of steps until the peak.

    Reference: Smith, A Disciplined Approach to Neural Network
    Hyper-parameters, 2018.
    """

    def __init__(self, peak: float, total_steps: int, warmup_steps: int):
        self.peak = arguments.number_at_least(0, peak=peak)
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        """Returns the rate of a step, counted from 0."""
        step = keras.ops.cast(step, "float32")
        up = (step + 1.0) / max(1, self.warmup_steps)
        down = self.total_steps - step
        down /= self.total_steps - self.warmup_steps
        share = keras.ops.minimum(up, down) if self.warmup_steps else down
        return self.peak * keras.ops.clip(share, 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
        }


def get(
    name: str,
    rate: float,
    *,
    total_steps: int,
    warmup_steps: int = 0,
    drops: Sequence[int] = (),
) -> float | Schedule:
    """Returns the learning rate of a run, a number or a schedule.

    Args:
        name: "steps" for a rate that is divided by 10 at each drop, "cosine"
            for a rate that falls to 0 along half a cosine, or "one_cycle".
        rate: Largest rate.
        total_steps: Number of steps of the run.
        warmup_steps: Number of steps over which the rate rises; 0 for none (for
            "one_cycle": 30 % of the steps).
        drops: Steps, counted from 0, at which the rate is divided by 10.

    Example:

    >>> [round(float(get("one_cycle", 1.0, total_steps=10)(t)), 2)
    ...  for t in (0, 2, 3, 9)]
    [0.33, 1.0, 1.0, 0.14]
    """
    arguments.one_of(NAMES, name=name)
    if not 0 <= warmup_steps < total_steps:
        raise arguments.error(
            f"be below {total_steps}, the number of all steps",
            warmup_steps=warmup_steps,
        )
    if drops and name != "steps":
        raise arguments.error("be empty for another schedule", drops=drops)
    if name == "one_cycle":
        return OneCycle(
            rate, total_steps, warmup_steps or int(_PEAK * total_steps)
        )
    schedules = keras.optimizers.schedules
    if name == "cosine":
        if not warmup_steps:
            return schedules.CosineDecay(rate, total_steps)
        return schedules.CosineDecay(
            rate / warmup_steps,
            total_steps - warmup_steps,
            warmup_target=rate,
            warmup_steps=warmup_steps,
        )
    schedule: Any = rate
    if drops:
        # Keras keeps the rate before a drop while iterations <= boundary.
        schedule = schedules.PiecewiseConstantDecay(
            [step - 1 for step in drops],
            [rate * 0.1**n for n in range(len(drops) + 1)],
        )
    return Warmup(schedule, warmup_steps) if warmup_steps else schedule
