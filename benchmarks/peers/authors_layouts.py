"""Networks with the names and shapes of their authors' saved weights.

They follow the descriptions of the networks and the names in released files.
RobustBench has the other architectures.
"""

import torch
import torch.nn.functional as F
from torch import nn


class SmallCnn(nn.Module):
    """TRADES' SmallCNN, with `feature_extractor` and `classifier`."""

    def __init__(self):
        super().__init__()
        self.feature_extractor = nn.ModuleDict(
            {
                "conv1": nn.Conv2d(1, 32, 3),
                "conv2": nn.Conv2d(32, 32, 3),
                "conv3": nn.Conv2d(32, 64, 3),
                "conv4": nn.Conv2d(64, 64, 3),
            }
        )
        self.classifier = nn.ModuleDict(
            {
                "fc1": nn.Linear(1024, 200),
                "fc2": nn.Linear(200, 200),
                "fc3": nn.Linear(200, 10),
            }
        )

    def forward(self, x):
        for index in (1, 2, 3, 4):
            x = F.relu(self.feature_extractor[f"conv{index}"](x))
            if index % 2 == 0:
                x = F.max_pool2d(x, 2)
        x = x.flatten(1)
        x = F.relu(self.classifier["fc1"](x))
        x = F.relu(self.classifier["fc2"](x))
        return self.classifier["fc3"](x)


class LeNet5(nn.Module):
    """LeNet-5 for 28x28 images, with a padded first convolution."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class LeNet(nn.Module):
    """The network of PyTorch's MNIST example, with two dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 5)
        self.conv2 = nn.Conv2d(10, 20, 5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2)).flatten(1)
        return self.fc2(F.relu(self.fc1(x)))


def _convolution(inputs, filters, size=3):
    return nn.Conv2d(inputs, filters, size, padding=size // 2, bias=False)


class _Block(nn.Module):
    """relu(conv_block(x) + short_cut(x))."""

    def __init__(self, inputs, filters):
        super().__init__()
        self.short_cut = nn.Sequential()
        if inputs != filters:
            self.short_cut = nn.Sequential(
                _convolution(inputs, filters, 1), nn.BatchNorm2d(filters)
            )
        self.conv_block = nn.Sequential(
            _convolution(inputs, filters),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            _convolution(filters, filters),
            nn.BatchNorm2d(filters),
        )

    def forward(self, x):
        return F.relu(self.short_cut(x) + self.conv_block(x))


class Generator(nn.Module):
    """ADT's explicit generator, or the implicit one with a latent vector."""

    def __init__(self, inputs, outputs, width, latent=None):
        super().__init__()
        self.model = nn.Sequential(
            _convolution(inputs, width),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            _Block(width, 2 * width),
            _Block(2 * width, 2 * width),
            _Block(2 * width, width),
            _convolution(width, outputs),
        )
        if latent:
            self.z_encoder = nn.Sequential(
                nn.Linear(latent, 256),
                nn.ReLU(),
                nn.Linear(256, 1024),
                nn.ReLU(),
            )

    def forward(self, x, z=None):
        if z is None:
            return self.model(x)
        encoded = self.z_encoder(z).reshape(-1, 1, 32, 32)
        return torch.tanh(self.model(torch.cat([x, encoded], dim=1)))


class Encoder(nn.Module):
    """ADT's q: maps perturbations to means and raw variances of z."""

    def __init__(self, latent, width):
        super().__init__()
        layers = []
        inputs = 3
        for factor, size, stride in [
            (1, 5, 1),
            (2, 4, 2),
            (4, 4, 1),
            (8, 4, 2),
        ]:
            layers += [
                nn.Conv2d(inputs, factor * width, size, stride, bias=False),
                nn.BatchNorm2d(factor * width),
                nn.LeakyReLU(),
            ]
            inputs = factor * width
        self.main1 = nn.Sequential(*layers)
        self.main2 = nn.Sequential(nn.Linear(inputs, 2 * latent))

    def forward(self, x):
        return self.main2(self.main1(x).mean(dim=(2, 3)))


class SmallResNet(nn.Module):
    """A network of 12,000 weights with the parts of ordinary classifiers.

    It has a normalisation of the input, a strided stem with max pooling, a
    residual block with batch norm on its shortcut, a depthwise convolution, a
    squeeze and excitation, average pooling, and dense layers on a flattened
    map.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer(
            "mean", torch.tensor([0.5, 0.4, 0.3])[:, None, None]
        )
        self.register_buffer(
            "std", torch.tensor([0.2, 0.3, 0.4])[:, None, None]
        )
        self.stem = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.conv1 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(16)
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2, bias=False)
        self.shortcut_bn = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.squeeze = nn.Conv2d(16, 4, 1)
        self.excite = nn.Conv2d(4, 16, 1)
        self.fc1 = nn.Linear(64, 20)
        self.fc2 = nn.Linear(20, 10)

    def forward(self, x):
        x = (x - self.mean) / self.std
        x = F.leaky_relu(self.stem(x), 0.1)
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y)) + self.shortcut_bn(self.shortcut(x))
        x = F.silu(self.depthwise(F.relu(y)))
        gate = F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))
        x = x * torch.sigmoid(self.excite(gate))
        x = F.avg_pool2d(x, 2)
        x = x.view(x.size(0), -1)
        return self.fc2(F.relu6(self.fc1(x)))


class _PlainBlock(nn.Module):
    """relu(conv2(relu(conv1(x))) + shortcut(x)), without batch norm."""

    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, filters, 3, stride, padding=1)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != filters:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride))

    def forward(self, x):
        residual = self.conv2(F.relu(self.conv1(x)))
        return F.relu(residual + self.shortcut(x))


class ResNet2B(nn.Module):
    """ResNet-2B of alpha-beta-CROWN for CIFAR-10, with its normalisation."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.layer1 = nn.Sequential(
            _PlainBlock(8, 16, 2), _PlainBlock(16, 16, 1)
        )
        self.linear1 = nn.Linear(1024, 100)
        self.linear2 = nn.Linear(100, 10)

    def forward(self, x):
        mean = x.new_tensor([0.4914, 0.4822, 0.4465])[:, None, None]
        deviation = x.new_tensor([0.2471, 0.2435, 0.2616])[:, None, None]
        x = F.relu(self.conv1((x - mean) / deviation))
        x = self.layer1(x).flatten(1)
        return self.linear2(F.relu(self.linear1(x)))


class ColtNet(nn.Module):
    """The ConvMed network of colt for MNIST, with its normalisation."""

    def __init__(self):
        super().__init__()
        named = nn.ModuleDict
        self.blocks = named(
            {
                "layers": named(
                    {
                        "1": named({"conv": nn.Conv2d(1, 32, 5, 2, 2)}),
                        "3": named({"conv": nn.Conv2d(32, 64, 4, 2, 1)}),
                        "6": named({"linear": nn.Linear(3136, 100)}),
                        "8": named({"linear": nn.Linear(100, 10)}),
                    }
                )
            }
        )

    def forward(self, x):
        layers = self.blocks["layers"]
        x = F.relu(layers["1"]["conv"]((x - 0.1307) / 0.3081))
        x = F.relu(layers["3"]["conv"](x)).flatten(1)
        return layers["8"]["linear"](F.relu(layers["6"]["linear"](x)))
