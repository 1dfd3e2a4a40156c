"""ResNets for small images, with the activation before or after the sum.

In PyTorch's names:

    conv1, bn1, layer1.0.{conv1, bn1, conv2, bn2, shortcut.{0, 1}}, linear
    conv1, layer1.0.{bn1, conv1, bn2, conv2, shortcut.0}, bn, linear
    conv_2d, layer_0.0.{batchnorm_0, conv_2d_1, batchnorm_1, conv_2d_2,
        shortcut}, batchnorm, logits                            (DeepMind's)

The second one has pre-activation. A file without its `bn` does not show
whether shortcuts take a block's input before (`-raw`) or after its activation.
"""

from __future__ import annotations

import keras

from adt_tf.networks import dm_resnets
from adt_tf.networks.cifar_resnet import resnet
from adt_tf.networks.preact_resnet import preact_resnet
from adt_tf.networks.preactivation import Variant
from adt_tf.serving.bridge.layouts.base import (
    Layout,
    Request,
    Shapes,
    count_blocks,
)
from adt_tf.serving.bridge.layouts.wide_resnet import deepmind_settings

_DEPTHS: dict[tuple[int, ...], int] = {(2, 2, 2, 2): 18, (3, 4, 6, 3): 34}


def _depth(shapes: Shapes, kernel: str, first_stage: int) -> int | None:
    """Returns 18 or 34 by the numbers of blocks in four stages, or None."""
    return _DEPTHS.get(
        tuple(
            count_blocks(shapes, kernel.format(stage=first_stage + index))
            for index in range(4)
        )
    )


def _last(shapes: Shapes) -> str:
    return "fc.weight" if "fc.weight" in shapes else "linear.weight"


def _recognize(shapes: Shapes) -> list[str]:
    depth = _depth(shapes, r"layer{stage}\.(\d+)\.conv2\.weight", 1)
    if not depth or "bn1.weight" not in shapes:
        return []
    if "layer1.0.conv3.weight" not in shapes:
        return [f"resnet{depth}"]
    return ["resnet50"] if depth == 34 else []


def _recognize_preactivation(shapes: Shapes) -> list[str]:
    depth = _depth(shapes, r"layer{stage}\.(\d+)\.conv2\.weight", 1)
    if (
        not depth
        or "bn1.weight" in shapes
        or "layer1.0.conv3.weight" in shapes
        or "layer1.0.bn1.weight" not in shapes
    ):
        return []
    name = f"preact_resnet{depth}"
    return [name] if "bn.weight" in shapes else [name, f"{name}-raw"]


def _recognize_deepmind(shapes: Shapes) -> list[str]:
    depth = _depth(shapes, r"layer_{stage}\.(\d+)\.conv_2d_2\.weight", 0)
    return [f"dm-preact_resnet{depth}"] if depth else []


def _build(request: Request) -> keras.Model:
    return resnet(
        int(request.options["depth"]),
        input_shape=request.image_shape("conv1.weight"),
        num_classes=request.num_classes(_last(request.shapes)),
        normalization=request.normalization,
    )


def _build_preactivation(request: Request) -> keras.Model:
    return preact_resnet(
        int(request.options["depth"]),
        input_shape=request.image_shape("conv1.weight"),
        num_classes=request.num_classes(_last(request.shapes)),
        variant=Variant(
            raw_shortcut=request.options["raw"] is not None,
            final_normalization="bn.weight" in request.shapes,
            normalization=request.normalization,
        ),
    )


def _build_deepmind(request: Request) -> keras.Model:
    return dm_resnets.dm_preact_resnet(
        int(request.options["depth"]),
        **deepmind_settings(request, "conv_2d.weight"),
    )


_BLOCK = r"layer(?P<s>\d)\.(?P<b0>\d+)\."

RESNET = Layout(
    name="resnet<18, 34 or 50>",
    pattern=r"resnet-?(?P<depth>18|34|50)",
    recognize=_recognize,
    build=_build,
    modules={
        r"conv1": "stem",
        r"bn1": "stem_normalization",
        _BLOCK + r"conv(?P<i>\d)": "stage{s}_block{b}_convolution{i}",
        _BLOCK
        + r"bn(?P<i>\d)": "stage{s}_block{b}_convolution{i}_normalization",
        _BLOCK + r"(shortcut|downsample)\.0": "stage{s}_block{b}_shortcut",
        _BLOCK + r"(shortcut|downsample)\.1": (
            "stage{s}_block{b}_shortcut_normalization"
        ),
        r"linear|fc": "logits",
    },
)

PREACT_RESNET = Layout(
    name="preact_resnet<18 or 34>[-raw]",
    pattern=r"preact-?resnet-?(?P<depth>18|34)(?P<raw>-raw)?",
    recognize=_recognize_preactivation,
    build=_build_preactivation,
    modules={
        r"conv1": "stem",
        _BLOCK + r"conv(?P<i>\d)": "stage{s}_block{b}_convolution{i}",
        _BLOCK + r"bn(?P<i>\d)": "stage{s}_block{b}_normalization{i}",
        _BLOCK + r"shortcut\.0": "stage{s}_block{b}_shortcut",
        r"bn": "normalization",
        r"linear|fc": "logits",
    },
)

DEEPMIND_PREACT_RESNET = Layout(
    name="dm-preact_resnet<18 or 34>",
    pattern=(
        r"dm-preact-?resnet-?(?P<depth>18|34)(-(?P<activation>relu|silu))?"
    ),
    recognize=_recognize_deepmind,
    build=_build_deepmind,
    modules={
        r"conv_2d": "stem",
        r"layer_(?P<s0>\d)\.(?P<b0>\d+)\.batchnorm_(?P<i0>\d)": (
            "stage{s}_block{b}_normalization{i}"
        ),
        r"layer_(?P<s0>\d)\.(?P<b0>\d+)\.conv_2d_(?P<i>\d)": (
            "stage{s}_block{b}_convolution{i}"
        ),
        r"layer_(?P<s0>\d)\.(?P<b0>\d+)\.shortcut": (
            "stage{s}_block{b}_shortcut"
        ),
        r"batchnorm": "normalization",
        r"logits": "logits",
    },
)
