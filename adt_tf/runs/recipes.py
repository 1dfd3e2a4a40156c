"""Builds the parts of a trainer from flags: method, outer step, optimiser."""

from __future__ import annotations

from typing import Any

import keras

from adt_tf import data, losses, methods, schedules
from adt_tf.methods import Method
from adt_tf.optimizers import SGD, innermost
from adt_tf.runs.config import Config
from adt_tf.threat_models import ThreatModel
from adt_tf.training.averaging import WeightAverage
from adt_tf.training.outer_steps import AWP


def method(
    config: Config, train_data: data.ImageData, threat_model: ThreatModel
) -> Method:
    """Returns the training method, with label smoothing and sample weights.

    Args:
        config: Configuration of the run.
        train_data: Training set.
        threat_model: Threat model of the attack.
    """
    arguments = {**config.method_arguments(), "epsilon": threat_model}
    smoothing = config.label_smoothing
    accepted = methods.arguments(config.method)
    for name, value in (
        ("input_shape", train_data.input_shape),
        ("seed", config.seed),
        ("label_smoothing", smoothing),
    ):
        if name in accepted and value is not None:
            arguments[name] = value
    plain_method = methods.get(config.method, **arguments)
    loss = plain_method.loss
    if smoothing is not None and "label_smoothing" not in accepted:
        loss = losses.smoothed(loss, smoothing)
    if config.sample_temperature is not None:
        loss = losses.weighted(loss, config.sample_temperature)
    return plain_method._replace(loss=loss)


def outer_step(config: Config, steps_per_epoch: int) -> AWP | None:
    """Returns the weight perturbation, or None for plain gradient descent."""
    if not config.awp_size:
        return None
    return AWP(
        config.awp_size, warmup_steps=config.awp_warmup * steps_per_epoch
    )


def average(config: Config) -> WeightAverage | None:
    """Returns the moving average of the weights, or None."""
    if config.ema_momentum is None:
        return None
    return WeightAverage(config.ema_momentum)


def optimizer(
    config: Config, steps_per_epoch: int
) -> keras.optimizers.Optimizer:
    """Returns the optimiser of the classifier, with its learning rate."""
    rate = schedules.get(
        config.schedule,
        config.learning_rate,
        total_steps=config.epochs * steps_per_epoch,
        warmup_steps=round(config.rate_warmup * steps_per_epoch),
        drops=[steps_per_epoch * epoch for epoch in config.drop_after],
    )
    if config.optimizer == "adamw":
        return keras.optimizers.AdamW(
            rate,
            weight_decay=config.weight_decay,
            global_clipnorm=config.clip_norm,
        )
    return SGD(
        rate,
        momentum=config.momentum,
        l2=config.weight_decay,
        global_clipnorm=config.clip_norm,
    )


def learning_rate(optimizer: Any, step: int) -> float:
    """Returns the learning rate of a step, counted from 0."""
    rate = innermost(optimizer).get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)(step)
    return float(rate)
