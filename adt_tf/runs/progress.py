"""What a run prints: the data of an epoch, and the progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from adt_tf import data

if TYPE_CHECKING:
    from adt_tf.runs.experiment import Experiment


def data_summary(experiment: Experiment) -> str:
    """Returns the data of an epoch, in a line."""
    train, size = experiment.train_data, experiment.batch_size
    steps = data.steps_per_epoch(train, size)
    shape = "x".join(map(str, train.input_shape))
    place = ", read from the disk" if train.is_streamed else ""
    text = (
        f"Training on {len(train)} images of {train.num_classes} classes "
        f"({shape}{place}), {steps} steps of {size} per epoch"
    )
    left_out = len(train) - steps * size
    if experiment.extra_data is not None:
        own, extra = data.split_batch(size, experiment.extra_fraction)
        text += (
            f": {own} of these images and {extra} of "
            f"{len(experiment.extra_data)} extra ones in a step"
        )
    elif left_out:
        text += f"; left out of each epoch, at random: {left_out}"
    if experiment.validation_data is not None:
        text += f"; held out for validation: {len(experiment.validation_data)}"
    return f"{text}."


class Bar(keras.callbacks.ProgbarLogger):
    """Keras' progress bar, without the entropy of point masses, always 0."""

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        super().on_train_batch_end(batch, _without_zero_entropy(logs))

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        super().on_epoch_end(epoch, _without_zero_entropy(logs))


def _without_zero_entropy(logs: dict[str, Any] | None) -> dict[str, Any]:
    return {
        name: value
        for name, value in (logs or {}).items()
        if name not in ("entropy", "val_entropy") or float(value) != 0
    }
