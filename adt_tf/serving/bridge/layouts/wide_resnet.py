"""Wide residual networks of ADT, TRADES, RobustBench and DeepMind.

In PyTorch's names, with d for the depth and k for the widen factor:

    conv1, block1.layer.0.{bn1, conv1, bn2, conv2, convShortcut}, bn1, fc
    init_conv, layer.0.block.0.{batchnorm_0, conv_0, batchnorm_1, conv_1,
        shortcut}, batchnorm, logits                            (DeepMind's)

TRADES' network also has a `sub_block1`, which it never runs.
"""

from __future__ import annotations

from typing import Any

import keras

from adt_tf.networks import dm_resnets
from adt_tf.networks.preactivation import Variant
from adt_tf.networks.wide_resnet import wide_resnet
from adt_tf.serving.bridge.layouts.base import (
    Layout,
    Request,
    Shapes,
    count_blocks,
)


def _recognize(shapes: Shapes) -> list[str]:
    kernel = "block{stage}.layer.{block}.conv2.weight"
    return wide_names(shapes, kernel, first_stage=1, prefix="")


def _recognize_deepmind(shapes: Shapes) -> list[str]:
    kernel = "layer.{stage}.block.{block}.conv_1.weight"
    return wide_names(shapes, kernel, first_stage=0, prefix="dm-")


def wide_names(
    shapes: Shapes,
    kernel: str,
    *,
    first_stage: int,
    prefix: str,
    depth_of_ends: int = 4,
) -> list[str]:
    """Returns the name that fits the second kernels of all blocks, if any.

    Args:
        shapes: Shapes of the arrays in the state dict, by name.
        kernel: Name of a block's second kernel, with `{stage}` and `{block}`.
        first_stage: Number of the first stage in the file.
        prefix: Text before `"wrn-<depth>-<widen_factor>"`.
        depth_of_ends: Depth minus 6 times the blocks of a stage.
    """
    stages = range(first_stage, first_stage + 3)
    first = shapes.get(kernel.format(stage=first_stage, block=0))
    if not first or len(first) != 4:
        return []
    widen_factor, remainder = divmod(first[0], 16)
    pattern = kernel.replace(".", r"\.").replace("{block}", r"(\d+)")
    num_blocks = count_blocks(shapes, pattern.format(stage=first_stage))
    expected = {
        kernel.format(stage=stage, block=block): (width, width, 3, 3)
        for stage, width in zip(
            stages, [first[0], 2 * first[0], 4 * first[0]], strict=True
        )
        for block in range(num_blocks)
    }
    # With every kernel present, the network is no larger than the file.
    if remainder or any(shapes.get(k) != s for k, s in expected.items()):
        return []
    return [f"{prefix}wrn-{6 * num_blocks + depth_of_ends}-{widen_factor}"]


def _build(request: Request) -> keras.Model:
    return wide_resnet(
        int(request.options["depth"]),
        int(request.options["widen_factor"]),
        input_shape=request.image_shape("conv1.weight"),
        num_classes=request.num_classes("fc.weight"),
        variant=Variant(
            use_bias="fc.weight" not in request.shapes
            or "fc.bias" in request.shapes,
            normalization=request.normalization,
        ),
    )


def _build_deepmind(request: Request) -> keras.Model:
    return dm_resnets.dm_wide_resnet(
        int(request.options["depth"]),
        int(request.options["widen_factor"]),
        **deepmind_settings(request, "init_conv.weight"),
    )


def deepmind_settings(request: Request, first: str) -> dict[str, Any]:
    """Returns the common arguments of DeepMind's networks.

    Args:
        request: Arguments of the layout's `build`.
        first: Name of the first convolution's kernel.
    """
    num_classes = request.num_classes("logits.weight")
    is_cifar100 = num_classes == 100
    default = dm_resnets.CIFAR100 if is_cifar100 else dm_resnets.CIFAR10
    input_shape = request.image_shape(first)
    if request.normalization is None and input_shape[-1] != len(default[0]):
        raise ValueError(
            "DeepMind's networks normalise their images, by numbers that are "
            f"not in the file. For images of {input_shape[-1]} channels pass "
            "normalization=(mean, deviation), such as ([0.5], [0.5])."
        )
    return {
        "input_shape": input_shape,
        "num_classes": num_classes,
        "activation": request.options["activation"] or "silu",
        "normalization": request.normalization or default,
    }


WIDE_RESNET = Layout(
    name="wrn-<depth>-<widen_factor>",
    pattern=r"wrn-(?P<depth>\d+)-(?P<widen_factor>\d+)",
    recognize=_recognize,
    build=_build,
    modules={
        r"conv1": "stem",
        r"block(?P<s>\d)\.layer\.(?P<b0>\d+)\.bn(?P<i>\d)": (
            "stage{s}_block{b}_normalization{i}"
        ),
        r"block(?P<s>\d)\.layer\.(?P<b0>\d+)\.conv(?P<i>\d)": (
            "stage{s}_block{b}_convolution{i}"
        ),
        r"block(?P<s>\d)\.layer\.(?P<b0>\d+)\.convShortcut": (
            "stage{s}_block{b}_shortcut"
        ),
        r"bn1": "normalization",
        r"fc": "logits",
    },
    unused=r"sub_block1\..*",
)

DEEPMIND_WIDE_RESNET = Layout(
    name="dm-wrn-<depth>-<widen_factor>",
    pattern=(
        r"dm-wrn-(?P<depth>\d+)-(?P<widen_factor>\d+)"
        r"(-(?P<activation>relu|silu))?"
    ),
    recognize=_recognize_deepmind,
    build=_build_deepmind,
    modules={
        r"init_conv": "stem",
        r"layer\.(?P<s0>\d)\.block\.(?P<b0>\d+)\.batchnorm_(?P<i0>\d)": (
            "stage{s}_block{b}_normalization{i}"
        ),
        r"layer\.(?P<s0>\d)\.block\.(?P<b0>\d+)\.conv_(?P<i0>\d)": (
            "stage{s}_block{b}_convolution{i}"
        ),
        r"layer\.(?P<s0>\d)\.block\.(?P<b0>\d+)\.shortcut": (
            "stage{s}_block{b}_shortcut"
        ),
        r"batchnorm": "normalization",
        r"logits": "logits",
    },
)
