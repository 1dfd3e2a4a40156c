"""Rules on combinations of flags."""

from __future__ import annotations

from typing import Any

from adt_tf.runs import flag_fields


def check(config: Any) -> None:
    """Raises `ValueError` if flags of a run cannot be combined.

    Args:
        config: An `adt_tf.runs.config.Config` whose single fields have been
            checked.
    """
    drops = list(config.drop_after)
    if drops != sorted(set(drops)) or min(drops, default=1) < 1:
        raise ValueError(
            "--drop_after must be increasing epochs of at least 1, as in "
            "100,150. Received: "
            f"{flag_fields.format_value(config.drop_after)}"
        )
    for name in ("weights", "frozen_layers"):
        value = getattr(config, name)
        if value and not config.network.startswith("keras:"):
            raise ValueError(
                f"--{name} requires a network of keras.applications, as in "
                f"--network=keras:MobileNetV2. Received: --{name}={value} "
                f"with --network={config.network}"
            )
    for ours, other, example in (
        ("awp_warmup", "awp_size", "--awp_size=0.005"),
        ("extra_data", "extra_fraction", "--extra_fraction=0.7"),
        ("extra_fraction", "extra_data", "--extra_data=FILE.npz"),
    ):
        if getattr(config, ours) and not getattr(config, other):
            raise ValueError(
                f"--{ours} requires --{other}, as in {example}. "
                f"Received: --{ours}={getattr(config, ours)} alone"
            )
    if config.sample_temperature and config.outer_samples == 1:
        raise ValueError(
            "--sample_temperature weights several samples, so it requires "
            "--outer_samples above 1. Received: "
            f"--sample_temperature={config.sample_temperature} with "
            "--outer_samples=1"
        )
    if config.drop_after and config.schedule != "steps":
        raise ValueError(
            "--drop_after requires --schedule=steps. For another schedule "
            "pass an empty list, --drop_after=. Received: --drop_after="
            f"{flag_fields.format_value(config.drop_after)} with "
            f"--schedule={config.schedule}"
        )
    if config.rate_warmup >= config.epochs:
        raise ValueError(
            f"--rate_warmup must be below --epochs={config.epochs}. "
            f"Received: {config.rate_warmup:g}"
        )
    if config.clip_norm and config.distribute != "none":
        raise ValueError(
            "--clip_norm would clip the gradient of each device separately: "
            "remove it, or use --distribute=none. Received: "
            f"--clip_norm={config.clip_norm:g} with "
            f"--distribute={config.distribute}"
        )
    own = config.network_file or config.network.startswith("keras:")
    if config.activation is not None and own:
        raise ValueError(
            "--activation requires a network of adt_tf, such as wrn-10-1. "
            "Received: "
            f"--activation={config.activation} with --network={config.network}"
        )
    if config.architecture is not None and not config.network_file:
        raise ValueError(
            "--architecture requires a file of weights, as in "
            "--network=weights.pt. Received: "
            f"--architecture={config.architecture} with "
            f"--network={config.network}"
        )
    if (
        len(config.image_size) not in (0, 2)
        or min(config.image_size or (1,)) < 1
    ):
        raise ValueError(
            "--image_size must be a height and a width, as in 64,64. "
            f"Received: {flag_fields.format_value(config.image_size)}"
        )
    if config.keep_best and not config.validation_examples:
        raise ValueError(
            "--keep_best requires validation examples: set their number, as "
            "in --validation_examples=1000."
        )
    if config.distribute == "multiworker" and config.on_nonfinite != "stop":
        raise ValueError(
            "--on_nonfinite=rollback requires all devices in one process: "
            "with --distribute=multiworker use --on_nonfinite=stop."
        )
    if (
        config.search_precision == "bfloat16"
        and config.precision == "mixed_float16"
    ):
        raise ValueError(
            "--search_precision=bfloat16 cannot be combined with "
            "--precision=mixed_float16: use mixed_bfloat16, or set one of them "
            "to float32."
        )
