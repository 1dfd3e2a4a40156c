"""The networks of adt_tf in PyTorch.

    network = build("wrn-10-1", input_shape=(32, 32, 3))
    logits = network(images)    # [batch, channels, height, width]

A twin has modules with the names of its Keras model's layers (with dots for
underscores), so that `weights.load` can set its weights by name. Images are
NCHW; shapes are those of Keras: (height, width, channels).
"""

import math
import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn


def build(name: str, *, input_shape: Sequence[int], **settings) -> nn.Module:
    """Builds the twin of a network with new weights, in inference mode.

    Args:
        name: "wrn-<depth>-<widen_factor>", "small_cnn", "explicit_generator",
            "implicit_generator" or "posterior".
        input_shape: Height, width and channels of an image.
        **settings: `num_classes` for a classifier; `width_factor` for the
            other networks, and `latent_size` for the last two.
    """
    wide = re.fullmatch(r"wrn-(\d+)-(\d+)", name)
    if wide:
        depth, widen_factor = map(int, wide.groups())
        network = WideResNet(depth, widen_factor, input_shape, **settings)
    elif name in _NETWORKS:
        network = _NETWORKS[name](input_shape, **settings)
    else:
        raise ValueError(
            "Argument `name` must be 'wrn-<depth>-<widen_factor>' or one of "
            f"{', '.join(_NETWORKS)}. Received: name={name!r}"
        )
    is_attack = not isinstance(network, (WideResNet, SmallCnn))
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            size = module.kernel_size[0] * module.kernel_size[1]
            deviation = math.sqrt(2 / (size * module.out_channels))
            nn.init.normal_(module.weight, std=0.02 if is_attack else deviation)
        elif isinstance(module, nn.Linear):
            limit = 1 / math.sqrt(module.in_features)
            nn.init.uniform_(module.weight, -limit, limit)
            nn.init.zeros_(module.bias)
    return network.eval()


def _convolution(inputs, filters, kernel_size, stride=1) -> nn.Conv2d:
    return nn.Conv2d(
        inputs,
        filters,
        kernel_size,
        stride=stride,
        padding=kernel_size // 2,
        bias=False,
    )


class PreactivationBlock(nn.Module):
    """W2 * relu(bn2(W1 * a)) + shortcut, with a = relu(bn1(x))."""

    def __init__(self, inputs: int, filters: int, stride: int):
        super().__init__()
        self.normalization1 = nn.BatchNorm2d(inputs)
        self.convolution1 = _convolution(inputs, filters, 3, stride)
        self.normalization2 = nn.BatchNorm2d(filters)
        self.convolution2 = _convolution(filters, filters, 3)
        self.shortcut = None
        if stride != 1 or inputs != filters:
            self.shortcut = _convolution(inputs, filters, 1, stride)

    def forward(self, x):
        activated = F.relu(self.normalization1(x))
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        residual = F.relu(self.normalization2(self.convolution1(activated)))
        return shortcut + self.convolution2(residual)


class WideResNet(nn.Module):
    """WRN-depth-widen_factor: three stages of (depth - 4) / 6 blocks."""

    def __init__(self, depth, widen_factor, input_shape, *, num_classes=10):
        super().__init__()
        self.stem = _convolution(input_shape[-1], 16, 3)
        inputs = 16
        self.blocks = []
        for stage, stride in enumerate([1, 2, 2], start=1):
            filters = 16 * 2 ** (stage - 1) * widen_factor
            for block in range(1, (depth - 4) // 6 + 1):
                name = f"stage{stage}_block{block}"
                first = block == 1
                self.add_module(
                    name,
                    PreactivationBlock(inputs, filters, stride if first else 1),
                )
                self.blocks.append(name)
                inputs = filters
        self.normalization = nn.BatchNorm2d(inputs)
        self.logits = nn.Linear(inputs, num_classes)

    def forward(self, x):
        x = self.stem(x)
        for name in self.blocks:
            x = getattr(self, name)(x)
        x = F.relu(self.normalization(x))
        return self.logits(x.mean(dim=(2, 3)))


class SmallCnn(nn.Module):
    """Three convolutions, each with batch normalisation and ReLU."""

    def __init__(self, input_shape, *, num_classes=10, width=32):
        super().__init__()
        inputs = input_shape[-1]
        for name, filters, stride in [
            ("relu1", width, 1),
            ("relu2", 2 * width, 2),
            ("features", 4 * width, 2),
        ]:
            self.add_module(
                f"{name}_convolution", _convolution(inputs, filters, 3, stride)
            )
            self.add_module(f"{name}_normalization", nn.BatchNorm2d(filters))
            inputs = filters
        self.logits = nn.Linear(inputs, num_classes)

    def forward(self, x):
        for name in ("relu1", "relu2", "features"):
            x = getattr(self, f"{name}_convolution")(x)
            x = F.relu(getattr(self, f"{name}_normalization")(x))
        return self.logits(x.mean(dim=(2, 3)))


class ResidualBlock(nn.Module):
    """relu(bn(W2 * relu(bn(W1 * x))) + shortcut(x))."""

    def __init__(self, inputs: int, filters: int):
        super().__init__()
        self.convolution1 = _convolution(inputs, filters, 3)
        self.convolution1_normalization = nn.BatchNorm2d(filters)
        self.convolution2 = _convolution(filters, filters, 3)
        self.convolution2_normalization = nn.BatchNorm2d(filters)
        self.shortcut = None
        if inputs != filters:
            self.shortcut = _convolution(inputs, filters, 1)
            self.shortcut_normalization = nn.BatchNorm2d(filters)

    def forward(self, x):
        residual = self.convolution1_normalization(self.convolution1(x))
        residual = self.convolution2(F.relu(residual))
        residual = self.convolution2_normalization(residual)
        if self.shortcut is not None:
            x = self.shortcut_normalization(self.shortcut(x))
        return F.relu(x + residual)


class ExplicitGenerator(nn.Module):
    """Maps [x, g1, g2] to the channels of mu, then the channels of rho."""

    outputs_per_channel = 2

    def __init__(self, input_shape, *, width_factor=1.0, extra_inputs=0):
        super().__init__()
        channels = input_shape[-1]
        narrow, wide = _scaled(256, width_factor), _scaled(512, width_factor)
        self.stem = _convolution(3 * channels + extra_inputs, narrow, 3)
        self.stem_normalization = nn.BatchNorm2d(narrow)
        self.block1 = ResidualBlock(narrow, wide)
        self.block2 = ResidualBlock(wide, wide)
        self.block3 = ResidualBlock(wide, narrow)
        self.head = _convolution(narrow, self.outputs_per_channel * channels, 3)

    def forward(self, conditioning):
        x = F.relu(self.stem_normalization(self.stem(conditioning)))
        return self.head(self.block3(self.block2(self.block1(x))))


class ImplicitGenerator(ExplicitGenerator):
    """Maps [x, g1, g2] and z to perturbations divided by epsilon."""

    outputs_per_channel = 1

    def __init__(self, input_shape, *, latent_size=64, width_factor=1.0):
        super().__init__(input_shape, width_factor=width_factor, extra_inputs=1)
        height, width, _ = input_shape
        self.latent_dense1 = nn.Linear(latent_size, 256)
        self.latent_dense2 = nn.Linear(256, height * width)

    def forward(self, conditioning, z):
        encoded = F.relu(self.latent_dense2(F.relu(self.latent_dense1(z))))
        size = conditioning.shape[2:]
        encoded = encoded.reshape(-1, 1, *size)
        x = torch.cat([conditioning, encoded], dim=1)
        return torch.tanh(super().forward(x))


class Posterior(nn.Module):
    """Maps perturbations / epsilon to the means and raw variances of z."""

    def __init__(self, input_shape, *, latent_size=64, width_factor=1.0):
        super().__init__()
        inputs = input_shape[-1]
        # Images below 20 pixels are too small for unpadded convolutions.
        self.padded = min(input_shape[:2]) < 20
        for index, (filters, kernel_size, stride) in enumerate(
            [(32, 5, 1), (64, 4, 2), (128, 4, 1), (256, 4, 2)], start=1
        ):
            filters = _scaled(filters, width_factor)
            self.add_module(
                f"convolution{index}",
                nn.Conv2d(inputs, filters, kernel_size, stride, bias=False),
            )
            self.add_module(f"normalization{index}", nn.BatchNorm2d(filters))
            inputs = filters
        self.mean_and_raw_variance = nn.Linear(inputs, 2 * latent_size)

    def forward(self, x):
        for index in range(1, 5):
            convolution = getattr(self, f"convolution{index}")
            if self.padded:
                x = _pad_same(x, convolution)
            x = getattr(self, f"normalization{index}")(convolution(x))
            x = F.leaky_relu(x, 0.01)
        return self.mean_and_raw_variance(x.mean(dim=(2, 3)))


def _pad_same(x, convolution):
    """Pads as TensorFlow's "same": an odd pixel is added below and right."""
    sides = []
    for size, kernel_size, stride in zip(
        x.shape[:1:-1],
        convolution.kernel_size[::-1],
        convolution.stride[::-1],
        strict=True,
    ):
        total = max((-(-size // stride) - 1) * stride + kernel_size - size, 0)
        sides += [total // 2, total - total // 2]
    return F.pad(x, sides)


def _scaled(width: int, width_factor: float) -> int:
    return max(1, round(width * width_factor))


_NETWORKS = {
    "small_cnn": SmallCnn,
    "explicit_generator": ExplicitGenerator,
    "implicit_generator": ImplicitGenerator,
    "posterior": Posterior,
}
